"""The choices of a new subject, by hindsight: how far its noise is shrunk towards the mean, and the strength.

    MIXNORM_DATA=... python benchmarks/new_subject_noise.py uam-p300 --seeds 100 101 --jobs 8 --keep noise.jsonl

Every subject is left out in turn, the others fitted together (as in new_subject.py, with ``noise="structured"``). The
noise of the new subject is estimated from n calibration trials as (n N_own + n₀ N̄)/(n + n₀), N̄ being the mean over the
others. The first table has the AUC on its other trials, in percent, of the mean classifier as it is, and of the mean
classifier in the coordinates where this noise is white, for every n₀, with and without labels; the second that of
every strength of the regularisation at the n₀ that `adapt` chose, from ∞ to 0.
"""

import argparse
import json
import os
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from _recordings import load, split
from joblib import Parallel, delayed
from new_subject import OTHERS, calibrate, joint_fit
from sklearn.metrics import roc_auc_score

from mixnorm import MultiTaskGroupSVCCV
from mixnorm.estimators.inputs import read_predict
from mixnorm.subjects.adaptation import STRENGTHS
from mixnorm.subjects.prior import Placed, new_subject_alpha

TRIALS_OF_MEAN = (0.5, 2.0, 5.0, 10.0, 20.0, 50.0, 1e9)
CALIBRATION = (5, 20, 50, 100)


def placed(model: MultiTaskGroupSVCCV, X: np.ndarray, y: np.ndarray, n0: float | None, labels: bool = True) -> Placed:
    """Return the problem of the new subject at one n₀; None: that of the model."""
    signs = np.where(y == 1, 1.0, -1.0)
    beta = np.where(model.group_norms_ != 0, model._group_weights, np.inf)
    problem = model._adaptation(read_predict(model, X), signs, beta)
    alpha = new_subject_alpha(model.alpha_, problem.objective, model._n_joint)
    prior = model._prior()
    prior = prior if n0 is None else replace(prior, trials_of_mean=n0)
    return prior.place(replace(problem, alpha=alpha, rough=True), X, signs if labels else None)


def unit(name: str, seed: int, subject: str) -> dict:
    """Return the AUCs of one new subject."""
    recordings, groups = load(name)
    n_channels = len(np.unique(groups))
    train, _ = split({s: r for s, r in recordings.items() if s != subject}, OTHERS[name], seed, n_channels)
    model = joint_fit(train, groups, "structured")
    found = {"data": name, "seed": seed, "subject": subject, "chosen": model._trials_of_mean}
    for n in CALIBRATION:
        (X, y), (X_test, y_test) = calibrate(recordings[subject], n, seed, n_channels)

        def auc(w, X_test=X_test, y_test=y_test):
            return round(100 * float(roc_auc_score(y_test, X_test @ w)), 3)

        for kind in ("labels", "no labels"):
            centres = [placed(model, X, y, n0, kind == "labels").center for n0 in TRIALS_OF_MEAN]
            found[f"{n}, {kind}"] = [auc(model.mean_coef_), *map(auc, centres)]
        own = placed(model, X, y, None)
        W, _ = own.problem.solve(np.ones((len(y), 1)), own.problem.unit * STRENGTHS)
        found[f"{n}, strengths"] = [auc(own.restored(w)) for w in W[:, :, 0]]
    return found


def run(options: argparse.Namespace) -> list[dict]:
    """Return the results of all units; what ``--keep`` holds is not computed again."""
    lines = [json.loads(line) for line in options.keep.read_text().splitlines()] if options.keep.exists() else []
    known = {(c["data"], c["seed"], c["subject"]): c for c in lines}
    wanted = [(options.data, seed, name) for seed, name in product(options.seeds, load(options.data)[0])]
    work = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(unit)(*key) for key in wanted if key not in known
    )
    for found in work:
        known[found["data"], found["seed"], found["subject"]] = found
        with options.keep.open("a") as file:
            file.write(json.dumps(found) + "\n")
    return [known[key] for key in wanted]


def main() -> None:
    """Print the AUC by n₀, and by strength."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=sorted(OTHERS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, default=Path(os.devnull), help="JSON lines, one per new subject")
    options = parser.parse_args()
    units = run(options)
    print(f"{options.data}, {len(units)} new subjects; chosen n₀: {sorted(u['chosen'] for u in units)}\n")
    for kinds, heads in (
        (("labels", "no labels"), ("mean", *(f"n₀ = {n0:g}" for n0 in TRIALS_OF_MEAN))),
        (("strengths",), tuple(f"{strength:.2g}" for strength in STRENGTHS)),
    ):
        print("| calibration trials | " + " | ".join(heads) + " |\n" + "| --- " * (1 + len(heads)) + "|")
        for name in (f"{n}, {kind}" for kind, n in product(kinds, CALIBRATION)):
            means = np.mean([u[name] for u in units], axis=0)
            print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in means) + " |")
        print()


if __name__ == "__main__":
    main()
