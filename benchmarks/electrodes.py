"""Which electrodes: our montages against the orders that people use, on the same folds, and what was promised of them.

    MIXNORM_DATA=... python benchmarks/electrodes.py orders bcicomp2-iib
    MIXNORM_DATA=... python benchmarks/electrodes.py orders ner2015-errp --folds 1 3
    MIXNORM_DATA=... python benchmarks/electrodes.py orders uam-p300 --folds 2 3 4
    MIXNORM_DATA=... python benchmarks/electrodes.py orders uam-p300 --folds 2 3 4 --trials 360
    MIXNORM_DATA=... python benchmarks/electrodes.py orders bigp3bci-a
    python benchmarks/electrodes.py simulated --sets 20
    python benchmarks/electrodes.py stability --sets 200
    python benchmarks/electrodes.py permutations --sets 500
    python benchmarks/electrodes.py time

Every order is found on the training trials of a fold only; an ℓ2 SVM is refitted on its first K sensors, alpha by
inner folds, and scored on the held-out trials. Two orders that were not taken into the package are kept here: one that
also uses the trials of the other subjects (the training trials of the same fold only), and elimination by the weights
of least squares. Times are CPU times of one process, side by side.
"""

import argparse
import os
import time
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path

import numpy as np

from mixnorm import GroupSVCCV, stability_selection
from mixnorm.eeg import (
    Design,
    InOrder,
    Preparation,
    SelectOptions,
    honest_folds,
    prepare,
    read_recordings,
    select_montage,
    simulated_p300,
)
from mixnorm.estimators.entry import entry_order
from mixnorm.estimators.folds import Fold, auc
from mixnorm.estimators.inputs import Trials
from mixnorm.estimators.objective import Objective
from mixnorm.execution import SolverOptions
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.elimination import (
    SEARCH_ALPHAS,
    HeldOut,
    components,
    order_sensors,
    precision,
    search_models,
    separation,
)
from mixnorm.montage.orders import (
    EliminationOrder,
    by_backward_elimination,
    by_riemannian_distance,
    by_snr,
    standard_cap,
)
from mixnorm.montage.recommendation import smallest_near_best
from mixnorm.montage.refits import HeldOutScores, Ranking, refit
from mixnorm.montage.scoring import ScoredMontages, score_montages
from mixnorm.montage.trials import SubjectTrials, Training, inner_folds

SIZES = (4, 8, 16)
RUNS = ("AAS010R01", "AAS011R01", "AAS011R02")
FLAT = {"bigp3bci-a": ("Fp1", "Fp2")}
PER_TRIAL = ("X", "y", "subject", "session", "character", "stimulus", "onset", "run")


def by_entry(training, weights=None):
    """Channels by their entry on the ℓ1-ℓ2 path."""
    X, signs = training.X, training.signs
    trials = Trials(X.reshape(len(X), -1), None, X.shape[1:], X.dtype)
    objective = Objective("group", 2.0, None, weights, True)
    stack = objective.stack(trials, signs, np.ones((len(X), 1)))
    # no order is scored with more sensors than this, short of all
    return np.argsort(entry_order(stack, max(SIZES), SolverOptions("auto", 1e-3))[:, 0], kind="stable")


def by_adaptive_entry(training):
    """Channels by their entry on the adaptive path; those that its first stage left out come last, as they entered."""
    cv = [(np.flatnonzero(fold.train), np.flatnonzero(fold.test)) for fold in training.folds[:3]]
    norms = GroupSVCCV(20, cv=cv, tol=1e-3).fit(training.X, training.signs).group_norms_
    if not norms.any():
        return by_entry(training)
    weights = np.where(norms > 0, 1 / np.where(norms > 0, norms, 1), 1e3 / norms[norms > 0].min())
    return by_entry(training, weights / np.exp(np.mean(np.log(weights))))


def by_us(training):
    return order_sensors([training], Constraints.none(training.X.shape[1]))


class TrainingOnly(HeldOut):
    """A least-squares classifier without held-out trials, judged by its training trials."""

    def _mean_separation(self, scores, residual):
        return self.training_separation(residual)


def fitted_on_all(X, signs, alpha):
    everything = Fold(np.ones(len(signs), dtype=np.int64), np.zeros(len(signs), dtype=bool))
    return TrainingOnly.of(X, signs, everything, alpha)


def by_us_with_others(training, others):
    """Our elimination, in which classifiers of the other subjects' trials have half of the weight."""
    models = search_models(training)
    weights = precision([model.signs for model in models]) / 2
    for X, signs in others:
        reduced = X @ components(X)
        models.append(fitted_on_all(reduced, signs, SEARCH_ALPHAS[1] * max(reduced[0].size / len(signs), 0.02)))
    weights = np.concatenate([weights, precision([signs for _, signs in others]) / 2])
    left, removed = np.arange(training.X.shape[1]), []
    while len(left):
        losses = [model.separation_now() - model.separation_without_each() for model in models]
        place = int(np.argmin(weights @ losses))
        removed.append(left[place])
        left = np.delete(left, place)
        for model in models:
            model.remove(place)
    return np.array(removed[::-1])


def by_least_squares_elimination(training):
    """Elimination by the weights of regularised least squares, on temporal components, alpha by the inner folds."""
    X, signs = training.X @ components(training.X), training.signs

    def held_out(alpha):
        models = [HeldOut.of(X, signs, fold, alpha) for fold in training.folds]
        return np.mean([separation(model.signs, model.scores[:, None])[0] for model in models])

    model = fitted_on_all(X, signs, max(10.0 ** np.arange(-2, 1.5, 0.5), key=held_out))
    left, removed = np.arange(X.shape[1]), []
    while len(left):
        place = int(np.argmin(np.linalg.norm(model.w.reshape(len(left), -1), axis=1)))
        removed.append(left[place])
        model.remove(place)
        left = np.delete(left, place)
    return np.array(removed[::-1])


ALONE, WITH_OTHERS = "mixnorm select", "mixnorm select, with the trials of others"
ORDERS = {
    ALONE: by_us,
    WITH_OTHERS: by_us_with_others,
    "entry on the ℓ1-ℓ2 path": by_entry,
    "adaptive path": by_adaptive_entry,
    "backward elimination": by_backward_elimination,
    "elimination by least squares": by_least_squares_elimination,
    "SNR ranking": by_snr,
    "pyRiemann": by_riemannian_distance,
}


@dataclass(frozen=True, eq=False)
class Person:
    """The trials of one subject, the outer fold of each (IIb: its runs), and how many are learned from at most."""

    who: str
    design: Design
    number: np.ndarray
    most: int | None = None

    @cached_property
    def trials(self):
        X, y, groups = self.design.to_sklearn()
        return X, np.where(y == 1, 1.0, -1.0), groups

    def trains(self, fold):
        return np.flatnonzero(self.number != fold)[: self.most]

    def test(self, fold):
        X, signs, _ = self.trials
        return scaler_of(self, fold).transform(X[self.number == fold]), signs[self.number == fold]


@cache
def scaler_of(person, fold):
    return person.design.preparation.scaler().fit(person.trials[0][person.trains(fold)])


@cache
def training_of(person, fold):
    """Scaled training trials without a fold, their signs, and inner folds."""
    (X, signs, groups), train = person.trials, person.trains(fold)
    folds = inner_folds(InOrder(5), signs[train], groups[train])
    return Training(scaler_of(person, fold).transform(X[train]), signs[train], folds)


def people_of(name):
    """Return all subjects of a data set."""
    data = Path(os.environ["MIXNORM_DATA"])
    if name == "bcicomp2-iib":
        design = prepare(read_recordings(*(str(data / name / f"{run}.mat") for run in RUNS)))
        return [Person("AA", design, design.run)]
    design = prepare(read_recordings(str(data / f"{name}.npz"), drop=FLAT.get(name, ())))
    people = []
    for who in np.unique(design.subject):
        mine = design.subject == who
        own = replace(design, **{field: getattr(design, field)[mine] for field in PER_TRIAL})
        people.append(Person(str(who), own, honest_folds(own).number))
    return people


def compare(options):
    """Print the table of mean AUC at K sensors, and the recommended montages beside the full cap."""
    everyone = people_of(options.data)
    people = [replace(one, most=options.trials) for one in everyone]
    rows, tested, spent = {}, {}, {}
    for person in people:
        for fold in np.unique(person.number) if options.folds is None else options.folds:
            if len(np.unique(person.test(fold)[1])) < 2:
                continue
            for name, find in order_functions(everyone, person, fold, options).items():
                start = time.process_time()
                order = find(training_of(person, fold))
                took = time.process_time() - start
                spent[name] = spent.get(name, 0.0) + took
                models, row = score(person, fold, order, name in (ALONE, WITH_OTHERS))
                rows.setdefault(name, []).append(row)
                tested.setdefault(name, {}).setdefault(person.who, []).append((fold, models))
                print(f"{person.who}, fold {fold}, {name}: {took:.1f} s", flush=True)
    show_orders(rows, spent)
    for name in (ALONE, WITH_OTHERS):
        if name in tested:
            show_recommended(name, [(person, tested[name].get(person.who)) for person in people])


def score(person, fold, order, everywhere):
    """Refit on the first K sensors of an order, for every K or those of the table; return the models, AUC by K."""
    # the full cap is the same for all orders
    sizes = np.arange(1, len(order) + 1) if everywhere else at(len(order), person.design.X.shape[1])
    models = refit(training_of(person, fold), Ranking(order, sizes))
    X, signs = person.test(fold)
    found = dict(zip(sizes.tolist(), auc(signs, models.scores(X)), strict=True))
    return models, {size: found[size] for size in at(len(order)).tolist() if size in found}


def order_functions(everyone, person, fold, options):
    functions = {name: order for name, order in ORDERS.items() if name not in options.without}
    if WITH_OTHERS in functions:
        # only the training trials of the same fold of everyone
        training = [training_of(other, fold) for other in everyone if other.who != person.who]
        others = [(one.X, one.signs) for one in training]
        functions[WITH_OTHERS] = partial(by_us_with_others, others=others)
        if not others:
            del functions[WITH_OTHERS]
    cap = standard_cap(person.design.ch_names)
    if len(cap):
        functions["standard cap"] = lambda *_: cap
    return functions


def at(n_sensors, without=None):
    return np.array(sorted(({size for size in SIZES if size < n_sensors} | {n_sensors}) - {without}))


def show_orders(rows, spent):
    columns = sorted({size for own in rows.values() for row in own for size in row})
    print("\n| order | " + " | ".join(f"K = {size}" for size in columns) + " | CPU s, order alone |")
    print("| --- |" + " --- |" * (len(columns) + 1))
    for name, own in rows.items():
        cells = [f"{100 * np.mean([row[size] for row in own]):.1f}" if size in own[0] else "" for size in columns]
        print(f"| {name} | " + " | ".join(cells) + f" | {spent[name] / len(own):.1f} |")
    for ours in (ALONE, WITH_OTHERS):
        for name in [name for name in rows if ours in rows and name != ours]:
            show_gain(ours, name, rows)


def show_gain(ours, name, rows):
    """Print by how much we are better, paired by fold; the error is that over folds."""
    shared = [size for size in rows[name][0] if size in SIZES and size in rows[ours][0]]
    if shared:
        pairs = zip(rows[ours], rows[name], strict=True)
        gain = 100 * np.array([[mine[size] - row[size] for size in shared] for mine, row in pairs])
        error = gain.mean(axis=1).std(ddof=1) / np.sqrt(len(gain))
        by_size = gain.mean(axis=0).round(1).tolist()
        print(f"{ours} − {name}: {by_size} at {shared}, mean {gain.mean():.2f} ± {error:.2f}")


def show_recommended(name, found):
    """Print the mean over subjects of what would be recommended, and its AUC beside that of the full cap."""
    recommended = []
    for person, folds in found:
        if folds:
            tests = [(person.test(fold), models) for fold, models in folds]
            tested = [[HeldOutScores(signs, models.scores(X))] for (X, signs), models in tests]
            ratio = np.mean(
                [len(X) / len(person.trains(fold)) for ((X, _), _), (fold, _) in zip(tests, folds, strict=True)]
            )
            whole = ScoredMontages([folds[-1][1]], tested, float(ratio), [])
            place = smallest_near_best(whole).chosen
            recommended.append((int(whole.sizes[place]), whole.mean[place], whole.mean[-1]))
    size, there, full = np.mean(recommended, axis=0)
    print(f"{name}, recommended: {size:.1f} sensors (mean), AUC {100 * there:.1f}, full cap {100 * full:.1f}")


def simulated(options):
    """Print how well the truth of Table 1's setting is found."""
    best_f, chosen_f, false = [], [], []
    for seed in range(options.sets):
        data = simulated_p300(1000, seed=seed)
        found = nested(data.X, data.y)
        choice = smallest_near_best(found)
        place, best = choice.chosen, choice.best
        truth = set(range(8))
        f = [2 * len(truth & set(found.order[:k])) / (8 + k) for k in (found.sizes[best], found.sizes[place])]
        best_f.append(f[0])
        chosen_f.append(f[1])
        false.append(len(set(found.order[: found.sizes[place]].tolist()) - truth))
        print(seed, found.sizes[best], found.sizes[place], np.round(f, 2).tolist(), false[-1], flush=True)
    print(f"\n{options.sets} data sets of 1000 trials: F at the best-scoring number {np.mean(best_f):.3f} (mean),")
    print(f"of the recommended montage {np.mean(chosen_f):.3f} (mean), {np.median(chosen_f):.3f} (median);")
    print(f"false sensors in it: median {np.median(false):g}, mean {np.mean(false):.2f}")


def nested(X, y, n_inner=5):
    fold = np.arange(len(y)) * 5 // len(y)
    subject = SubjectTrials(X, np.where(y > 0, 1.0, -1.0), fold, np.arange(len(y)))
    return score_montages([subject], EliminationOrder(Constraints.none(X.shape[1])), cv=InOrder(n_inner))


def stability(options):
    """Print the number of false sensors that stability selection chose, beside its bound."""
    for n_informative in options.informative:
        false, chosen = [], []
        for seed in range(options.sets):
            data = simulated_p300(1000, n_informative=n_informative, seed=seed)
            found = stability_selection(data.X, data.y, n_resamplings=options.resamplings, tol=1e-2)
            false.append(int(np.sum(found.selected >= n_informative)))
            chosen.append(len(found.selected))
        print(
            f"{options.sets} data sets, {n_informative} of 16 informative, {options.resamplings} half-sample pairs, "
            f"first {found.n_sensors} of each, threshold {found.threshold:.2f}: {np.mean(chosen):.2f} chosen, "
            f"{np.mean(false):.3f} false (bound {found.error_bound:.2f}, unimodal {found.unimodal_bound:.2f})",
            flush=True,
        )


def permutations(options):
    """Print mean AUC and the share of intervals that include 0.5, over permuted labels, by number of sensors."""
    data = simulated_p300(120, n_channels=4, n_informative=2, seed=0)
    rng = np.random.default_rng(0)
    means, includes = [], []
    for _ in range(options.sets):
        found = nested(data.X[:, :, ::2], data.y[rng.permutation(120)], n_inner=3)
        low, high = found.interval()
        means.append(found.mean)
        includes.append((low <= 0.5) & (high >= 0.5))
    print(f"{options.sets} permutations of 120 trials, 4 sensors; K = 1 … 4")
    print("mean AUC", np.mean(means, axis=0).round(4).tolist())
    print("intervals that include 0.5", np.mean(includes, axis=0).round(3).tolist())


def timed(options):
    """Print the time of a whole selection over that of one nested GroupSVCCV: 64 sensors, 2000 trials."""
    data = simulated_p300(2000, n_channels=64, n_informative=16, noise=0.4, noise_correlation=0.8, seed=0)
    number = np.arange(2000) * 5 // 2000
    start = time.process_time()
    for fold in range(5):
        GroupSVCCV(20, cv=3).fit(data.X[number != fold], data.y[number != fold])
    once = time.process_time() - start
    plain = Preparation.preset("epochs").with_(window=(0.0, 1.0), scaling="standard", clip=None)
    design = prepare(data.to_recording(), plain)
    start = time.process_time()
    last = [start]

    def progress(reached):
        now = time.process_time()
        print(f"  {now - last[0]:.1f} s; {reached.step}, {reached.done:.0%}", flush=True)
        last[0] = now

    found = select_montage(design, SelectOptions(compare=False), progress)
    whole = time.process_time() - start
    print(f"nested GroupSVCCV {once:.1f} s, selection {whole:.1f} s: {whole / once:.1f} times; {found.recommended}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    jobs = parser.add_subparsers(required=True)
    add = partial(jobs.add_parser)
    orders = add("orders")
    orders.add_argument("data", choices=["bcicomp2-iib", "ner2015-errp", "uam-p300", "bigp3bci-a"])
    orders.add_argument("--folds", type=int, nargs="+", help="outer folds to score; all if left out")
    orders.add_argument("--trials", type=int, help="learn from the first so many of a subject's training trials")
    orders.add_argument("--without", nargs="+", default=[], choices=list(ORDERS), help="orders to leave out")
    orders.set_defaults(run=compare)
    for name, run, sets in (
        ("simulated", simulated, 20),
        ("stability", stability, 200),
        ("permutations", permutations, 500),
        ("time", timed, 1),
    ):
        job = add(name)
        job.add_argument("--sets", type=int, default=sets)
        job.add_argument("--resamplings", type=int, default=10, help="half-sample pairs")
        job.add_argument("--informative", type=int, nargs="+", default=[8, 0], help="informative sensors of 16")
        job.set_defaults(run=run)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
