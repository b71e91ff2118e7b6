"""Which EEG electrodes does a brain-computer interface need? Mixed-norm large-margin classifiers, certified."""

from ._device import use_device
from .baselines import PerSubjectSVC, PooledSVC
from .multitask import MultiTaskGroupSVC
from .multitask_cv import MultiTaskGroupSVCCV
from .path import Path, group_svc_path
from .persistence import load, save
from .selection import SensorSelector
from .stability import StabilitySelection, stability_selection
from .svc import GroupSVC, GroupSVCCV

__version__ = "0.1.0"
__all__ = [
    "GroupSVC",
    "GroupSVCCV",
    "MultiTaskGroupSVC",
    "MultiTaskGroupSVCCV",
    "Path",
    "PerSubjectSVC",
    "PooledSVC",
    "SensorSelector",
    "StabilitySelection",
    "group_svc_path",
    "load",
    "save",
    "stability_selection",
    "use_device",
]
