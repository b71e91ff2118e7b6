"""A decoder of chosen electrodes is calibrated on trials that had no part in the choice."""

import numpy as np
import pytest
from sklearn.base import clone

from mixnorm.eeg import InOrder, default_classifier, prepare
from mixnorm.estimators.calibration import fit_sigmoid
from mixnorm.montage.decoders import decoder_on
from mixnorm.montage.preselection import PreselectedSVC, calibrated
from spellers import easy_recording


def test_electrodes_are_chosen_anew_in_every_fold():
    design = prepare(easy_recording(3, 240, n_channels=8, n_informative=2, amplitude=3.0))
    X, y, groups = design.to_sklearn()
    model = PreselectedSVC(2, default_classifier("svm", alphas=4))
    decoder = decoder_on(design, design.ch_names[:2], clone(model.classifier), ())
    biased = dict(decoder.classifier.calibration_)
    found = calibrated(decoder, design, model)
    scores = np.empty(len(y))
    for train, test in InOrder().split(X, groups=groups):
        # a channel that a fold did not choose has no part in its scores
        scaler = design.preparation.scaler().fit(X[train])
        fixed = clone(model.classifier).set_params(alphas=[decoder.classifier.alpha_])
        part = PreselectedSVC(2, fixed).fit(scaler.transform(X[train]), y[train], groups[train])
        assert len(part.classifier_.selected_groups_) == 2
        scores[test] = part.decision_function(scaler.transform(X[test]))
    expected = fit_sigmoid(scores, np.where(y == 1, 1.0, -1.0), np.ones(len(y)))
    assert found.classifier.calibration_["slope"] == pytest.approx(expected.slope)
    assert found.classifier.calibration_["slope"] != pytest.approx(biased["slope"])
    assert np.array_equal(found.classifier.out_of_fold_scores_, scores)
