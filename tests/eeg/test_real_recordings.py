"""From the continuous files to test AUC, on recordings that other people made."""

import numpy as np
import pytest

from mixnorm.eeg import Preparation, default_classifier, prepare, read_recording, read_recordings
from mixnorm.eeg.splitting import Folds, cross_validated_auc

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("subject", "of_lda"), [("S1", 0.947), ("S2", 0.951), ("S3", 0.871)])
def test_br41n_comes_within_three_hundredths_of_a_shrinkage_lda(data, subject, of_lda):
    preparation = Preparation(band=(1, 10), window=(0.0, 0.8), n_samples=16)
    design = prepare(read_recording(data / "br41n-p300" / f"{subject}.mat"), preparation)
    folds = Folds(np.arange(len(design)) * 5 // len(design), "block")
    assert np.mean(cross_validated_auc(design, default_classifier, folds)) > of_lda - 0.03


def test_bci_competition_iib_leaving_one_run_out(data):
    design = prepare(read_recordings(data / "bcicomp2-iib"))
    aucs = cross_validated_auc(design, default_classifier, Folds(design.run, "run"))
    assert np.mean(aucs) >= 0.85
