"""The methods for one subject by name: what the paper calls them, and the parameters of `GroupSVCCV` that they are."""

from typing import Any

#: The q that GSVM-q chooses from, as in the paper.
PAPER_QS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
#: The ridges that ``gsvm-2-noise`` chooses from, for features of unit variance. Chosen on development splits of
#: uam-p300, ner2015-errp and bigp3bci-a: 10 alone is as good where trials are few, 1 where they are many.
NOISE_RIDGES = (0.1, 1.0, 10.0)
#: Number of equal windows of ``gsvm-2-when``, and the shares of the windows in the penalty that it chooses from.
N_WINDOWS, WINDOW_SHARES = 6, (0.2, 0.5, 0.8)

#: Name in plans and on the command line → parameters of `GroupSVCCV`.
SETTINGS: dict[str, dict[str, Any]] = {
    "svm": {"penalty": "l2"},
    "svm-1": {"penalty": "l1"},
    "gsvm-2": {"penalty": "group"},
    "gsvm-q": {"penalty": "group", "q": PAPER_QS},
    "gsvm-a": {"penalty": "group", "adaptive": True},
    "gsvm-2-when": {"penalty": "group", "windows": N_WINDOWS, "window_share": WINDOW_SHARES},
    "svm-noise": {"penalty": "l2", "noise": "evoked"},
    "gsvm-2-noise": {"penalty": "group", "noise": "structured", "ridge": NOISE_RIDGES},
}
