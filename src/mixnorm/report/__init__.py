"""Tables and figures of a study, from its folder of results, and pictures of results in Python."""

from importlib import import_module
from typing import Any

#: Name → module of this folder, which is imported when the name is asked for: ``mixnorm select`` uses other modules of
#: this folder before its first progress bar, and should not wait for figures and studies.
_PLACES = {
    **dict.fromkeys(
        ("plot_auc_curve", "plot_letters", "plot_montage", "plot_path", "plot_patterns", "plot_windows"), "plots"
    ),
    **dict.fromkeys(("Written", "write_report"), "study_files"),
    **dict.fromkeys(("TABLE_FORMATS", "table"), "tables"),
}

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


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"mixnorm.report.{_PLACES[name]}"), name)
