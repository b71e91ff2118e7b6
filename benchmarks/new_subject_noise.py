"""The noise of a new subject with few trials: how far towards the mean of the known subjects, and can they tell?

    MIXNORM_DATA=... python benchmarks/new_subject_noise.py uam-p300 --seeds 100 101 --jobs 8 --keep noise.jsonl

Every subject is left out in turn, the others fitted together (as in new_subject.py), and the noise of the new subject
estimated from n trials as (n N_own + n₀ N̄)/(n + n₀), N̄ being the mean over the others. The table has the AUC of the
mean classifier in the coordinates where this noise is white, on the other trials of the new subject, and the same in
a rehearsal among the others. ``mean`` is the mean classifier as it is. All in percent.
"""

import argparse
import json
import os
from itertools import product
from pathlib import Path

import numpy as np
from _recordings import load, split
from joblib import Parallel, delayed
from new_subject import OTHERS, calibrate, joint_fit
from sklearn.metrics import roc_auc_score

from mixnorm.estimators.objective import Objective
from mixnorm.execution import SolverOptions
from mixnorm.subjects import adaptation, prior, rehearsal
from mixnorm.subjects.classifier import SubjectTrials
from mixnorm.subjects.joint import Subjects

TRIALS_OF_MEAN = (0.5, 2.0, 5.0, 10.0, 20.0, 50.0, 1e9)
CALIBRATION = (5, 20, 50, 100)
REHEARSED, DRAWS = (6, 12, 36), 4
STRENGTHS_AT = (6.0, 12.0, 28.0, 66.0)


def centres(found: prior.NoisePrior, X: np.ndarray, signs: np.ndarray | None) -> list[np.ndarray]:
    """Return the classifier (d,) of the others in the noise of trials X, for every n₀."""
    out = []
    for count in TRIALS_OF_MEAN:
        prior.TRIALS_OF_MEAN = count
        white = prior.White(prior.SymmetricMetric.of_covariance(found._noise_of(X, signs)), found.features)
        out.append(white.coefficients(found.coef[:, None])[:, 0])
    prior.TRIALS_OF_MEAN = 2
    return out


def aucs(y: np.ndarray, X: np.ndarray, weights: list[np.ndarray]) -> list[float]:
    """AUC of some classifiers, in percent."""
    return [round(100 * float(roc_auc_score(y, X @ w)), 3) for w in weights]


def by_strength(model, own: tuple, test: tuple) -> dict:
    """AUC of every strength on the test trials, and on the folds of the calibration trials."""
    (X, y), (X_test, y_test) = own, test
    trials = rehearsal.replace(model._trials_like, matrix=X)
    signs = np.where(y == 1, 1.0, -1.0)
    problem = model._adaptation(trials, signs, np.where(model.group_norms_ != 0, model._group_weights, np.inf))
    problem = prior.replace(problem, alpha=prior.new_subject_alpha(model._alpha(), problem.objective, model._n_joint))
    placed = model._prior().place(problem, X, signs)
    ones = np.ones(len(y))
    strengths = placed.problem.unit * adaptation.STRENGTHS
    W, _ = prior.replace(placed.problem, rough=True).solve(ones[:, None], strengths)
    folds = adaptation._folds(signs, ones)
    inner = adaptation._scores(
        prior.replace(placed.problem, rough=True), folds, lambda mask: mask.astype(float), strengths
    )
    return {
        "test": aucs(y_test, X_test, [placed.restored(w) for w in W[:, :, 0]]),
        "inner": np.round(inner, 4).tolist(),
    }


def rehearse(model, train: tuple, groups: np.ndarray) -> list:
    """AUC (known subject, size, draw, 1 + n₀) of the mean of the others on known subjects that are left out."""
    X, y, subjects = train
    data = SubjectTrials(
        rehearsal.replace(model._trials_like, matrix=X),
        np.where(y == 1, 1.0, -1.0),
        np.ones(len(y)),
        Subjects.of(subjects.tolist()),
    )
    how = Objective.without_noise(model, model.q), SolverOptions.of(model)
    cell = model._alpha(), model._similarity()
    whole = rehearsal.Rehearsal(*how, data, model._group_weights, *cell, lambda d, mask: d.weights * mask, model.noise)
    rehearsal._DRAWS, out = DRAWS, []
    for label in data.subjects.labels:
        others = whole._others(data.take([each for each in data.subjects.labels if each != label]))
        own = data.take([label])
        W, table = np.array([others.mean_w]), []
        gains = [[size, np.round(whole._aucs_of(own, others, size), 4).tolist()] for size in STRENGTHS_AT]
        for size in REHEARSED:
            for mask in rehearsal._draws(own.signs, own.weights > 0, size):
                M = own.trials.matrix
                weights = [W[0], *centres(others.prior, M[mask], own.signs[mask])]
                table.append([size, *aucs(own.signs[~mask], M[~mask], weights)])
        out.append({"centres": table, "strengths": gains})
    return out


def unit(name: str, n_others: int, seed: int, subject: str) -> dict:
    """Everything about one new subject."""
    recordings, groups = load(name)
    n_channels = len(np.unique(groups))
    others = {s: r for s, r in recordings.items() if s != subject}
    train, _ = split(others, n_others, seed, n_channels)
    model = joint_fit(train, groups, rehearse=True)
    keep_what_others_hand_over(model, train)
    found = {"data": name, "seed": seed, "subject": subject, "transfer": model.transfer_auc_}
    found |= {"sizes": model.newcomer_trials_.tolist(), "gains": np.round(model.newcomer_gains_, 5).tolist()}
    for n in CALIBRATION:
        (X, y), (X_test, y_test) = calibrate(recordings[subject], n, seed, n_channels)
        signs = np.where(y == 1, 1.0, -1.0)
        found[f"mean-{n}"] = aucs(y_test, X_test, [model.mean_coef_])[0]
        found[f"labels-{n}"] = aucs(y_test, X_test, centres(model._prior(), X, signs))
        found[f"no-labels-{n}"] = aucs(y_test, X_test, centres(model._prior(), X, None))
        found[f"strengths-{n}"] = by_strength(model, (X, y), (X_test, y_test))
    found["rehearsed"] = rehearse(model, train, groups)
    return found


def keep_what_others_hand_over(model, train: tuple) -> None:
    """Put the mean of the w_t beside what the others hand over in a rehearsal, and the shape of the trials."""
    from mixnorm.estimators.inputs import read_predict

    model._trials_like = read_predict(model, train[0][:1])
    former = rehearsal.Rehearsal._others
    if former.__name__ == "_others":
        solved = rehearsal.solve_joint

        def kept(self, others):
            seen = []

            def solve(*args):
                seen.append(solved(*args))
                return seen[-1]

            rehearsal.solve_joint = solve
            result = former(self, others)
            object.__setattr__(result, "mean_w", seen[0][0].W[0, :, :, 0].mean(axis=0))
            return result

        rehearsal.Rehearsal._others = kept


def main() -> None:
    """Run all units; print the means by n₀."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=sorted(OTHERS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[100])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path(os.devnull))
    options = parser.parse_args()
    lines = [json.loads(line) for line in options.keep.read_text().splitlines()] if options.keep.exists() else []
    known = {(c["data"], c["seed"], c["subject"]): c for c in lines}
    wanted = [(options.data, s, name) for s, name in product(options.seeds, load(options.data)[0])]
    work = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(unit)(options.data, OTHERS[options.data], s, name)
        for _, s, name in wanted
        if (options.data, s, name) not in known
    )
    for found in work:
        known[found["data"], found["seed"], found["subject"]] = found
        with options.keep.open("a") as file:
            file.write(json.dumps(found) + "\n")
    units = [known[key] for key in wanted]
    for kind in ("labels", "no-labels"):
        for n in CALIBRATION:
            mean = np.mean([u[f"mean-{n}"] for u in units])
            shown = np.mean([u[f"{kind}-{n}"] for u in units], axis=0).round(1)
            print(kind, n, round(mean, 1), dict(zip(TRIALS_OF_MEAN, shown.tolist())))
    for size in REHEARSED:
        rows = [row[1:] for u in units for table in u["rehearsed"] for row in table["centres"] if row[0] == size]
        print("rehearsed", size, np.mean(rows, axis=0).round(1).tolist())


if __name__ == "__main__":
    main()
