"""
What the noise covariance is worth with few trials
==================================================

A classifier of event-related potentials must suppress the ongoing EEG. With few trials it cannot learn from the
labels what to suppress, but the covariance of the ongoing EEG can be estimated from the same trials, if some
structure is assumed (``noise="structured"``). ``noise="evoked"`` also prefers the few patterns over electrodes and
courses in time in which the classes differ.
"""

# %%
# Simulated EEG. As in real EEG, all electrodes record the same sources, each of which is slow and spread over the
# scalp: the noise of neighbouring electrodes and of neighbouring samples is correlated. Targets add a response that
# is largest at Pz.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVCCV
from mixnorm.eeg import electrode_positions

NAMES = ["Fz", "Cz", "Pz", "Oz", "P3", "P4", "PO7", "PO8", "C3", "C4", "F3", "F4", "Fp1", "Fp2", "T7", "T8"]
TIMES = np.arange(12) * 0.05
PLACES = electrode_positions(NAMES)


def spread(places):
    """How strongly activity at some places on the scalp is recorded by each electrode."""
    return np.exp(-((PLACES[:, None] - places) ** 2).sum(axis=2) / (2 * 0.06**2))


def simulated(n_trials, seed, n_sources=30, memory=0.8):
    """Trials (n, 16, 12), scaled to unit variance, and labels; a sixth are targets."""
    rng = np.random.default_rng(seed)
    places = rng.standard_normal((n_sources, 3))
    places[:, 2] = abs(places[:, 2])  # the upper half of the head
    places *= 0.095 / np.linalg.norm(places, axis=1, keepdims=True)
    sources = rng.standard_normal((n_trials, n_sources, 32))
    for t in range(1, 32):
        sources[..., t] = memory * sources[..., t - 1] + np.sqrt(1 - memory**2) * sources[..., t]
    sources = rng.lognormal(size=n_sources)[:, None] * sources[..., 20:]
    X = np.einsum("cs,nst->nct", spread(places), sources) + 0.2 * rng.standard_normal((n_trials, 16, 12))
    y = rng.random(n_trials) < 1 / 6
    X[y] += 3 * spread(PLACES[NAMES.index("Pz")][None]) * np.exp(-(((TIMES - 0.35) / 0.08) ** 2) / 2)
    return X / X.std(axis=(0, 2), keepdims=True), y


# %%
# Train on few trials and more, test on the same 1000 others.

SIZES = (50, 100, 200, 400, 800)
METHODS = {"plain SVM": {}} | {f'SVM, noise="{name}"': {"noise": name} for name in ("structured", "evoked")}


def curve(seed, settings):
    """AUC on held-out trials for every number of training trials."""
    X, y = simulated(1800, seed)
    aucs = []
    for size in SIZES:
        model = GroupSVCCV(penalty="l2", **settings).fit(X[:size], y[:size])
        aucs.append(roc_auc_score(y[800:], model.decision_function(X[800:])))
    return aucs


aucs = {name: 100 * np.array([curve(seed, settings) for seed in range(6)]) for name, settings in METHODS.items()}

# %%
# Mean over six simulated subjects, with the standard error.

figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
for (name, values), marker in zip(aucs.items(), "os^", strict=True):
    axes.errorbar(SIZES, values.mean(0), values.std(0, ddof=1) / 6**0.5, marker=marker, capsize=3, label=name)
axes.set(xscale="log", xticks=SIZES, xticklabels=SIZES, xlabel="training trials", ylabel="AUC in percent")
axes.minorticks_off()
axes.legend()
plt.show()

# %%
# The page :doc:`/docs/noise` has the same comparison on three sets of real recordings, with other decoders beside it.
# It also says where the noise covariance does not help: where the noise of different electrodes is independent.
