"""
Patterns as topographies
========================

The weights of a classifier say how it combines the electrodes. They also serve to cancel noise, so that an electrode
without any response may have a large weight. The patterns (Haufe et al. 2014) show where and when the response is.
"""

# %%
# Simulated EEG of 32 electrodes, as volume conduction makes it: every source is recorded by the electrodes around it.
# Thirty sources of ongoing activity have random places. Targets add a response that is largest at Pz, 350 ms after the
# stimulus.

import matplotlib.pyplot as plt
import mne
import numpy as np

from mixnorm import GroupSVCCV
from mixnorm.eeg import electrode_positions
from mixnorm.eeg.simulate import ELECTRODES
from mixnorm.report import plot_patterns

mne.set_log_level("warning")
NAMES = list(ELECTRODES[:32])
PLACES = electrode_positions(NAMES)
TIMES = np.arange(10) * 0.05 + 0.15


def spread(places):
    """How strongly activity at some places on the scalp is recorded by each electrode."""
    return np.exp(-((PLACES[:, None] - places) ** 2).sum(axis=2) / (2 * 0.05**2))


rng = np.random.default_rng(0)
places = rng.standard_normal((30, 3))
places[:, 2] = abs(places[:, 2])  # the upper half of the head
places *= 0.095 / np.linalg.norm(places, axis=1, keepdims=True)
y = rng.random(600) < 1 / 6
X = np.einsum("cs,nst->nct", spread(places), rng.standard_normal((600, 30, 10)))
X += 0.2 * rng.standard_normal(X.shape)
response = spread(PLACES[[NAMES.index("Pz")]]) * np.exp(-(((TIMES - 0.35) / 0.07) ** 2) / 2)
X[y] += 2 * response

model = GroupSVCCV(penalty="l2", noise="structured").fit(X, y)

# %%
# Topographies in one line of MNE: the estimators have ``filters_`` and ``patterns_`` of the shape (times, channels).
# Below are the patterns at 250, 350 and 450 ms.

info = mne.create_info(NAMES, 20.0, "eeg").set_montage("colin27_1020")
maps = mne.decoding.get_spatial_filter_from_estimator(
    model, info, get_coefs=("filters_", "patterns_"), patterns_method="haufe"
)
titles = {"name_format": "sample %d", "units": "", "scalings": 1, "show": False}
maps.plot_patterns(components=[2, 4, 6], **titles)
plt.show()

# %%
# The weights at the same times: electrodes around Pz have weights of the other sign, which subtract what they and Pz
# have in common.

maps.plot_filters(components=[2, 4, 6], cbar_fmt="%.2f", **titles)
plt.show()

# %%
# All times at once. :func:`~mixnorm.report.plot_patterns` interpolates nothing between electrodes; with ``time=0.35``
# it draws them on a head. The patterns resemble the simulated response, the weights do not.

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 5.4), width_ratios=(1, 1, 1.4), layout="constrained")
plot_patterns(model, left, ch_names=NAMES, times=TIMES)
plot_patterns(model, middle, ch_names=NAMES, times=TIMES, weights=True)
plot_patterns(model, right, ch_names=NAMES, times=TIMES, time=0.35)
left.set_title("patterns")
middle.set_title("weights")
right.set_title("patterns at 350 ms")
plt.show()


def similarity(found):
    """Correlation with the simulated response over electrodes and times."""
    return np.corrcoef(found.ravel(), response.T.ravel())[0, 1]


print(f"patterns and simulated response: r = {similarity(model.patterns_):.2f}")
print(f"weights and simulated response:  r = {similarity(model.filters_):.2f}")

# %%
# A :class:`~mixnorm.eeg.Decoder` has the same attributes in µV, and knows its channels and times:
# ``plot_patterns(decoder)``.
