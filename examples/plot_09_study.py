"""
A study of your own
===================

A plan says which methods are compared on which data. A study that is stopped continues where it was. This one
compares three methods at two numbers of training trials, on a file of epochs that is written first.
"""

# %%
# A file of epochs: trials, labels, subjects, channel names and times.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mixnorm.eeg import simulated_cohort
from mixnorm.report import table
from mixnorm.study import load_plan, load_results, read_results, run_study

folder = Path(tempfile.mkdtemp())
cohort = simulated_cohort(4, 300, seed=0)
np.savez(
    folder / "recordings.npz",
    X=cohort.X,
    y=cohort.y,
    subject=cohort.subject,
    ch_names=cohort.ch_names,
    times=cohort.times,
)

# %%
# The plan, a TOML file that contains data only.

(folder / "plan.toml").write_text("""
name = "mine"
methods = ["svm", "gsvm-2", "lda"]
split_by = "random"
splits = 3
n_train = [60, 200]
alphas = { low = 1e-3, high = 1.0, count = 6 }

[[dataset]]
name = "recordings"
source = "recordings.npz"
""")
run_study(load_plan(str(folder / "plan.toml")), folder / "results")
print(table(read_results(folder / "results")))

# %%
# The same results as a DataFrame, one row for each subject, split and method.

frame = load_results(folder / "results")
means = frame.groupby(["method", "n_train"])["auc"].mean().unstack()
axes = means.plot.bar(rot=0, ylabel="AUC in percent", figsize=(6, 3.4))
axes.set_ylim(50, 100)
axes.legend(title="training trials", loc="upper left")
plt.tight_layout()
plt.show()
