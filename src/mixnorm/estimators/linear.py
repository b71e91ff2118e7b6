"""Base class of the linear classifiers: scores, predictions, and attributes that describe the sensors."""

from types import ModuleType

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mixnorm.core.arrays import Array, device, is_numpy_array, namespace, to_numpy
from mixnorm.core.groups import Groups
from mixnorm.core.penalties import vector_norm
from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.inputs import Trials, read_predict
from mixnorm.estimators.persistence import Archivable


class LinearSensorClassifier(Archivable, ClassifierMixin, BaseEstimator):
    """A linear classifier whose features belong to sensors; subclasses fit ``coef_`` and ``intercept_``."""

    def decision_function(self, X) -> np.ndarray:
        """Return the score of every trial: x·w + b (equation 1); positive for ``classes_[1]``.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
            Channels of mne.Epochs, and the columns of a DataFrame if the model has ``groups``, are matched by name.
            Those of sensors that are not selected may be missing.

        Returns
        -------
        ndarray of shape (n,)
            One score per trial.
        """
        check_is_fitted(self)
        matrix = read_predict(self, X, self.selected_groups_).matrix
        xp = self._namespace_of(matrix)
        # A model of float32 trials gives float32 scores, as scikit-learn's estimators do.
        scores = xp.matmul(xp.astype(matrix, self.coef_.dtype, copy=False), xp.matrix_transpose(self.coef_))
        return xp.reshape(scores + self.intercept_, (-1,))

    def predict(self, X) -> np.ndarray:
        """Return the label of every trial.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
            The trials, as for `decision_function`.

        Returns
        -------
        ndarray of shape (n,)
            One of ``classes_`` per trial: the second one where the score is positive.
        """
        return self._label(self.decision_function(X) > 0)

    def _label(self, positive: Array) -> Array:
        """Return the label of every trial; string labels, which other libraries do not have, as a NumPy array."""
        if is_numpy_array(self.classes_):
            return self.classes_[to_numpy(positive).astype(int)]
        xp = namespace(positive)
        return xp.take(self.classes_, xp.astype(positive, xp.int64))

    def _namespace_of(self, matrix: Array) -> ModuleType:
        """Return the array library of the trials, which must be that of the fit."""
        xp, fitted = namespace(matrix), namespace(self.coef_)
        if xp is not fitted or device(matrix) != device(self.coef_):
            raise ValueError(
                f"{type(self).__name__} was fitted on arrays of {fitted.__name__.split('.')[-1]} on device "
                f"{device(self.coef_)}, but X is one of {xp.__name__.split('.')[-1]} on device {device(matrix)}; "
                "convert X, or fit again."
            )
        return xp

    def _note_input(self, trials: Trials) -> None:
        """Keep what `read_predict` needs to match the channels of new trials."""
        self._epochs_shape, self._ch_names, self._recording = trials.shape, trials.ch_names, trials.recording

    def _keep(self, trials: Trials, stack: Stack, solution: Solution, norm_order: float) -> None:
        """Set the fitted attributes from the last problem of a solved stack."""
        self._note_input(trials)
        self.coef_ = solution.W[0, :, :, -1].astype(trials.dtype)
        self.intercept_ = solution.b[0, :, -1].astype(trials.dtype)
        # If the starting point is already the solution there are 0 iterations, but scikit-learn requires at least 1.
        self.n_iter_ = max(1, int(solution.n_iter[0, -1]))
        self.dual_gap_ = float(solution.gap[0, -1])
        self.objective_ = float(solution.objective[0, -1])
        self._set_sensors(stack.groups, self.coef_, norm_order)

    def _set_sensors(self, groups: Groups, W: np.ndarray, q: float) -> None:
        """Set the attributes that describe the sensors from coefficients W (T, d)."""
        self.groups_ = groups.labels.copy()
        self.group_norms_ = vector_norm(groups.to_blocks(W[..., None]), q)[:, 0].astype(W.dtype)
        self.selected_groups_ = self.groups_[self.group_norms_ != 0]

    def _set_windows(self, windows: Groups | None) -> None:
        """Set the attributes that describe the windows of time; a fit without windows has none."""
        for name in ("windows_", "window_norms_", "selected_windows_"):
            # an earlier fit may have had windows
            if hasattr(self, name):
                delattr(self, name)
        if windows is not None:
            blocks = windows.to_blocks(to_numpy(self.coef_)[..., None])
            self.windows_ = windows.labels.copy()
            self.window_norms_ = vector_norm(blocks, 2)[:, 0].astype(blocks.dtype)
            self.selected_windows_ = self.windows_[self.window_norms_ != 0]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.three_d_array = True
        return tags
