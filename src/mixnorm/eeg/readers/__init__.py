"""Reading recordings: one module per format, and the dispatcher that finds the right one."""

from mixnorm.eeg.readers.dispatch import SUFFIXES, read_recording, read_recordings
from mixnorm.eeg.readers.options import ReadOptions

__all__ = ["SUFFIXES", "ReadOptions", "read_recording", "read_recordings"]
