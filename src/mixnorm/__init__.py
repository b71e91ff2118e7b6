"""Which EEG electrodes does a brain-computer interface need? Mixed-norm large-margin classifiers, certified."""

from mixnorm.estimators.path import Path, group_svc_path
from mixnorm.estimators.persistence import load, save
from mixnorm.estimators.selector import SensorSelector
from mixnorm.estimators.stability import StabilitySelection, stability_selection
from mixnorm.estimators.svc import GroupSVC
from mixnorm.estimators.svc_cv import GroupSVCCV
from mixnorm.execution.device import use_device
from mixnorm.subjects.baselines import PerSubjectSVC, PooledSVC
from mixnorm.subjects.multitask import MultiTaskGroupSVC
from mixnorm.subjects.multitask_cv import MultiTaskGroupSVCCV
from mixnorm.version import __version__

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
    "__version__",
    "group_svc_path",
    "load",
    "save",
    "stability_selection",
    "use_device",
]
