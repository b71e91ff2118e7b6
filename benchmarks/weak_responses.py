"""GroupSVCCV on trials with a weak response: how often its model selects no sensor, and the AUC of new trials.

    python benchmarks/weak_responses.py [--seeds 0 60]

An alpha at which the refit on all trials selects nothing, but the model of a fold does, is chosen only if a model
without sensors scores clearly better than every other. "before" is what the same scores choose without this rule.
Simulated: 8 channels × 4 samples of mixed white noise, of which two channels respond; 2000 new trials of the same
channels.
"""

import argparse
import warnings

import numpy as np

from mixnorm import GroupSVCCV
from mixnorm.estimators.cross_validation import EQUAL, auc

#: Trials, and the size of the response in standard deviations of the noise.
CASES = [(40, 0.0), (40, 0.15), (40, 0.3), (40, 0.5), (80, 0.15), (80, 0.3), (80, 0.5)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 60), help="the first, and one past the last")
    seeds = range(*parser.parse_args().seeds)
    print("| rule | trials, response | AUC % before | AUC % now | no sensor % before | no sensor % now |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for rule in ("best", "1se"):
        for n_trials, response in CASES:
            fits = [one_fit(rule, n_trials, response, seed) for seed in seeds]
            before, now, *without = 100 * np.mean(fits, axis=0)
            zero = " | ".join(f"{share:.0f}" for share in without)
            print(f'| "{rule}" | {n_trials}, {response} | {before:.1f} | {now:.1f} | {zero} |', flush=True)


def one_fit(rule: str, n_trials: int, response: float, seed: int) -> tuple[float, float, bool, bool]:
    """AUC of new trials before and now, and whether the model is without sensors, before and now."""
    rng = np.random.default_rng(seed)
    mixing = np.eye(8) + 0.4 * rng.standard_normal((8, 8)) / np.sqrt(8)
    (X, y), (new, labels) = (draw(rng, mixing, response, number) for number in (n_trials, 2000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a model without sensors, which is counted here
        model = GroupSVCCV(rule=rule).fit(X, y)
    aucs = auc(labels, new.reshape(len(new), -1) @ model.path_coefs_.T + model.path_intercepts_)
    places = former_choice(model, rule), int(np.flatnonzero(model.alphas_ == model.alpha_)[0])
    return *(aucs[place] for place in places), *(model.n_selected_[place] == 0 for place in places)


def draw(rng, mixing: np.ndarray, response: float, n_trials: int) -> tuple[np.ndarray, np.ndarray]:
    y = rng.permutation(np.arange(n_trials) % 2)
    X = np.einsum("cd,ndt->nct", mixing, rng.standard_normal((n_trials, len(mixing), 4)))
    X[y == 1, 2] += response
    X[y == 1, 5, 1:3] -= response
    return X, y


def former_choice(model: GroupSVCCV, rule: str) -> int:
    """The place of the alpha that the rule chooses of all points of the grid, which falls from alpha_max."""
    means = model.scores_.mean(axis=1)
    best = int(np.argmax(means))
    folds = model.scores_[best]
    error = folds.std(ddof=1) / np.sqrt(len(folds)) if rule == "1se" else 0.0
    return int(np.flatnonzero(means >= means[best] - error - EQUAL)[0])


if __name__ == "__main__":
    main()
