"""Sentences are made from fields: every combination says what its fields say, and no field is read from a sentence."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import mixnorm
from mixnorm.montage import sentences
from mixnorm.montage.result import FoldsUsed, Stability
from mixnorm.montage.verdict_records import ChanceLevel, FewFolds, FewTrials, Recommendation

PLAIN = Recommendation(
    n_sensors=4,
    verdict="recommended",
    n_asked=None,
    best_n_sensors=9,
    best_auc=0.91234,
    below_best=0.01,
    standard_error=0.0123,
    few_trials=None,
    chance_level=None,
    few_folds=None,
)
NOISE = ChanceLevel("best", 0.41, 0.82)


@pytest.mark.parametrize(
    "changes, label, reason",
    [
        (
            {},
            "recommended",
            "The smallest montage within one standard error (0.012) of the best (0.912 with 9 electrodes).",
        ),
        (
            {"standard_error": None},
            "recommended",
            "The smallest montage within one standard error of the best (0.912 with 9 electrodes).",
        ),
        (
            {"n_sensors": 9},
            "recommended",
            "The montage with the highest AUC (0.912 with 9 electrodes); no smaller one is within one standard error "
            "of it.",
        ),
        (
            {"verdict": "asked", "n_asked": 4},
            "asked for",
            "4 electrodes were asked for; the AUC is 0.010 below the best (0.912 with 9 electrodes).",
        ),
        (
            {"verdict": "asked", "n_asked": 1, "n_sensors": 1, "best_n_sensors": 1},
            "asked for",
            "1 electrode was asked for; no other number of electrodes has a higher AUC.",
        ),
        ({"verdict": "unsure", "chance_level": NOISE}, "smallest near the best", sentences.reason(PLAIN)),
        ({"verdict": "unsure", "chance_level": NOISE, "n_asked": 4}, "asked for", None),
    ],
)
def test_label_and_reason(changes, label, reason):
    found = replace(PLAIN, **changes)
    assert sentences.label(found) == label
    assert reason is None or sentences.reason(found) == reason
    unsure = found.verdict == "unsure"
    assert sentences.headline(found) == ("No montage can be recommended with confidence" if unsure else "")


@pytest.mark.parametrize(
    "changes, caution",
    [
        ({}, None),
        (
            {"few_folds": FewFolds(2, 0.1, 0.9)},
            "Only 2 folds: the decoder is better than chance, but the intervals (0.100 … 0.900 for the best montage) "
            "say little about another session; record more.",
        ),
        (
            {"few_folds": FewFolds(1, None, None)},
            "Only 1 fold: the decoder is better than chance, but the intervals say little about another session; "
            "record more.",
        ),
        (
            {"verdict": "unsure", "few_trials": FewTrials(7, None)},
            "Only 7 target trials: too few to compare electrodes; record more.",
        ),
        (
            {"verdict": "unsure", "few_trials": FewTrials(1, 4), "chance_level": NOISE},
            "Only 1 target trial and 4 nontarget trials: too few to compare electrodes; record more. The 95 % interval "
            "of the best montage (0.410 … 0.820) includes chance level (0.5): these trials do not show that any "
            "electrode helps; record more.",
        ),
        (
            {"verdict": "unsure", "chance_level": ChanceLevel("chosen", None, None)},
            "The 95 % interval of the chosen montage includes chance level (0.5): these trials do not show that this "
            "montage is better than chance; record more, or use more electrodes.",
        ),
    ],
)
def test_caution(changes, caution):
    assert sentences.caution(replace(PLAIN, **changes)) == caution


@pytest.mark.parametrize(
    "kinds, said",
    [
        ({"A": "session", "B": "session"}, None),
        ({"A": "character"}, "Only one session: training and held-out trials are from the same session"),
        ({"A": "session", "B": "block", "C": "character"}, "Only one session of B, C: training"),
        ({"A": "run"}, "Only two sessions, whose runs are the folds: training"),
        ({"A": "run", "B": "session"}, "Only two sessions of A, whose runs are the folds: training"),
    ],
)
def test_scores_within_a_session_may_be_optimistic(kinds, said):
    found = sentences.optimistic(FoldsUsed(5, kinds))
    if said is None:
        assert found is None
    else:
        assert found.startswith(said)
        assert found.endswith("may be optimistic for another day.")


def test_the_bound_of_stability_selection():
    found = Stability(n_resamplings=50, n_first=5, threshold=0.75, error_bound=1.04, selected=("Cz",))
    said = sentences.stability(found)
    assert said.startswith(
        "1 electrode was among the first 5 on the path in at least 75 % of 100 random halves of the trials. "
        "At most 1.0 of them"
    )
    several = sentences.stability(replace(found, selected=("Cz", "Pz"), n_first=None))
    assert several.startswith("2 electrodes were selected in at least 75 % of 100 random halves")


def test_nothing_is_decided_by_the_text_of_a_sentence():
    """Outside the reader of version 1, no module searches in a sentence, and the page's script cuts none."""
    package = Path(mixnorm.__file__).parent
    sources = [*(package / "montage").glob("*.py"), *(package / "report" / "page").iterdir()]
    sources += [package / "report" / "selection_files.py", package / "commands" / "select.py"]
    search = re.compile(r"startswith|startsWith|\.includes\(\"|in reason|in caution|(reason|caution|headline)\.slice")
    found = [path.name for path in sources if path.is_file() and search.search(path.read_text(encoding="utf-8"))]
    assert found == ["reading.py"]
