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

data = simulated_p300(1000, seed=0)
path = group_svc_path(data.X, data.y, alphas=60)
norms = np.linalg.norm(path.coefs.reshape(len(path.alphas), len(data.ch_names), -1), axis=2)

# %%
# Left: the norm of the coefficients of every electrode. Those that carry the response enter first. Right: the gap of
# every solution, and the tolerance that was asked for.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for name, norm in zip(data.ch_names, norms.T, strict=True):
    informative = name in data.informative
    left.plot(path.alphas, norm, color="#D55E00" if informative else "#9a9a9a", linewidth=1.5 if informative else 0.8)
left.set(xscale="log", xlabel="alpha", ylabel="norm of the coefficients")
left.invert_xaxis()
left.plot([], [], color="#D55E00", label="informative")
left.plot([], [], color="#9a9a9a", label="not informative")
left.legend()
right.semilogy(path.alphas, np.maximum(path.dual_gaps, 1e-16), marker=".", linestyle="")
right.axhline(1e-6, color="#999999")
right.annotate("tol", (path.alphas[0], 1e-6), va="bottom")
right.set(xscale="log", xlabel="alpha", ylabel="relative duality gap")
right.invert_xaxis()
plt.show()

# %%
# How many electrodes are selected at the first alphas, and how many steps the solver took.

for alpha, norm, steps in list(zip(path.alphas, norms, path.n_iters, strict=True))[:40:8]:
    print(f"alpha {alpha:.4f}: {np.count_nonzero(norm):2} electrodes, {steps} steps")
