"""From the continuous files to test AUC, on recordings that other people made."""

import numpy as np
import pytest

from mixnorm.eeg import Preparation, default_classifier, prepare, read_recording, read_recordings
from mixnorm.eeg.splitting import Folds, auc_by_fold, held_out_scores

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("subject", "of_lda"), [("S1", 0.947), ("S2", 0.951), ("S3", 0.871)])
def test_br41n_comes_within_three_hundredths_of_a_shrinkage_lda(data, subject, of_lda):
    preparation = Preparation(band=(1, 10), window=(0.0, 0.8), n_samples=16)
    design = prepare(read_recording(data / "br41n-p300" / f"{subject}.mat"), preparation)
    folds = Folds(np.arange(len(design)) * 5 // len(design), "block")
    scores = held_out_scores(design, default_classifier, folds).score
    assert np.mean(auc_by_fold(design, scores, folds)) > of_lda - 0.03


def test_bci_competition_iib_leaving_one_run_out(data):
    design = prepare(read_recordings(data / "bcicomp2-iib"))
    folds = Folds(design.run, "run")
    aucs = auc_by_fold(design, held_out_scores(design, default_classifier, folds).score, folds)
    assert np.mean(aucs) >= 0.85
