"""
Where and when: sensors and windows of time together
====================================================

A response is not only at some electrodes, but also at some times. ``GroupSVCCV(windows=…, window_share=…)`` chooses
both in one convex problem: a coefficient is zero unless its sensor *and* its window are chosen.
"""

# %%
# Simulated trials of 16 electrodes, 100 to 700 ms after the stimulus. Targets differ at five electrodes, and only
# between 300 and 500 ms. The noise is correlated over time.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVCCV
from mixnorm.eeg.simulate import ELECTRODES
from mixnorm.report import plot_windows

NAMES = ELECTRODES[:16]
TIMES = 0.125 + 0.05 * np.arange(12)
INFORMATIVE = ["Cz", "Pz", "Oz", "P3", "P4"]


def simulated(n_trials, seed):
    """Trials (n, 16, 12) and labels; one of four is a target."""
    rng = np.random.default_rng(seed)
    white = rng.standard_normal((n_trials, 16, 13))
    X, y = white[:, :, 1:] + 0.7 * white[:, :, :-1], rng.random(n_trials) < 0.25
    response = np.exp(-(((TIMES - 0.4) / 0.06) ** 2) / 2) * (np.abs(TIMES - 0.4) < 0.1)
    for name in INFORMATIVE:
        X[y, NAMES.index(name)] += response
    return X, y


X, y = simulated(400, seed=0)
X_new, y_new = simulated(4000, seed=1)

# %%
# The windows are six equal parts of the time. The window share says how much the penalty is about windows: 0 chooses
# sensors only, 1 windows only. Here it is chosen by cross-validation together with alpha, from the training trials
# alone.

together = GroupSVCCV(10, windows=6, window_share=[0.2, 0.5, 0.8], tol=1e-4).fit(X, y)
sensors_only = GroupSVCCV(10, windows=6, tol=1e-4).fit(X, y)
print(f"window share {together.window_share_:g}, windows {together.selected_windows_.tolist()}")
for name, model in (("sensors and windows", together), ("sensors only", sensors_only)):
    auc = roc_auc_score(y_new, model.decision_function(X_new))
    kept = f"{len(model.selected_groups_)} sensors, {np.count_nonzero(model.coef_)} coefficients"
    print(f"{name:20s} AUC {auc:.3f}, {kept}")

# %%
# A map of both: the colour is the norm of the coefficients that an electrode has in a window; empty cells are exactly
# zero. Without norms of windows, all windows of a chosen electrode are used.

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
plot_windows(together, left, ch_names=NAMES, times=TIMES)
plot_windows(sensors_only, right, ch_names=NAMES, times=TIMES)
left.set_title(f"sensors and windows\n{left.get_title()}", fontsize=10)
right.set_title(f"sensors only\n{right.get_title()}", fontsize=10)
plt.show()

# %%
# ``mixnorm select RECORDING --windows 6`` does the same for a recording. Its page shows the windows as a strip over
# the evoked responses, how often each was chosen over the folds, and the AUC on held-out trials beside that with
# all windows.
