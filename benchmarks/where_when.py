"""Sensors and windows of time chosen together: what is found, how well it decodes, and how fast it is.

    python benchmarks/where_when.py simulated --sets 20 --jobs 16
    MIXNORM_DATA=... python benchmarks/where_when.py recordings uam-p300 ner2015-errp --splits 10 --jobs 16
    MIXNORM_DATA=... python benchmarks/where_when.py recordings uam-p300 ner2015-errp --splits 5 --noise --jobs 16
    python benchmarks/where_when.py path --sets 10
    python benchmarks/where_when.py speed
    python benchmarks/where_when.py growth

`simulated`: sensors and windows that carry a response are known; F-measure of what is selected, against GSVM-2 (its
windows are those with any weight) and against one after the other (sensors by GSVM-2, then windows as groups on these
sensors). `path`: the best F-measures along a path, without a choice of alpha. `recordings`: AUC on held-out trials,
sensors and windows kept. Models are chosen by the rules "best" and "1se" of `GroupSVCCV`, from the same scores.
`speed`: against restarted FISTA with Dykstra's prox on the same problems, in one run. `growth`: in sensors and
windows. Times are CPU times of one thread. Development used seeds from 100; figures are of seeds from 0.
NumPy, SciPy, scikit-learn and joblib are enough.
"""

import argparse
import time
import warnings
from collections import defaultdict
from itertools import chain, product

import numpy as np
from joblib import Parallel, delayed

from mixnorm import GroupSVC, GroupSVCCV, group_svc_path
from mixnorm.estimators.cross_validation import Choice, auc, choose
from mixnorm.estimators.settings import N_WINDOWS, WINDOW_SHARES

RULES = ("best", "1se")
WHEN = {"windows": N_WINDOWS, "window_share": WINDOW_SHARES}
PLAIN = {"windows": N_WINDOWS}
#: A ridge for all: each of several would be fitted with each of the shares.
NOISE = {"noise": "structured", "ridge": 1.0}
METHODS = {"gsvm-2": PLAIN, "gsvm-a": {**PLAIN, "adaptive": True}, "gsvm-2-when": WHEN}


# --- models ---------------------------------------------------------------------------------------------------


def fitted(X, y, options, rules=RULES):
    """Return {rule: model} of one cross-validation."""
    model = GroupSVCCV(20, **options).fit(X, y)
    models = {"best": model}
    if "1se" in rules and options.get("adaptive"):  # its weights depend on the first stage, which is not kept
        models["1se"] = GroupSVCCV(20, rule="1se", **options).fit(X, y)
    elif "1se" in rules:
        shares = np.atleast_1d(options.get("window_share", 0.0))
        grids = [part.reshape(len(shares), *part.shape[-k:]) for part, k in zip(grid(model), (1, 2, 1))]
        candidates = [Choice(None, a, [], s, n) for a, s, n in zip(*grids)]
        share, alpha = choose(candidates, "1se", None)
        own = {**options, "window_share": float(shares[share])}
        models["1se"] = GroupSVC(candidates[share].alphas[alpha], **own).fit(X, y)
    return models


def grid(model):
    return model.alphas_, model.scores_, model.n_selected_


def one_after_the_other(X, y, rules=RULES):
    """Sensors by GSVM-2, then windows as groups on these sensors; {rule: (model, sensors)}."""
    out = {}
    for rule in rules:
        first = GroupSVCCV(20, rule=rule).fit(X, y)
        sensors = first.selected_groups_
        if len(sensors):
            out[rule] = GroupSVCCV(20, rule=rule, windows=N_WINDOWS, window_share=1.0).fit(X[:, sensors], y), sensors
    return out


# --- simulated ------------------------------------------------------------------------------------------------


def simulate(seed, n, n_sensors=24, n_samples=24, strength=1.0):
    """Trials (n, sensors, samples) of correlated noise with a response on five sensors in two windows, and these."""
    rng = np.random.default_rng(seed)
    sensors = np.sort(rng.choice(n_sensors, 5, replace=False))
    windows = np.sort(rng.choice(N_WINDOWS, 2, replace=False))
    mixing = rng.standard_normal((n_sensors, 6)) / np.sqrt(6)
    gains, size = rng.uniform(0.5, 1.0, len(sensors)), n_samples // N_WINDOWS
    total = n + 1000
    y = rng.permutation(np.arange(total) % 4 == 0)
    sources = smooth(rng.standard_normal((total, 6, n_samples)))
    X = np.einsum("sk,nkt->nst", mixing, sources) + smooth(rng.standard_normal((total, n_sensors, n_samples)))
    for window in windows:
        samples = slice(window * size, (window + 1) * size)
        shape = strength * np.hanning(size + 2)[1:-1]
        X[np.ix_(y, sensors, np.arange(samples.start, samples.stop))] += gains[:, None] * shape
    return X, y.astype(int), sensors, windows


def smooth(signal):
    """Neighbouring samples of EEG resemble each other."""
    out = signal.copy()
    for t in range(1, signal.shape[-1]):
        out[..., t] = 0.7 * out[..., t - 1] + np.sqrt(1 - 0.49) * signal[..., t]
    return out


def f_measure(found, true):
    both = len(np.intersect1d(found, true))
    return 2 * both / (len(found) + len(true))


def simulated_rows(seed, strength, n=200):
    X, y, sensors, windows = simulate(seed, n, strength=strength)
    rows = []
    warnings.simplefilter("ignore")
    for name, options in METHODS.items():
        for rule, model in fitted(X[:n], y[:n], options).items():
            found = model.selected_groups_, model.selected_windows_
            score = float(auc(y[n:], model.decision_function(X[n:])[:, None])[0])
            rows.append((name, rule, f_measure(found[0], sensors), f_measure(found[1], windows), score))
    for rule, (model, kept) in one_after_the_other(X[:n], y[:n]).items():
        found = kept[model.selected_groups_], model.selected_windows_
        score = float(auc(y[n:], model.decision_function(X[n:][:, kept])[:, None])[0])
        rows.append(("one after the other", rule, f_measure(found[0], sensors), f_measure(found[1], windows), score))
    return [(strength, *row) for row in rows]


def simulated(args):
    tasks = product(range(args.first, args.first + args.sets), (1.0, 2.0))
    rows = chain.from_iterable(Parallel(n_jobs=args.jobs)(delayed(simulated_rows)(*task) for task in tasks))
    print("| response | method | rule | F sensors | F windows | AUC |\n| --- | --- | --- | --- | --- | --- |")
    print_means(rows, n_keys=3, factors=(1, 1, 100), digits=(2, 2, 1))


def path(args):
    """What can be found at all: the alpha of each path whose F-measures of sensors and windows are the largest."""
    print("| response | τ | F sensors | F windows |\n" + "| --- " * 4 + "|")
    for strength, share in product((1.0, 2.0), (0.0, *WINDOW_SHARES, 1.0)):
        best = []
        for seed in range(args.first, args.first + args.sets):
            X, y, sensors, windows = simulate(seed, 200, strength=strength)
            coefs = group_svc_path(X[:200], y[:200], windows=N_WINDOWS, window_share=share).coefs
            cells = coefs.reshape(len(coefs), X.shape[1], N_WINDOWS, -1).any(axis=3)
            kept = [(np.flatnonzero(c.any(axis=1)), np.flatnonzero(c.any(axis=0))) for c in cells]
            best.append(max(((f_measure(s, sensors), f_measure(w, windows)) for s, w in kept), key=sum))
        mean = np.mean(best, axis=0)
        print(f"| {strength} | {share} | {mean[0]:.2f} | {mean[1]:.2f} |", flush=True)


def print_means(rows, n_keys, factors, digits):
    """Print a table of means and standard errors over rows with equal keys, in the order of their first appearance."""
    groups = defaultdict(list)
    for row in rows:
        groups[row[:n_keys]].append(row[n_keys:])
    for key in sorted(groups, key=lambda key: (str(key[0]).zfill(12), RULES.index(key[2]))):
        values = np.array(groups[key]) * np.array(factors)
        errors = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros(values.shape[1])
        cells = [f"{m:.{d}f} ± {e:.{d}f}" for m, e, d in zip(values.mean(axis=0), errors, digits)]
        print("| " + " | ".join([*map(str, key), *cells]) + " |", flush=True)


# --- recordings -----------------------------------------------------------------------------------------------

TRAINING = {"uam-p300": 300, "ner2015-errp": 120}


def recorded_rows(name, recording, n_channels, seed, noise):
    from _recordings import draw, standardise

    warnings.simplefilter("ignore")
    train, test = draw(recording, TRAINING[name], np.random.default_rng(seed))
    parts = standardise(recording.X[train], recording.X[test], n_channels=n_channels)
    X, held_out = (part.reshape(len(part), n_channels, -1) for part in parts)
    methods = {f"{k}, noise": {**v, **NOISE} for k, v in METHODS.items()} if noise else METHODS
    rows = []
    for method, options in methods.items():
        for rule, model in fitted(X, recording.y[train], options).items():
            score = float(auc(recording.y[test], model.decision_function(held_out)[:, None])[0])
            kept = len(model.selected_groups_) / n_channels, len(model.selected_windows_) / N_WINDOWS
            rows.append((name, method, rule, score, *kept))
    return rows


def recordings(args):
    from _recordings import load

    tasks = []
    for name in args.names:
        people, groups = load(name)
        n_channels = len(np.unique(groups))
        seeds = range(args.first, args.first + args.splits)
        tasks += [(name, person, n_channels, seed, args.noise) for person in people.values() for seed in seeds]
    parts = Parallel(n_jobs=args.jobs, batch_size=1)(delayed(recorded_rows)(*task) for task in tasks)
    rows = chain.from_iterable(parts)
    print("| data | method | rule | AUC | sensors % | windows % |\n| --- | --- | --- | --- | --- | --- |")
    print_means(rows, n_keys=3, factors=(100, 100, 100), digits=(1, 0, 0))


# --- speed ----------------------------------------------------------------------------------------------------


def timed_path(X, y, n=400, **options):
    """CPU seconds of a path of 20 alphas on the first n trials, and its worst gap."""
    start = time.process_time()
    path = group_svc_path(X[:n], y[:n], **options)
    return time.process_time() - start, f"{path.dual_gaps.max():.0e}"


def speed(args):
    """A path of 20 alphas by both solvers on the same trials; FISTA with at most so many iterations per alpha."""
    print("| trials, sensors × samples | τ | Newton s | worst gap | FISTA s | worst gap |\n" + "| --- " * 6 + "|")
    warnings.simplefilter("ignore")
    for (n, n_sensors, n_samples), share in product(((400, 16, 12), (400, 32, 24), (100, 32, 24)), (0.2, 0.5, 0.8)):
        X, y, _, _ = simulate(0, n, n_sensors, n_samples)
        cells = [f"{n}, {n_sensors} × {n_samples}", share]
        for solver in ("newton", "fista"):
            options = {"windows": N_WINDOWS, "window_share": share, "solver": solver, "max_iter": args.iterations}
            seconds, gap = timed_path(X, y, n, **options)
            cells += [f"{seconds:.2f}", gap]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def growth(args):
    """A path of 20 alphas: GSVM-2, and with windows, as sensors and as windows grow."""
    print("| sensors × samples, windows | GSVM-2 s | τ = 0.5 s | ratio | worst gap |\n" + "| --- " * 5 + "|")
    cases = [(s, 24, 6) for s in (8, 16, 32, 64, 128)] + [(16, 48, k) for k in (2, 6, 12, 24, 48)]
    for n_sensors, n_samples, windows in cases:
        X, y, _, _ = simulate(0, 400, n_sensors, n_samples)
        plain, _ = timed_path(X, y)
        seconds, gap = timed_path(X, y, windows=windows, window_share=0.5)
        cells = f"{n_sensors} × {n_samples}, {windows}", f"{plain:.2f}", f"{seconds:.2f}", f"{seconds / plain:.1f}"
        print("| " + " | ".join([*cells, gap]) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["simulated", "path", "recordings", "speed", "growth"])
    parser.add_argument("names", nargs="*", default=list(TRAINING))
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first set or split")
    parser.add_argument("--iterations", type=int, default=5000, help="of FISTA, for one alpha")
    parser.add_argument("--noise", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    tasks = {"simulated": simulated, "path": path, "recordings": recordings, "speed": speed, "growth": growth}
    tasks[args.what](args)


if __name__ == "__main__":
    main()
