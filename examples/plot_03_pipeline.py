"""
A decoder in a scikit-learn pipeline
====================================

Electrodes are selected and a classifier is trained inside one pipeline, and both settings are chosen by
:class:`~sklearn.model_selection.GridSearchCV`. The selection is part of every fold, so that the score is fair.
"""

# %%
# Trials, in the shape (trials, channels, times), and a pipeline: scale every channel, keep k electrodes, classify.

import matplotlib.pyplot as plt
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from mixnorm import GroupSVC, SensorSelector
from mixnorm.eeg import ChannelScaler, simulated_p300

data = simulated_p300(800, seed=1)
X_train, X_test, y_train, y_test = train_test_split(data.X, data.y, train_size=400, random_state=0, stratify=data.y)
pipeline = make_pipeline(ChannelScaler(), SensorSelector(), GroupSVC(penalty="l2", alpha=0.1))

# %%
# The grid: how many electrodes, and how strong the penalty is.

search = GridSearchCV(
    pipeline,
    {"sensorselector__n_sensors": [1, 2, 4, 6, 8, 12, 16], "groupsvc__alpha": [0.03, 0.3]},
    scoring="roc_auc",
    cv=5,
).fit(X_train, y_train)
print(search.best_params_)
print(f"AUC on the other trials: {search.score(X_test, y_test):.3f}")

# %%
# The electrodes that were kept, by name. Eight of them carry the simulated response.

kept = search.best_estimator_["sensorselector"].selected_groups_
print("kept:       ", ", ".join(data.ch_names[i] for i in kept))
print("informative:", ", ".join(data.ch_names[i] for i in range(16) if data.ch_names[i] in data.informative))

# %%
# The scores of the grid.

results = search.cv_results_
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for alpha in (0.03, 0.3):
    of_alpha = results["param_groupsvc__alpha"] == alpha
    axes.errorbar(
        results["param_sensorselector__n_sensors"][of_alpha].astype(int),
        results["mean_test_score"][of_alpha],
        results["std_test_score"][of_alpha] / 5**0.5,
        marker="o",
        capsize=3,
        label=f"alpha = {alpha}",
    )
axes.set(xlabel="number of electrodes", ylabel="AUC (5 folds, ± standard error)")
axes.legend()
plt.show()
