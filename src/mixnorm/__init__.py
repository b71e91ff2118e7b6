"""Which EEG electrodes does a brain-computer interface need? Mixed-norm large-margin classifiers, certified.

The names of this package are imported when they are first used. scikit-learn takes a second or two to import, and
``mixnorm --help``, or the first line of ``mixnorm select``, should not wait for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mixnorm.version import __version__

if TYPE_CHECKING:  # for type checkers and editors, which do not follow `__getattr__`
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

#: Module → the public names that it defines.
_NAMES = {
    "estimators.path": ("Path", "group_svc_path"),
    "estimators.persistence": ("load", "save"),
    "estimators.selector": ("SensorSelector",),
    "estimators.stability": ("StabilitySelection", "stability_selection"),
    "estimators.svc": ("GroupSVC",),
    "estimators.svc_cv": ("GroupSVCCV",),
    "execution.device": ("use_device",),
    "subjects.baselines": ("PerSubjectSVC", "PooledSVC"),
    "subjects.multitask": ("MultiTaskGroupSVC",),
    "subjects.multitask_cv": ("MultiTaskGroupSVCCV",),
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            value = getattr(import_module(f"mixnorm.{module}"), name)
            globals()[name] = value  # the next access does not come here
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
