"""`SensorSelector`: a transformer that keeps exactly ``n_sensors`` sensors."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from mixnorm.core.certificate import certify
from mixnorm.core.penalties import vector_norm
from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.elimination import check_strategy, elimination_noise, elimination_order
from mixnorm.estimators.inputs import Trials, all_or_nothing, class_balance, read_predict, read_training
from mixnorm.estimators.objective import Objective, as_noise, largest_alpha, solve_with, varying, warn_unconverged
from mixnorm.estimators.persistence import Archivable
from mixnorm.estimators.quadratic import Quadratic, check_enough_trials
from mixnorm.estimators.trained import Trained
from mixnorm.execution import SolverOptions

#: Number of alphas per decade and number of decades of the path, and number of bisections of alpha between the last
#: model with too few sensors and the first with too many. 40 bisections reduce a step by 1e-12, near rounding error.
_STEPS_PER_DECADE = 7
_MAX_DECADES = 6
_MAX_BISECTIONS = 40


class SensorSelector(Archivable, TransformerMixin, BaseEstimator):
    r"""Keep exactly ``n_sensors`` sensors.

    By default they are those of ``mixnorm select`` for this number on the same (scaled) trials: the last ones of a
    backward elimination by the Mahalanobis distance d'N⁻¹d between the class means, d being their difference and N the
    covariance of the noise. Sensors that only reduce the noise of others are so kept as well. What the distance gains
    by chance is subtracted. For the last 8 sensors (with many trials up to 16) the noise is that of the sensors that
    are left, and from eight trials per feature on the size of a sensor's weights in a classifier counts as much. The
    montages of the last six sensors are then all compared. If ``noise`` is given, it decides alone.

    With ``strategy="path"`` they are those that the mixed-norm path selects first, as in the paper. The path of
    `GroupSVC` (``penalty="group"``) is followed from alpha_max down until at least ``n_sensors`` sensors are selected;
    then alpha is bisected until exactly ``n_sensors`` are. If no alpha gives this number (because sensors enter
    together, as two identical ones do), the sparsest model found with more sensors is used: the sensors with the
    largest weighted norm β_g ‖w_g‖_q are kept, and of equal norms the earlier one in ``groups_``. If the path ends
    before ``n_sensors`` are selected, the sensors that are nearest to entering are added: those with the largest dual
    norm of the gradient divided by β_g, constant and forbidden sensors excluded.

    Parameters
    ----------
    n_sensors : int
        Number of sensors to keep.
    strategy : {"elimination", "path"}
        How they are chosen, as described above.
    q : float
        Inner norm of the path, 1 ≤ q ≤ 2. For "path" alone.
    noise : str, array of shape (d, d), or None
        Covariance of the noise, as in `GroupSVC`. With "elimination" None means "kronecker" and, for the last 8
        sensors, the covariance of those that are left, shrunk towards "structured"; "shrunk" where sensors have
        unequal numbers of features. If it is given, the distance in this noise decides throughout, with its bias.
    ridge : float
        Strength of the quadratic term that is added to the norm, as in `GroupSVC`. For "path" alone; the other
        strategy refuses it.
    groups : one label per column of a 2-D X
        The sensor of every feature; None: every column is a sensor. Must be None for epochs (trials, channels, times).
    group_weights : array in the order of ``groups_``, or dict by label
        Sensors of weight 0 are always kept, and are counted in ``n_sensors``; those of weight infinity never are. With
        "path" the other weights are the β_g of the norm. With "elimination" they are costs: of sensors whose
        contributions the trials cannot distinguish, the cheaper is kept.
    class_weight : dict, "balanced" or None
        Weights of the classes, as in `GroupSVC`. For "path" alone.
    fit_intercept : bool
        Whether an intercept is fitted. For "path" alone.
    tol : float
        Relative duality gap to reach. For "path" alone.
    max_iter : int
        Largest number of iterations for one alpha. For "path" alone.
    solver : {"auto", "newton", "fista", "forward-backward"}
        Algorithm, as in `GroupSVC`. For "path" alone.

    Attributes
    ----------
    groups_ : ndarray of shape (G,)
        Labels of the sensors: sorted, or the channels in order.
    selected_groups_ : ndarray of shape (n_sensors,)
        The chosen sensors, in the order of ``groups_``.
    order_ : ndarray
        With "elimination": the labels of all usable sensors, the most important one first.
    group_norms_ : ndarray of shape (G,)
        With "path": ‖w_g‖_q of the model from which the sensors were taken.
    alpha_ : float
        With "path": the alpha of this model.
    n_iter_ : int
        Iterations of the solver for this model, or sensors that were eliminated.

    See Also
    --------
    GroupSVC : The classifier whose path is followed.
    stability_selection : How often sensors are among the first, over halves of the trials.
    mixnorm.eeg.select_montage : Montages of every size from recordings, scored by nested cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import SensorSelector
    >>> rng = np.random.default_rng(0)
    >>> y = np.tile([0, 1], 60)
    >>> X = rng.standard_normal((120, 6, 3))
    >>> X[y == 1, 2] += 1
    >>> X[y == 1, 5] -= 1
    >>> selector = SensorSelector(n_sensors=2).fit(X, y)
    >>> selector.selected_groups_
    array([2, 5])
    >>> selector.transform(X).shape
    (120, 2, 3)
    """

    def __init__(
        self,
        n_sensors=8,
        *,
        strategy="elimination",
        q=2.0,
        noise=None,
        ridge=0.0,
        groups=None,
        group_weights=None,
        class_weight=None,
        fit_intercept=True,
        tol=1e-6,
        max_iter=10_000,
        solver="auto",
    ):
        self.n_sensors = n_sensors
        self.strategy = strategy
        self.q = q
        self.noise = noise
        self.ridge = ridge
        self.groups = groups
        self.group_weights = group_weights
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver

    @all_or_nothing
    def fit(self, X, y, sample_weight=None) -> "SensorSelector":
        """Choose the sensors.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
            The training trials.
        y : array of shape (n,)
            Any two labels.
        sample_weight : array of shape (n,), or None
            Weights of the trials; None: all 1.

        Returns
        -------
        SensorSelector
            The fitted selector.
        """
        check_strategy(self.strategy, self.ridge)
        trials, classes, signs, weights = read_training(self, X, y, sample_weight)
        balanced = class_balance(weights, signs, classes, self.class_weight)
        options, by_path = SolverOptions.of(self), self.strategy == "path"
        noise = as_noise(self.noise) if by_path else None
        # Elimination compares class means, which an intercept does not change: constant sensors are excluded whatever
        # fit_intercept says.
        given = self.groups, self.group_weights, self.fit_intercept or not by_path
        objective = Objective("group", self.q, *given, noise, self.ridge)
        stack = objective.stack(trials, signs, balanced[:, None])
        if by_path:
            path = _Path(stack, objective.quadratic(stack, weights[:, None]), options)
            chosen = self._by_path(path, weights, classes, trials.dtype)
        else:
            chosen = self._by_elimination(stack, weights, classes)
        self.groups_ = stack.groups.labels.copy()
        self.selected_groups_ = self.groups_[chosen]
        self._note_input(trials, stack, chosen)
        return self

    def _by_path(self, path: "_Path", weights: np.ndarray, classes: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Return the chosen sensors, in their order, by the mixed-norm path."""
        stack = path.stack
        check_enough_trials(as_noise(self.noise), stack.y[0, 0], weights, classes)
        n_sensors = self._check_n_sensors(stack)
        self.alpha_, solution = path.follow(n_sensors)
        # One more than elsewhere, because this method stands between `fit` and the warning.
        warn_unconverged([solution], self.tol, stacklevel=5)
        self.n_iter_ = int(solution.n_iter[0, 0])
        self.group_norms_ = _norms(stack, solution, float(self.q)).astype(dtype)
        return path.resolve(self.alpha_, solution, self.group_norms_, n_sensors)

    def _by_elimination(self, stack: Stack, weights: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Return the chosen sensors, in their order, by backward elimination."""
        n_sensors = self._check_n_sensors(stack)
        signs, used = stack.y[0, 0], weights > 0
        check_enough_trials(elimination_noise(self.noise, stack.groups), signs, weights, classes)
        beta = np.where(_usable(stack), stack.group_weights[0, :, 0], np.inf)
        own = Trained(stack.X[0, 0][used], signs[used], weights[used])
        order = elimination_order([own], stack.groups, beta, self.noise)
        self.order_, self.n_iter_ = stack.groups.labels[order], len(order)
        return np.sort(order[:n_sensors])

    def transform(self, X):
        """Return the trials with the chosen sensors only, in the same form as X.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
            Trials with the sensors of the training trials; those that are not chosen may be missing where they are
            matched by name.

        Returns
        -------
        array of shape (n, features of the chosen sensors) or (n, n_sensors, times), or mne.Epochs
            The same trials with fewer columns or channels.
        """
        check_is_fitted(self)
        trials = read_predict(self, X, self.selected_groups_)
        if hasattr(X, "pick"):  # mne.Epochs
            return X.copy().load_data().pick(list(self.selected_groups_))
        if trials.shape is None:
            return trials.matrix[:, self._support].astype(trials.dtype, copy=False)
        return trials.matrix.reshape(-1, *trials.shape)[:, self._support].astype(trials.dtype, copy=False)

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Return which columns of a matrix, or which channels of epochs, are kept: a mask, or their indices.

        Parameters
        ----------
        indices : bool
            Whether indices are returned instead of a mask.

        Returns
        -------
        ndarray
            A mask of all columns or channels, or the indices of those that are kept.
        """
        check_is_fitted(self)
        return np.flatnonzero(self._support) if indices else self._support.copy()

    def get_feature_names_out(self, input_features=None) -> np.ndarray:
        """Return the names of the columns, or of the channels, that are kept.

        Parameters
        ----------
        input_features : array of str, or None
            Names of all columns or channels; None: those of the training trials.

        Returns
        -------
        ndarray of str
            The names that are kept, in the order of the columns or channels.
        """
        check_is_fitted(self)
        if self._epochs_shape is None:
            return _check_feature_names_in(self, input_features)[self._support]
        names = self.groups_ if input_features is None else np.asarray(input_features, dtype=object)
        if len(names) != len(self.groups_):
            raise ValueError(f"input_features has {len(names)} names, but there are {len(self.groups_)} channels.")
        return np.asarray([str(name) for name in names], dtype=object)[self._support]

    def _check_n_sensors(self, stack: Stack) -> int:
        if not (isinstance(self.n_sensors, int | np.integer) and self.n_sensors >= 1):
            raise ValueError(f"n_sensors must be a whole number from 1, but got {self.n_sensors!r}.")
        usable = _usable(stack)
        if self.n_sensors > usable.sum():
            out = stack.groups.labels[~usable].tolist()
            note = f" (not counting {out}, which are constant or have infinite weight)" if out else ""
            raise ValueError(
                f"n_sensors={self.n_sensors} is larger than the number of usable sensors, {usable.sum()}{note}."
            )
        # sensors of weight 0 are part of n_sensors
        kept = int((stack.group_weights == 0).sum())
        if self.n_sensors < kept:
            raise ValueError(
                f"n_sensors={self.n_sensors} is too small: {kept} sensors have weight 0 and are always kept; use at "
                f"least n_sensors={kept}."
            )
        return int(self.n_sensors)

    def _note_input(self, trials: Trials, stack: Stack, chosen: np.ndarray) -> None:
        self._epochs_shape, self._ch_names, self._recording = trials.shape, trials.ch_names, trials.recording
        # For epochs the support is of channels, as `transform` keeps their shape; for a matrix it is of columns.
        mask = np.zeros(stack.groups.n_groups, dtype=bool)
        mask[chosen] = True
        self._support = mask[stack.groups.index] if trials.shape is None else mask

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.classifier_tags = ClassifierTags(multi_class=False)  # y is validated as in a classifier
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(frozen=True, eq=False)
class _Path:
    """The path from which the sensors are taken."""

    stack: Stack
    quadratic: Quadratic | None
    options: SolverOptions

    def solve(self, alphas: np.ndarray) -> list[Solution]:
        """Return the solutions at some alphas, (A,)."""
        return solve_with(self.quadratic, self.stack, alphas[:, None, None], self.options)

    def follow(self, n_sensors: int) -> tuple[float, Solution]:
        """Follow the path to the first model with at least n_sensors, then bisect alpha to find exactly n_sensors."""
        top = largest_alpha(self.stack, self.quadratic)
        step = 10 ** (-1 / _STEPS_PER_DECADE)
        above = top
        # Decade by decade, so that the dense end of the path, which is the slow one, is computed only where it is
        # needed.
        for decade in range(_MAX_DECADES):
            alphas = top * 10.0**-decade * step ** np.arange(1, _STEPS_PER_DECADE + 1)
            for alpha, solution in zip(alphas, self.solve(alphas), strict=True):
                count = _count(self.stack, solution)
                if count == n_sensors:
                    return float(alpha), solution
                if count > n_sensors:
                    return self._bisect(n_sensors, above, float(alpha), solution)
                above = alpha
        return float(alpha), solution

    def _bisect(self, n_sensors: int, few: float, many: float, dense: Solution) -> tuple[float, Solution]:
        """Halve the interval (few, many) of alphas; return the model with n_sensors, or the sparsest with more."""
        for _ in range(_MAX_BISECTIONS):
            # the geometric mean, because sensors enter on a logarithmic scale of alpha
            middle = float(np.sqrt(few * many))
            # no number between them: two sensors enter at the same alpha
            if not few > middle > many:
                break
            solution = self.solve(np.array([middle]))[0]
            count = _count(self.stack, solution)
            if count == n_sensors:
                return middle, solution
            if count > n_sensors:
                many, dense = middle, solution
            else:
                few = middle
        return float(many), dense

    def resolve(self, alpha: float, solution: Solution, norms: np.ndarray, n_sensors: int) -> np.ndarray:
        """Return the indices of exactly n_sensors sensors, in order, by the rules of `SensorSelector`."""
        beta = self.stack.group_weights[0, :, 0]
        # If several sensors enter at one alpha, those with the largest weighted norm are taken, then those nearest to
        # entering.
        weighted = np.where(beta == 0, np.inf, np.where(np.isfinite(beta), beta, 0.0) * norms)
        dual = self._dual_norms(alpha, solution)
        nearness = np.where(_usable(self.stack) & (beta > 0), dual / np.where(beta > 0, beta, 1.0), -np.inf)
        order = np.lexsort((np.arange(len(norms)), -nearness, -weighted))
        return np.sort(order[:n_sensors])

    def _dual_norms(self, alpha: float, solution: Solution) -> np.ndarray:
        """Dual norm of the gradient of every sensor, (G,); 0 for sensors that are not part of the problem."""
        stack, features = self.stack, np.arange(self.stack.groups.n_features)
        if self.quadratic is not None:
            prepared = self.quadratic.prepared(stack)
            stack, features = prepared.stack, prepared.features
        # Nearness is measured by the gradient of the loss and of the quadratic part, which the certificate computes.
        cell = stack.with_alpha(np.full((1, 1), alpha))
        descent = np.zeros_like(solution.W)
        descent[:, :, features] = certify(cell, solution.W[:, :, features], solution.b).descent
        return self.stack.penalty.dual_norm(self.stack.groups.to_blocks(descent))[0, :, 0]


def _usable(stack: Stack) -> np.ndarray:
    """Mask of the sensors that are not forbidden and not constant over the trials of positive weight, (G,)."""
    used = stack.sample_weight[0, 0, :, 0] > 0
    return varying(stack.X[0, 0][used], stack.groups) & np.isfinite(stack.group_weights[0, :, 0])


def _count(stack: Stack, solution: Solution) -> int:
    """Return the number of sensors that are selected or always kept."""
    chosen = (_norms(stack, solution, 2.0) > 0) | (stack.group_weights[0, :, 0] == 0)
    return int(chosen.sum())


def _norms(stack: Stack, solution: Solution, q: float) -> np.ndarray:
    return vector_norm(stack.groups.to_blocks(solution.W), q)[0, :, 0]
