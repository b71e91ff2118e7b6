"""Draw the selected electrodes on the head, and the coefficients of every electrode along the path.

python examples/which_electrodes.py docs/which-electrodes.png    the picture in docs/how-it-works.md
"""

import sys

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Circle

from mixnorm import GroupSVCCV, group_svc_path
from mixnorm.eeg import electrode_positions, simulated_p300
from mixnorm.report import plot_path

CHOSEN, LEFT_OUT = "#D55E00", "#9a9a9a"


def main(target):
    data = simulated_p300(1000, seed=0)
    model = GroupSVCCV(rule="1se", adaptive=True).fit(data.X, data.y)
    path = group_svc_path(data.X, data.y, alphas=60)
    figure, (head, curves) = plt.subplots(1, 2, figsize=(10, 4.4), width_ratios=(1, 1.5), layout="constrained")
    draw_head(head, data.ch_names, model.group_norms_)
    plot_path(path, curves, groups=data.ch_names, highlight=[data.ch_names[i] for i in model.selected_groups_])
    curves.set_title("More electrodes are selected as alpha decreases", fontsize=11)
    figure.savefig(target, dpi=130)


def draw_head(axis, names, norms):
    place = electrode_positions(names)
    angle, height = np.arctan2(place[:, 1], place[:, 0]), np.hypot(place[:, 0], place[:, 1])
    radius = np.arctan2(height, place[:, 2]) / (
        np.pi / 2
    )  # azimuthal projection: the circle is the line through the ears
    axis.add_patch(Circle((0, 0), 1, fill=False, color="#444444"))
    axis.plot([-0.1, 0, 0.1], [0.995, 1.1, 0.995], color="#444444")
    for name, x, y, norm in zip(names, radius * np.cos(angle), radius * np.sin(angle), norms, strict=True):
        colour, area = CHOSEN if norm else LEFT_OUT, 60 + 340 * norm / norms.max()
        axis.scatter(x, y, s=area, color=CHOSEN if norm else "white", edgecolor=colour, zorder=2)
        below = -(np.sqrt(area) / 2 + 2)  # points; a marker is sqrt(area) wide
        axis.annotate(name, (x, y), (0, below), textcoords="offset points", ha="center", va="top", fontsize=8)
    axis.set(aspect="equal", xlim=(-1.15, 1.15), ylim=(-1.15, 1.2))
    axis.set_title(
        f"{int((norms > 0).sum())} of {len(names)} electrodes are selected\n(size: norm of their coefficients)",
        fontsize=11,
    )
    axis.axis("off")


if __name__ == "__main__":
    main(sys.argv[1])
