"""
Table 1 of the paper
====================

The paper compares its methods on simulated data in which 8 of 16 electrodes carry the response. The plan
``simulated`` repeats this; here it has two splits and three methods, so that it takes seconds. ``mixnorm study
simulated`` runs all of it.
"""

# %%
# A plan, run in a temporary folder.

import tempfile

import matplotlib.pyplot as plt

from mixnorm.report import table
from mixnorm.study import load_plan, read_results, run_study

plan = load_plan("simulated").with_(splits=2, methods=("svm", "gsvm-2", "gsvm-a"))
folder = tempfile.mkdtemp()
run_study(plan, folder)
results = read_results(folder)
print(table(results))

# %%
# AUC and F-measure of the selected electrodes: how many of the informative ones are found, and how few others.

rows = results.rows()
figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
for axis, what in zip(axes, ("auc", "f_measure"), strict=True):
    axis.bar([row.method for row in rows], [getattr(row, what) for row in rows], color="#0072B2")
    axis.set(ylabel=f"{what.replace('_', '-')} in percent".replace("auc", "AUC").replace("f-", "F-"), ylim=(50, 100))
plt.show()
