"""
The same on a GPU
=================

Inside :func:`mixnorm.use_device` all problems of a fit (folds, alphas, values of q) are solved together on a device.
Arrays stay NumPy arrays. This example takes the GPU if there is one, and the CPU otherwise.
"""

# %%
# Fit on the host and on the device.

import time

import matplotlib.pyplot as plt
import numpy as np

from mixnorm import GroupSVCCV, use_device
from mixnorm.eeg import simulated_p300

try:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
except ImportError:
    device = "cpu"

data = simulated_p300(600, n_channels=32, seed=0)
started = time.perf_counter()
host = GroupSVCCV(q=(1.0, 1.5, 2.0)).fit(data.X, data.y)
on_host = time.perf_counter() - started
with use_device(device):
    started = time.perf_counter()
    other = GroupSVCCV(q=(1.0, 1.5, 2.0)).fit(data.X, data.y)
    on_device = time.perf_counter() - started
print(f"host {on_host:.2f} s, {device} {on_device:.2f} s (the first call on a GPU includes its start)")

# %%
# Both choose the same alpha and q, and the same electrodes.

print(host.alpha_ == other.alpha_, host.q_ == other.q_, np.array_equal(host.selected_groups_, other.selected_groups_))
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.bar(np.arange(32) - 0.2, host.group_norms_, 0.4, label="host")
axes.bar(np.arange(32) + 0.2, other.group_norms_, 0.4, label=device)
axes.set(xticks=range(32), xlabel="electrode", ylabel="norm of the coefficients")
axes.set_xticklabels(data.ch_names, rotation=90, fontsize=7)
axes.legend()
plt.show()
