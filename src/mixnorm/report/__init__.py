"""Tables and figures of a study, from its folder of results, and pictures of results in Python."""

from importlib import import_module
from typing import Any

from mixnorm.report.study_files import Written, write_report
from mixnorm.report.tables import TABLE_FORMATS, table

#: Names of `mixnorm.report.plots`, which is imported when they are asked for.
_OF_PLOTS = ("plot_auc_curve", "plot_letters", "plot_montage", "plot_path", "plot_patterns", "plot_windows")

__all__ = [
    "TABLE_FORMATS",
    "Written",
    "plot_auc_curve",
    "plot_letters",
    "plot_montage",
    "plot_path",
    "plot_patterns",
    "plot_windows",
    "table",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _OF_PLOTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("mixnorm.report.plots"), name)
