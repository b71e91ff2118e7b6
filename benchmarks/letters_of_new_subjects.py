"""Letters of a new subject after one calibration character, with and without the recordings of other subjects.

    MIXNORM_DATA=... python benchmarks/letters_of_new_subjects.py --jobs 16 --keep letters.jsonl

The splits of letters.py: one calibration character is drawn from the first half of the characters of a subject of
uam-p300, and all of the second half are spelled by mixnorm's posterior. Every subject is new in turn.

    svm          an SVM on the calibration character
    svm-noise    the same with ``noise="evoked"``
    no-labels    the mean classifier of the others, adapted to the noise of the calibration character, without labels
    adapt        the others' classifier, adapted to the calibration character with its labels

The other subjects are fitted together (``penalty="l2", noise="evoked"``) on ``--others`` characters of each. One
line per subject and split is added to the file ``--keep``; a run that was stopped goes on where it was. Brackets are
95 % percentile intervals of 2000 bootstrap samples of subjects.
"""

import argparse
import json
import os
from itertools import product
from pathlib import Path

import numpy as np
from _letters import held_out, letter, load_uam, train
from _letters_statistics import bootstrap, table
from joblib import Parallel, delayed

from mixnorm import MultiTaskGroupSVCCV
from mixnorm.eeg import MATRICES, ChannelScaler, InOrder
from mixnorm.eeg.evidence import FlashEvidence, flash_correlation
from mixnorm.eeg.flashes import Flashes
from mixnorm.estimators.calibration import fit_sigmoid

METHODS = ("svm", "svm-noise", "no-labels", "adapt")
SHOWN = (1, 2, 3, 5, 10, 15)


class Adapted:
    """A joint model of other subjects as an estimator of one new subject."""

    def __init__(self, model: MultiTaskGroupSVCCV, labels: bool) -> None:
        self.model, self.labels = model, labels

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Adapted":
        """Adapt to calibration trials; the labels are used or not."""
        self.model.adapt(X, y if self.labels else None, subject="new")
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Score trials of the new subject."""
        return self.model.decision_function(X, subjects="new")


def joint_fit(data: dict, subject: str, n_characters: int) -> MultiTaskGroupSVCCV:
    """Fit all subjects but one together, on their first characters, channels scaled subject by subject."""
    parts = []
    for other in np.unique(data["subject"]):
        own = np.flatnonzero(data["subject"] == other)
        first = list(dict.fromkeys(data["character"][own].tolist()))[:n_characters]
        own = own[np.isin(data["character"][own], first)]
        X = ChannelScaler().fit(data["X"][own]).transform(data["X"][own])
        parts += [(X, data["y"][own].astype(int), data["character"][own], data["subject"][own])] * (other != subject)
    X, y, characters, subjects = (np.concatenate(columns) for columns in zip(*parts))
    model = MultiTaskGroupSVCCV(penalty="l2", noise="evoked", cv=InOrder(), tol=1e-3)
    return model.fit(X, y, subjects=subjects, groups=characters)


def scored(method: str, model: MultiTaskGroupSVCCV, X, y, groups, codes, tested) -> tuple[np.ndarray, FlashEvidence]:
    """Return the scores of test trials, and their evidence by calibration trials that were held out."""
    if method in ("svm", "svm-noise"):
        trained = train(method, X, y, groups, codes, tested)
        return trained.score, trained.evidence
    own = Adapted(model, labels=method == "adapt")
    scores = held_out(lambda: own, X, y, groups)
    calibration = fit_sigmoid(scores, np.where(y == 1, 1.0, -1.0), np.ones(len(y)))
    evidence = FlashEvidence.of(calibration, flash_correlation(scores, y, codes, groups), len(np.unique(groups)))
    return own.fit(X, y).decision_function(tested), evidence


def unit(data: dict, model: MultiTaskGroupSVCCV, subject: str, seed: int) -> dict:
    """Return the letters right by repetitions, (methods, 15), of one new subject and one split."""
    rng = np.random.default_rng([seed, int.from_bytes(str(subject).encode(), "little")])
    mine = np.flatnonzero(data["subject"] == subject)
    order = rng.permutation(list(dict.fromkeys(data["character"][mine].tolist())))
    half = len(order) // 2
    learn, test = (mine[np.isin(data["character"][mine], part)] for part in (order[:1], order[half:]))
    y, codes, groups = (data[name][learn].astype(int) for name in ("y", "stimulus", "character"))
    scaler = ChannelScaler().fit(data["X"][learn])
    X, tested = (scaler.transform(data["X"][part]) for part in (learn, test))
    right = {}
    for method in METHODS:
        score, evidence = scored(method, model, X, y, groups, codes, tested)
        letters = []
        for character in dict.fromkeys(data["character"][test].tolist()):
            own = data["character"][test] == character
            part = test[own]
            about = data["y"][part].astype(int), None, str(data["letter"][part][0]), f"{subject}, {character}"
            flashes = Flashes(data["stimulus"][part].astype(int), score[own], *about)
            letters.append(letter(flashes, MATRICES["6x6-rows-first"], evidence)["posterior"])
        right[method] = np.mean(letters, axis=0).round(5).tolist()
    return {"subject": str(subject), "seed": seed, "right": right}


def run(options: argparse.Namespace) -> list[dict]:
    """Return the results of all units; what ``--keep`` holds is not computed again."""
    lines = [json.loads(line) for line in options.keep.read_text().splitlines()] if options.keep.exists() else []
    known = {(c["subject"], c["seed"]): c for c in lines if c["others"] == options.others}
    data = load_uam()
    subjects = np.unique(data["subject"]).tolist()
    wanted = list(product(subjects, options.seeds))
    missing = [key for key in wanted if key not in known]
    needed = [s for s in subjects if any(subject == s for subject, _ in missing)]
    parallel = Parallel(n_jobs=options.jobs, max_nbytes="1M", return_as="generator_unordered")
    models = Parallel(n_jobs=options.jobs)(delayed(joint_fit)(data, s, options.others) for s in needed)
    models = dict(zip(needed, models))
    for found in parallel(delayed(unit)(data, models[s], s, seed) for s, seed in missing):
        known[found["subject"], found["seed"]] = found
        with options.keep.open("a") as file:
            file.write(json.dumps({"others": options.others, **found}) + "\n")
    return [known[key] for key in wanted]


def cells(values: dict[str, np.ndarray], sign: str = "") -> list[str]:
    """Mean over subjects and its interval, in percent, at the repetitions shown; values: {subject: (15,)}."""
    names = np.array(sorted(values))

    def mean(drawn):
        return 100 * np.mean([values[who] for who in drawn], axis=0)

    low, high = bootstrap(names, mean)
    return [f"{mean(names)[k - 1]:{sign}.0f} [{low[k - 1]:{sign}.0f}, {high[k - 1]:{sign}.0f}]" for k in SHOWN]


def main() -> None:
    """Print letters right by repetitions, and differences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(7)))
    parser.add_argument("--others", type=int, default=4, help="characters of each other subject")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, default=Path(os.devnull), help="JSON lines, one per subject and split")
    options = parser.parse_args()
    units = run(options)
    by_subject = {
        method: {
            who: np.mean([u["right"][method] for u in units if u["subject"] == who], axis=0)
            for who in {u["subject"] for u in units}
        }
        for method in METHODS
    }
    heads = ("method", *map(str, SHOWN))
    table("Letters right by repetitions (percent)", heads, [(f"`{m}`", *cells(by_subject[m])) for m in METHODS])
    ours, rows = by_subject["adapt"], []
    for method in METHODS[:-1]:
        leads = {who: ours[who] - own for who, own in by_subject[method].items()}
        rows.append((f"`adapt` − `{method}`", *cells(leads, "+")))
    table("Differences (points)", ("difference", *map(str, SHOWN)), rows)


if __name__ == "__main__":
    main()
