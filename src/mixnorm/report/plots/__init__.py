"""Pictures of results for notebooks and papers; the files that the commands write are drawn with the same functions.

Every function takes a result and, optionally, matplotlib axes to draw on, and returns the axes. Without axes it makes
a new figure of pyplot. Needs matplotlib (the extra ``report``).
"""

from mixnorm.report.plots.letter_plots import plot_letters
from mixnorm.report.plots.model_plots import plot_path, plot_patterns
from mixnorm.report.plots.selection_plots import plot_auc_curve, plot_montage
from mixnorm.report.plots.window_plots import plot_windows

__all__ = ["plot_auc_curve", "plot_letters", "plot_montage", "plot_path", "plot_patterns", "plot_windows"]
