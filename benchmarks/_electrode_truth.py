"""Electrodes where the truth is known, or where there is none, and the time of a whole selection."""

import time
from dataclasses import replace

import numpy as np
from _electrode_orders import ORDERS, accuracy
from joblib import Parallel, delayed

from mixnorm import GroupSVCCV, stability_selection
from mixnorm.eeg import InOrder, Preparation, SelectOptions, prepare, select_montage, simulated_p300
from mixnorm.montage.caution import chance_level
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.orders import EliminationOrder
from mixnorm.montage.recommendation import smallest_near_best
from mixnorm.montage.scoring import score_montages
from mixnorm.montage.trials import SubjectTrials, Training


def simulated(options):
    """Print how well the truth of Table 1's setting is found."""
    rows = np.array(Parallel(options.jobs)(delayed(find_truth)(seed) for seed in range(options.sets)))
    best, chosen, false = rows.T
    print(f"{options.sets} data sets of 1000 trials: F at the best-scoring number {best.mean():.3f} (mean),")
    print(f"of the recommended montage {chosen.mean():.3f} (mean), {np.median(chosen):.3f} (median);")
    print(f"false electrodes in it: median {np.median(false):g}, mean {false.mean():.2f}")


def find_truth(seed):
    data, truth = simulated_p300(1000, seed=seed), set(range(8))
    found = nested(data.X, data.y)
    choice = smallest_near_best(found)
    sizes = [found.sizes[place] for place in (choice.best, choice.chosen)]
    f = [2 * len(truth & set(found.order[:k].tolist())) / (8 + k) for k in sizes]
    return *f, len(set(found.order[: sizes[1]].tolist()) - truth)


def nested(X, y):
    fold = np.arange(len(y)) * 5 // len(y)
    subject = SubjectTrials(X, np.where(y > 0, 1.0, -1.0), fold, np.arange(len(y)))
    return score_montages([subject], EliminationOrder(Constraints.none(X.shape[1])), cv=InOrder())


def stability(options):
    """Print the number of false electrodes that stability selection chose, beside its bound."""
    for n_informative in options.informative:
        false, chosen = [], []
        for seed in range(options.sets):
            data = simulated_p300(1000, n_informative=n_informative, seed=seed)
            found = stability_selection(data.X, data.y, n_resamplings=options.resamplings)
            false.append(int(np.sum(found.selected >= n_informative)))
            chosen.append(len(found.selected))
        print(
            f"{options.sets} data sets, {n_informative} of 16 informative, {options.resamplings} half-sample pairs, "
            f"first {found.n_sensors} of each, threshold {found.threshold:.2f}: {np.mean(chosen):.2f} chosen, "
            f"{np.mean(false):.3f} false (bound {found.error_bound:.2f}, unimodal {found.unimodal_bound:.2f})",
            flush=True,
        )


def permutations(options):
    """Print mean AUC, intervals that include 0.5, and recommendations, over permuted labels."""
    rows = Parallel(options.jobs)(delayed(permuted)(seed) for seed in range(options.sets))
    means, includes, sure = (np.array(column) for column in zip(*rows, strict=True))
    print(f"{options.sets} permutations of 120 trials, 4 electrodes; K = 1 … 4")
    print("mean AUC", means.mean(axis=0).round(4).tolist())
    print("intervals that include 0.5", includes.mean(axis=0).round(3).tolist())
    print(f"montages that would be recommended: {100 * sure.mean():.1f} %")


def permuted(seed):
    data = simulated_p300(120, n_channels=4, n_informative=2, seed=0)
    found = nested(data.X[:, :, ::2], data.y[np.random.default_rng(seed).permutation(120)])
    low, high = found.interval()
    sure = chance_level(found, smallest_near_best(found).chosen) is None
    return found.mean, (low <= 0.5) & (high >= 0.5), sure


def timed(options):
    """Print the CPU time of a whole selection with all its comparisons: 64 electrodes × 12 samples, 1600 trials."""
    data = simulated_p300(1600, n_channels=64, n_informative=16, noise=0.4, noise_correlation=0.8, seed=0)
    rng = np.random.default_rng(0)
    X = np.repeat(data.X, 2, axis=2)[:, :, :12] + 0.2 * rng.standard_normal((1600, 64, 12))
    plain = Preparation.preset("epochs").with_(window=(0.0, 1.0), scaling="standard", clip=None)
    design = replace(prepare(data.to_recording(), plain), X=X, times=0.05 * np.arange(12))
    start = time.process_time()
    GroupSVCCV(20, cv=3).fit(design.X[:1280], design.y[:1280])
    once = time.process_time() - start
    start = time.process_time()
    last = [start]

    def progress(reached):
        now = time.process_time()
        print(f"  {now - last[0]:.1f} s; {reached.step}, {reached.done:.0%}", flush=True)
        last[0] = now

    found = select_montage(design, SelectOptions(), progress)
    whole = time.process_time() - start
    print(f"one GroupSVCCV {once:.1f} s, selection {whole:.1f} s; {found.recommended}")


def sequential(options):
    """Compare our sequential forward selection with that of bci-essentials (needs the package)."""
    from bci_essentials.channel_selection import channel_selection_by_method
    from bci_essentials.classification.generic_classifier import KernelResults

    data = simulated_p300(300, n_channels=8, n_informative=3, noise=0.1, seed=1)
    training = Training(data.X, np.where(data.y > 0, 1.0, -1.0), [])

    def kernel(X, y):
        found = accuracy(X, y)
        return KernelResults(None, np.zeros(len(y)), found, 0.0, 0.0)

    order = ORDERS["sequential selection"](training)
    names = [str(channel) for channel in range(8)]
    steps = channel_selection_by_method(
        kernel, data.X, data.y, names, "SFS", max_channels=5, performance_delta=-1.0
    ).results_df["Channel Subset"]
    for size, subset in enumerate(steps, 1):
        theirs, ours = sorted(map(int, subset)), sorted(order[:size].tolist())
        print(size, ours, theirs, "same" if ours == theirs else "different")
