"""From the continuous files to test AUC, on recordings that other people made."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVCCV
from mixnorm.eeg import Preparation, prepare, read_recording, read_recordings

pytestmark = pytest.mark.slow


def fold_aucs(design, folds):
    """Test AUC of each fold; scaler and classifier see the training trials only."""
    X, y, groups = design.to_sklearn()
    aucs = []
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        scaler = design.preparation.scaler().fit(X[train])
        model = GroupSVCCV().fit(scaler.transform(X[train]), y[train], groups=groups[train])
        aucs.append(roc_auc_score(y[test], model.decision_function(scaler.transform(X[test]))))
    return aucs


@pytest.mark.parametrize(("subject", "of_lda"), [("S1", 0.947), ("S2", 0.951), ("S3", 0.871)])
def test_br41n_comes_within_three_hundredths_of_a_shrinkage_lda(data, subject, of_lda):
    design = prepare(read_recording(data / "br41n-p300" / f"{subject}.mat"), Preparation(band=(1, 10)))
    folds = np.arange(len(design)) * 5 // len(design)
    assert np.mean(fold_aucs(design, folds)) > of_lda - 0.03


def test_bci_competition_iib_leaving_one_run_out(data):
    runs = read_recordings(data / "bcicomp2-iib")
    design = prepare(runs, Preparation(band=(1, 8), phase="zero", window=(0.0, 0.6), n_samples=10))
    aucs = fold_aucs(design, design.run)
    assert np.mean(aucs) >= 0.85
