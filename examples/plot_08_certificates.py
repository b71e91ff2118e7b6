"""
Paths and certificates
======================

:func:`mixnorm.group_svc_path` solves a sequence of problems from the largest alpha, where no electrode is selected,
down. Each solution has a certificate: the relative duality gap, a bound on how far its objective can be from the
optimum.
"""

# %%
# A path of 60 alphas, on data in which 8 of 16 electrodes carry the response.

import matplotlib.pyplot as plt
import numpy as np

from mixnorm import group_svc_path
from mixnorm.eeg import simulated_p300
from mixnorm.report import plot_path

data = simulated_p300(1000, seed=0)
path = group_svc_path(data.X, data.y, alphas=60)

# %%
# Left: the norm of the coefficients of every electrode, coloured where it carries the response. Those enter first.
# Right: the gap of every solution, and the tolerance that was asked for.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
plot_path(path, left, groups=data.ch_names, highlight=data.informative)
right.semilogy(path.alphas, np.maximum(path.dual_gaps, 1e-16), marker=".", linestyle="")
right.axhline(1e-6, color="#999999")
right.annotate("tol", (path.alphas[0], 1e-6), va="bottom")
right.set(xscale="log", xlabel="alpha", ylabel="relative duality gap", ylim=(None, 1e-5))
right.invert_xaxis()
plt.show()

# %%
# How many electrodes are selected at the first alphas, and how many steps the solver took.

used = np.any(path.coefs.reshape(60, len(data.ch_names), -1) != 0, axis=2)
for alpha, of_alpha, steps in list(zip(path.alphas, used, path.n_iters, strict=True))[:40:8]:
    print(f"alpha {alpha:.4f}: {np.count_nonzero(of_alpha):2} electrodes, {steps} steps")
