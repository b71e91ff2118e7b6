"""The simulated study against the same study with the paper's own algorithm, on a few of its units.

    OMP_NUM_THREADS=1 python benchmarks/study_speed.py [--methods svm gsvm-2] [--most 50000]

Ours: a whole unit as ``mixnorm study simulated`` runs it, drawing, fitting and scoring 11000 trials included.
Theirs: the fits of the same unit alone (nine alphas, three folds and the refit, warm starts from the largest alpha
down), by forward-backward splitting with the paper's Lipschitz constant, to the same relative gap of 1e-6. Where it
has not got there after ``--most`` iterations for an alpha it is stopped, and the time is a lower bound.
"""

import argparse
import time
import warnings

from sklearn.exceptions import ConvergenceWarning

from mixnorm import GroupSVCCV
from mixnorm.study import load_plan
from mixnorm.study.methods import METHODS, inner_folds
from mixnorm.study.splits import split_trials
from mixnorm.study.units import expand
from mixnorm.study.work import run_unit, scaled


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=["svm", "svm-1", "gsvm-2", "gsvm-q", "gsvm-a"])
    parser.add_argument("--qs", nargs="+", type=float, default=[1.4], help="instead of the six of the study")
    parser.add_argument("--most", type=int, default=50_000)
    options = parser.parse_args()
    work = expand(load_plan("simulated").with_(splits=1, methods=tuple(options.methods), qs=tuple(options.qs)))
    run_unit(work.units[0], work.data_of(work.units[0]))  # imports are nobody's time
    print(
        "| unit | ours (s) | the paper's algorithm (s) | its worst gap | ratio |\n| --- | ---: | ---: | ---: | ---: |"
    )
    total = [0.0, 0.0]
    for unit in work.units:
        begin = time.perf_counter()
        run_unit(unit, work.data_of(unit))
        ours = time.perf_counter() - begin
        theirs, reached = papers_algorithm(unit, work.data_of(unit), options.most)
        total = [total[0] + ours, total[1] + theirs]
        print(f"| {unit.method} | {ours:.2f} | {theirs:.1f} | {reached} | {theirs / ours:.0f} |", flush=True)
    print(f"| all | {total[0]:.2f} | {total[1]:.1f} | | {total[1] / total[0]:.0f} |")


def papers_algorithm(unit, data, most):
    """Seconds of the fits of a unit, and whether every fold and alpha reached the gap."""
    part, rule = data.part(unit.split), unit.rule()
    training, _ = scaled(part.design, split_trials(part.design, rule), rule)
    several = METHODS[unit.method].fit.keywords.get("several_q", False)
    options = {name: METHODS[unit.method].fit.keywords.get(name) for name in ("penalty", "adaptive")}
    model = GroupSVCCV(
        unit.settings().alphas,
        q=unit.settings().qs if several else 2.0,
        cv=inner_folds(training, unit.settings()),
        solver="forward-backward",
        max_iter=most,
        **{name: value for name, value in options.items() if value},
    )
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(training.X, training.y)
    seconds = time.perf_counter() - begin
    missed = [str(w.message).split(" of ")[1].split(",")[0] for w in raised if w.category is ConvergenceWarning]
    return seconds, missed[0] if missed else "1e-6"


if __name__ == "__main__":
    main()
