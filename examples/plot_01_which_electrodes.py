"""
Which electrodes?
=================

:func:`mixnorm.eeg.select_montage` finds the best electrodes for every number of electrodes and recommends one of these
montages. ``mixnorm select`` does the same on the command line and writes a page about it.
"""

# %%
# A simulated recording of a P300 speller with 12 electrodes, six of which carry the response. Fewer half-sample pairs
# than by default (50), and no comparison with other ways to order electrodes, save time here.

import matplotlib.pyplot as plt

from mixnorm.eeg import SelectOptions, select_montage, simulated_recording
from mixnorm.report import plot_auc_curve, plot_montage

recording = simulated_recording(480, n_channels=12, n_informative=6, seed=1)
found = select_montage(recording, SelectOptions(n_resamplings=2, compare=False))

# %%
# The montage that is recommended, on a head seen from above.

plot_montage(found)
plt.show()

# %%
# The AUC on held-out trials for every number of electrodes. The electrodes were chosen in every fold from its training
# trials, so that the curve is fair.

plot_auc_curve(found)
plt.show()

# %%
# What the next electrode brings: the change in AUC, with its standard error over folds.

for montage in found.montages[1:8]:
    last = montage.drop  # the electrode that was added last
    mark = "  <- recommended" if montage is found.chosen else ""
    print(f"{montage.n_sensors}: {last.sensor:3} {-last.auc_change:+.3f} ± {last.standard_error:.3f}{mark}")

# %%
# Any other number of electrodes can be looked at, too, side by side.

figure, panels = plt.subplots(1, 3, figsize=(10, 3.9), layout="constrained")
for n_sensors, axes in zip((1, 2, 6), panels, strict=True):
    plot_montage(found, axes, n_sensors=n_sensors)
plt.show()

# %%
# :doc:`/docs/electrodes` says how the number is chosen, and what else the page of ``mixnorm select`` shows.
