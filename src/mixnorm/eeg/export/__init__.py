"""Models for other programs: ONNX, and parameter files of BCI2000."""

from mixnorm.eeg.export.converters import register_converters
from mixnorm.eeg.export.onnx_model import to_onnx
from mixnorm.eeg.export.parameters import ExportError, to_bci2000

__all__ = ["ExportError", "register_converters", "to_bci2000", "to_onnx"]
