"""
Several subjects together, and a new one
========================================

Subjects who use the same electrodes can be trained jointly: the group norm selects electrodes for all of them, and
the similarity term keeps their classifiers close to each other. A new subject starts from what the others have in
common.
"""

# %%
# Six simulated subjects, 60 training trials each. The last one is kept apart as the new subject.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVCCV, MultiTaskGroupSVCCV
from mixnorm.eeg import simulated_cohort

cohort = simulated_cohort(6, 460, seed=2)
everyone = list(cohort.own)
new = everyone[-1]
number = np.concatenate([np.arange((cohort.subject == name).sum()) for name in everyone])  # of a trial in its subject
train, test = number < 60, number >= 160
known = cohort.subject != new

# %%
# Jointly, and everyone for themselves.

joint = MultiTaskGroupSVCCV(alphas=6, similarities=(0.01, 0.1, 1.0)).fit(
    cohort.X[train & known], cohort.y[train & known], subjects=cohort.subject[train & known]
)
alone, together = [], []
for name in everyone[:-1]:
    own, held_out = (cohort.subject == name) & train, (cohort.subject == name) & test
    single = GroupSVCCV().fit(cohort.X[own], cohort.y[own])
    alone.append(roc_auc_score(cohort.y[held_out], single.decision_function(cohort.X[held_out])))
    scores = joint.decision_function(cohort.X[held_out], subjects=cohort.subject[held_out])
    together.append(roc_auc_score(cohort.y[held_out], scores))
print("common electrodes: ", ", ".join(cohort.common))
print("selected jointly:  ", ", ".join(cohort.ch_names[i] for i in joint.selected_groups_))

# %%
# The new subject with 0 to 80 calibration trials. With none, the mean classifier of the others is used.

held_out = (cohort.subject == new) & test
sizes, aucs = (0, 10, 20, 40, 80), []
for size in sizes:
    if size:
        own = np.flatnonzero(cohort.subject == new)[:size]
        joint.adapt(cohort.X[own], cohort.y[own], subject=new)
    aucs.append(roc_auc_score(cohort.y[held_out], joint.decision_function(cohort.X[held_out])))

# %%
# Left: each point is a subject. Right: the new subject.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.plot([0.5, 1], [0.5, 1], color="#999999", linewidth=1)
left.scatter(alone, together, zorder=2)
left.set(xlabel="AUC, trained alone", ylabel="AUC, trained jointly", xlim=(0.5, 1), ylim=(0.5, 1), aspect="equal")
right.plot(sizes, aucs, marker="o")
right.set(xlabel="calibration trials of the new subject", ylabel="AUC", ylim=(0.5, 1))
plt.show()
