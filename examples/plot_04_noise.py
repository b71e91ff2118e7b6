"""
What the noise covariance is worth with few trials
==================================================

A classifier of event-related potentials must suppress the ongoing EEG. With few trials it cannot learn from the labels what
to suppress, but the covariance of the ongoing EEG can be estimated from the same trials, if some structure is assumed
(``noise="structured"``). Here the simulated noise is shared between neighbouring electrodes, as in real EEG.
"""

# %%
# Train on few trials and more, test on the same 1000 others.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVCCV
from mixnorm.eeg import simulated_p300

SIZES = (50, 100, 200, 400, 800)
METHODS = {"plain SVM": {}, 'SVM, noise="structured"': {"noise": "structured"}}


def curve(seed, settings):
    """AUC on held-out trials for every number of training trials."""
    data = simulated_p300(1800, noise_correlation=0.9, seed=seed)
    test = slice(800, None)
    aucs = []
    for size in SIZES:
        model = GroupSVCCV(penalty="l2", **settings).fit(data.X[:size], data.y[:size])
        aucs.append(roc_auc_score(data.y[test], model.decision_function(data.X[test])))
    return aucs


aucs = {name: 100 * np.array([curve(seed, settings) for seed in range(8)]) for name, settings in METHODS.items()}

# %%
# Mean over eight simulated subjects, with the standard error.

figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
for (name, values), marker in zip(aucs.items(), "os", strict=True):
    axes.errorbar(SIZES, values.mean(0), values.std(0, ddof=1) / len(values) ** 0.5, marker=marker, capsize=3, label=name)
axes.set(xscale="log", xticks=SIZES, xticklabels=SIZES, xlabel="training trials", ylabel="AUC in percent")
axes.minorticks_off()
axes.legend()
plt.show()

# %%
# The page :doc:`/docs/noise` has the same comparison on three sets of real recordings, with other decoders beside it.
