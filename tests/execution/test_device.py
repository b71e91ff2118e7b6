"""Arrays of other libraries in, predictions in the same library out; fits solved together or on a device."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import array_api_strict
import numpy as np
import pytest
import sklearn
from sklearn.base import clone

from mixnorm import GroupSVC, GroupSVCCV, MultiTaskGroupSVC, MultiTaskGroupSVCCV, load, save, use_device
from mixnorm.execution import batching as together_module
from mixnorm.execution import device as device_module
from mixnorm.execution.batching import together
from mixnorm.execution.device import sending
from mixnorm.execution.requests import Request
from mixnorm.execution.solve import SolverOptions, on_device
from mixnorm.solvers.newton.batched import solver as stacked_newton
from stacks import make_stack, solve_path

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
RNG = np.random.default_rng(0)
Y = np.tile([0, 1, 1], 40)
X = RNG.standard_normal((120, 5, 3)) + Y[:, None, None] * np.array([0.0, 0.8, 0.0, 0.4, 0.0])[:, None]
WHO = np.repeat([3, 1, 2], 40)
ESTIMATORS = {
    "GroupSVC": (GroupSVC(0.05), {}),
    "GroupSVCCV": (GroupSVCCV(5), {}),
    "adaptive": (GroupSVCCV(5, adaptive=True), {}),
    "MultiTaskGroupSVC": (MultiTaskGroupSVC(0.05, similarity=0.1), {"subjects": WHO}),
    "noise beside a norm": (MultiTaskGroupSVC(0.05, similarity=0.1, noise="kronecker"), {"subjects": WHO}),
    "noise, l2": (MultiTaskGroupSVC(0.05, similarity=0.1, penalty="l2", noise="structured"), {"subjects": WHO}),
    "evoked, l2": (MultiTaskGroupSVC(0.05, similarity=0.1, penalty="l2", noise="evoked"), {"subjects": WHO}),
    "MultiTaskGroupSVCCV": (MultiTaskGroupSVCCV(4, similarities=3), {"subjects": WHO}),
}
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture
def dispatch(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # scikit-learn asks for it
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture
def solved_by(monkeypatch):
    """Which array libraries the stacked solver was given."""
    libraries = []
    plain = stacked_newton._solve_chunk
    monkeypatch.setattr(
        stacked_newton, "_solve_chunk", lambda cells, *rest: libraries.append(type(cells[0].X)) or plain(cells, *rest)
    )
    return libraries


@pytest.mark.parametrize(
    "asarray",
    [
        pytest.param(array_api_strict.asarray, id="array-api-strict"),
        pytest.param(lambda values: torch.asarray(values), id="torch", marks=needs_torch),
    ],
)
@pytest.mark.usefixtures("dispatch")
@every_estimator
def test_the_library_of_the_trials_is_that_of_the_answers(name, asarray, solved_by):
    estimator, more = ESTIMATORS[name]
    on_host = sklearn.clone(estimator).fit(X, Y, **more)
    trials = asarray(X)
    model = sklearn.clone(estimator).fit(trials, asarray(Y), **more)
    assert set(solved_by) == {type(trials)}
    for attribute in ("coef_", "intercept_", "classes_"):
        assert isinstance(getattr(model, attribute), type(trials))
    # both are within 1e-6 of the optimum
    np.testing.assert_allclose(model.objective_, on_host.objective_, rtol=2e-6)
    assert model.dual_gap_ <= 1e-6
    np.testing.assert_array_equal(model.selected_groups_, on_host.selected_groups_)
    scores, labels = model.decision_function(trials, **more), model.predict(trials, **more)
    assert isinstance(scores, type(trials))
    assert isinstance(labels, type(trials))
    np.testing.assert_allclose(np.asarray(scores), on_host.decision_function(X, **more), atol=5e-3)
    np.testing.assert_array_equal(np.asarray(labels), on_host.predict(X, **more))


@needs_torch
@pytest.mark.usefixtures("dispatch")
def test_labels_that_are_strings_stay_what_they_are():
    words = np.where(Y > 0, "target", "other")
    model = GroupSVC(0.05).fit(torch.asarray(X), words)
    assert isinstance(model.coef_, torch.Tensor)
    assert model.predict(torch.asarray(X)).tolist() == GroupSVC(0.05).fit(X, words).predict(X).tolist()


@needs_torch
@pytest.mark.usefixtures("dispatch")
def test_single_precision_comes_back_as_single_precision():
    model = GroupSVC(0.05).fit(torch.asarray(X, dtype=torch.float32), torch.asarray(Y))
    assert model.coef_.dtype == model.decision_function(torch.asarray(X, dtype=torch.float32)).dtype == torch.float32


@needs_torch
@pytest.mark.usefixtures("dispatch")
def test_trials_of_another_library_than_the_fits_are_refused():
    model = GroupSVC(0.05).fit(torch.asarray(X), torch.asarray(Y))
    with pytest.raises(ValueError, match="fitted on arrays of torch on device cpu, but X is one of numpy"):
        model.predict(X)


@needs_torch
@pytest.mark.usefixtures("dispatch")
def test_errors_name_trial_and_channel_there_too():
    bad = torch.asarray(X.copy())
    bad[7, 2, 1] = torch.nan
    model = GroupSVC(0.05).fit(torch.asarray(X), torch.asarray(Y))
    for call in (partial(GroupSVC().fit, bad, torch.asarray(Y)), partial(model.predict, bad)):
        with pytest.raises(ValueError, match="NaN: trial 7, channel 2, sample 1"):
            call()


@needs_torch
@pytest.mark.usefixtures("dispatch")
def test_new_subjects_and_files(tmp_path):
    estimator, more = ESTIMATORS["MultiTaskGroupSVC"]
    model = sklearn.clone(estimator).fit(torch.asarray(X), torch.asarray(Y), **more)
    model.adapt(torch.asarray(X[:30]), torch.asarray(Y[:30]), subject="new")
    assert isinstance(model.coef_, torch.Tensor)
    host = sklearn.clone(estimator).fit(X, Y, **more).adapt(X[:30], Y[:30], subject="new")
    np.testing.assert_allclose(model.coef_.numpy(), host.coef_, atol=5e-3)
    save(model, tmp_path / "model.mixnorm")
    labels = model.predict(torch.asarray(X)).tolist()
    with sklearn.config_context(array_api_dispatch=False):
        loaded = load(tmp_path / "model.mixnorm")
        np.testing.assert_array_equal(loaded.coef_, model.coef_.numpy())
        assert loaded.predict(X).tolist() == labels


@needs_torch
def test_without_dispatch_an_array_is_an_array():
    assert isinstance(GroupSVC(0.05).fit(torch.asarray(X), Y).coef_, np.ndarray)


# --- devices ---


@pytest.fixture
def torch_as_device(monkeypatch):
    """PyTorch's own "cpu" in the place of a GPU."""
    if torch is None:
        pytest.skip("PyTorch is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    plain = torch.as_tensor
    monkeypatch.setattr(torch, "as_tensor", lambda values, device: plain(values))


@pytest.mark.usefixtures("torch_as_device")
@every_estimator
def test_numpy_arrays_are_solved_on_the_device_in_use(name, solved_by):
    estimator, more = ESTIMATORS[name]
    on_host = sklearn.clone(estimator).fit(X, Y, **more)
    assert not solved_by
    with use_device("cuda"):
        model = sklearn.clone(estimator).fit(X, Y, **more)
    assert set(solved_by) == {torch.Tensor}
    assert isinstance(model.coef_, np.ndarray)
    np.testing.assert_allclose(model.objective_, on_host.objective_, rtol=2e-6)
    np.testing.assert_array_equal(model.selected_groups_, on_host.selected_groups_)
    there = len(solved_by)
    with use_device("cuda"), use_device(None):
        sklearn.clone(estimator).fit(X, Y, **more)
    assert len(solved_by) == there


@needs_torch
@pytest.mark.skipif(torch is not None and torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said():
    with pytest.raises(ValueError, match="device='cuda': PyTorch finds no GPU here"), use_device("cuda"):
        pass


def test_without_torch_and_cupy_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(device_module, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'PyTorch or CuPy: pip install "mixnorm\[torch\]"'), use_device("cuda"):
        pass


# --- together ---


def tasks():
    """Fits of unequal numbers of trials, weights and stages."""
    kept = [slice(0, 120), slice(3, 120), slice(0, 100)]
    return [partial(GroupSVCCV([0.1, 0.03], adaptive=True).fit, X[rows], Y[rows]) for rows in kept]


@pytest.fixture
def solved_together(monkeypatch):
    """How many data sets, and of which penalty, were solved at a time."""
    solves = []
    plain = together_module.solve_directly
    monkeypatch.setattr(
        together_module,
        "solve_directly",
        lambda stack, *rest: solves.append((getattr(stack.penalty, "q", None), stack.shape[0])) or plain(stack, *rest),
    )
    return solves


def assert_same_fits(some, others):
    for one, other in zip(some, others, strict=True):
        np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-10)
        np.testing.assert_array_equal(other.scores_, one.scores_)
        np.testing.assert_array_equal(other.alphas_, one.alphas_)


def test_fits_together_are_the_fits_alone_in_fewer_solves(solved_together):
    alone = [task() for task in tasks()]
    solved_together.clear()
    joint = together(tasks())
    assert solved_together == [(2.0, 3), (2.0, 3)]  # both stages of the adaptive norm, all three at once
    assert_same_fits(alone, joint)


def test_what_several_fits_ask_for_is_solved_once(solved_together):
    """Equal trials need not be the same array; other weights of them, or other labels, are other problems."""
    weights = np.linspace(1, 2, 120)
    touched = X.copy()
    touched[7, 0, 1] += 0.1
    fits = [
        partial(GroupSVCCV([0.1, 0.03], adaptive=True).fit, X, Y),
        partial(GroupSVCCV([0.1, 0.03]).fit, X.copy(), Y),
        partial(GroupSVCCV([0.1, 0.03]).fit, X, Y, sample_weight=weights),
        partial(GroupSVCCV([0.1, 0.03]).fit, X, Y[::-1]),
        partial(GroupSVCCV([0.2, 0.03]).fit, X, Y),
        partial(GroupSVCCV([0.1, 0.03]).fit, touched, Y),
    ]
    alone = [fit() for fit in fits]
    solved_together.clear()
    joint = together(fits)
    # the two data sets with one stack each, that with three side by side, and the second stage of the adaptive norm
    assert solved_together == [(2.0, 2), (2.0, 1), (2.0, 1)]
    assert_same_fits(alone, joint)


@pytest.mark.usefixtures("torch_as_device")
def test_all_q_of_a_fit_are_asked_for_at_once(solved_together):
    fits = [
        partial(GroupSVCCV([0.1, 0.03], q=(1.5, 2.0)).fit, X, Y),
        partial(GroupSVCCV([0.1, 0.03], q=(1.5, 2.0)).fit, X[:100], Y[:100]),
        partial(GroupSVCCV([0.1, 0.03], adaptive=True).fit, X, Y),
    ]
    with use_device("cuda"):
        alone = [fit() for fit in fits]
        solved_together.clear()
        joint = together(fits)
    assert sorted(solved_together[:2]) == [(1.5, 2), (2.0, 2)]
    assert solved_together[2:] == [(2.0, 1)]  # the second stage of the adaptive norm
    assert_same_fits(alone, joint)


@pytest.mark.usefixtures("torch_as_device")
def test_orders_between_1_and_2_are_solved_at_once_on_a_device(monkeypatch):
    """As columns of the same trials; data sets with unlike numbers of orders one after the other."""
    merged, plain = [], together_module.solve_directly

    def note(stack, *rest):
        merged.append((np.ndim(stack.penalty.q), stack.X.shape[0], stack.alpha.shape))
        return plain(stack, *rest)

    monkeypatch.setattr(together_module, "solve_directly", note)
    cv = partial(GroupSVCCV, [0.1, 0.03], tol=1e-10)
    fits = [partial(cv(q=(1.3, 1.5, 1.8)).fit, X, Y), partial(cv(q=(1.3, 1.5, 1.8)).fit, X[:100], Y[:100])]
    unlike = [partial(cv(q=(1.3, 1.5)).fit, X, Y), partial(cv(q=(1.7,)).fit, X[:100], Y[:100])]
    on_host = [fit() for fit in [*fits, *unlike]]
    with use_device("cuda"):
        found = together(fits) + together(unlike)
    # three folds and a refit for each order
    assert merged == [(2, 2, (2, 12)), (0, 1, (1, 4)), (2, 1, (1, 8))]
    for mine, theirs in zip(found, on_host, strict=True):
        np.testing.assert_allclose(mine.coef_, theirs.coef_, atol=1e-4)
        assert mine.objective_ == pytest.approx(theirs.objective_, rel=1e-9)
        assert mine.q_ == theirs.q_
        np.testing.assert_allclose(mine.scores_, theirs.scores_, atol=1e-12)


def test_orders_are_kinds_of_their_own_on_the_host(solved_together):
    together([partial(GroupSVC(0.05, q=q).fit, X, Y) for q in (1.3, 1.5)])
    assert sorted(solved_together) == [(1.3, 1), (1.5, 1)]


@pytest.mark.usefixtures("torch_as_device")
def test_an_error_in_a_part_of_a_fit_is_that_of_the_fit():
    with use_device("cuda"), pytest.raises(ValueError, match="finite values > 0"):
        together([partial(GroupSVCCV([0.1, -1.0], q=(1.5, 2.0)).fit, X, Y), partial(GroupSVC(0.05).fit, X, Y)])


def test_fits_of_other_kinds_are_solved_beside_each_other():
    fits = [partial(GroupSVC(0.05, penalty=penalty).fit, X, Y) for penalty in ("group", "l1", "l2")]
    for one, other in zip([fit() for fit in fits], together(fits), strict=True):
        np.testing.assert_array_equal(one.coef_, other.coef_)


def test_scikit_learns_settings_are_those_of_the_caller():
    with sklearn.config_context(assume_finite=True, enable_metadata_routing=True):
        (found,) = together([lambda: together([sklearn.get_config, sklearn.get_config])])
    assert all(config["assume_finite"] and config["enable_metadata_routing"] for config in found)


def test_a_part_of_nothing_holds_nobody_up():
    fit = partial(GroupSVC(0.05).fit, X, Y)
    nothing, model = together([lambda: (together([]), fit())])[0]
    assert nothing == []
    np.testing.assert_array_equal(model.coef_, fit().coef_)


def test_an_array_that_is_filled_again_is_another_one():
    buffer = X.copy()

    def twice():
        first = GroupSVC(0.05).fit(buffer, Y)
        buffer[:] = X[::-1]
        return first, GroupSVC(0.05).fit(buffer, Y)

    (first, second), _ = together([twice, partial(GroupSVC(0.05).fit, X, Y)])
    np.testing.assert_allclose(first.coef_, GroupSVC(0.05).fit(X, Y).coef_, atol=1e-10)
    np.testing.assert_allclose(second.coef_, GroupSVC(0.05).fit(X[::-1], Y).coef_, atol=1e-10)


def test_an_array_of_which_a_part_is_changed_is_another_one():
    """A few values between those by which arrays are told apart quickly."""
    buffer = np.random.default_rng(0).standard_normal((90, 5, 8))
    y = np.where(buffer[:, 0, :5].sum(axis=1) > 0, 1, -1)
    changed = buffer.copy()
    changed[:, 0, 1:4] = 0.0

    def twice():
        first = GroupSVC(0.02).fit(buffer, y)
        buffer[:] = changed
        return first, GroupSVC(0.02).fit(buffer, y)

    first, second = together([twice])[0]
    assert first.coef_.reshape(5, 8)[0, 1:4].all()
    assert not second.coef_.reshape(5, 8)[0, 1:4].any()
    np.testing.assert_allclose(second.coef_, GroupSVC(0.02).fit(changed, y).coef_, atol=1e-6)


def test_a_kind_is_complete_if_it_fills_a_device_and_others_followed(monkeypatch):
    monkeypatch.setattr(together_module, "_FULL", 6)
    monkeypatch.setattr(together_module, "_OTHERS", 2)
    batcher = together_module._Batcher(99)
    made = []
    for name in ("q=2", "q=2", "l2", "l2", "l2"):  # three problems each
        stack = make_stack(name, B=1)
        # alphas of their own, so that each is another problem
        made.append(Request(stack, stack.X, np.full((1, 1, 3), 1.0 + len(made)), None, SolverOptions()))
        batcher._add(made[-1])
        # of the first kind there are enough from the second stack on, and two others followed after the fourth
        assert batcher._complete() == (made[0].kind if len(made) > 3 else None)
    assert batcher._wait()
    (ready,) = batcher._ready  # in the order of their trials in memory
    assert sorted(map(id, ready)) == sorted(map(id, made[:2]))
    assert batcher._waiting == made[2:]


def test_a_full_kind_is_complete_once_all_fits_have_begun(monkeypatch):
    monkeypatch.setattr(together_module, "_FULL", 6)
    monkeypatch.setattr(together_module, "_OTHERS", 99)
    batcher = together_module._Batcher(2)
    for alpha in (1.0, 2.0):
        stack = make_stack("q=2", B=1)
        batcher._add(Request(stack, stack.X, np.full((1, 1, 3), alpha), None, SolverOptions()))
    assert batcher._complete() is None
    batcher._beginning = 0
    assert batcher._complete() == batcher._waiting[0].kind


def test_equal_stacks_wait_as_one_and_get_the_same_solutions():
    batcher = together_module._Batcher(2)
    stacks = [make_stack("q=2", B=1)] * 2
    first, second = (Request(stack, stack.X, np.ones((1, 1, 3)), None, SolverOptions()) for stack in stacks)
    batcher._add(first)
    batcher._add(second)
    batcher._n_waiting = 2
    assert batcher._waiting == [first]
    first.solutions = ["solved"]
    batcher._end(first)
    assert second.waiter.done.is_set()
    assert second.solutions == ["solved"]
    assert batcher._n_waiting == 0


def test_stacks_of_different_kinds_are_solved_early_and_answers_are_kept(monkeypatch):
    monkeypatch.setattr(together_module, "_FULL", 1)
    monkeypatch.setattr(together_module, "_OTHERS", 1)
    solved, solve = [], together_module.solve_directly
    monkeypatch.setattr(
        together_module, "solve_directly", lambda *args: solved.append(args[0].alpha.size) or solve(*args)
    )
    alphas = (0.05, 0.02)
    fits = [GroupSVC(alpha, penalty=penalty) for alpha in alphas for penalty in ("group", "l2")]

    def in_turn(fit):
        first = clone(fit).fit(X, Y)
        again = clone(fit).fit(X, Y)
        np.testing.assert_array_equal(first.coef_, again.coef_)
        return first

    found = together([partial(in_turn, fit) for fit in fits * 3])
    for model, fit in zip(found, fits * 3, strict=True):
        np.testing.assert_allclose(model.coef_, clone(fit).fit(X, Y).coef_, atol=1e-6)
    assert sum(solved) == len(fits)  # every stack once, though it was submitted six times


def test_a_fit_does_not_depend_on_what_becomes_of_equal_trials_of_another():
    """The stack has the array of another fit, which fills it with other trials before this one is solved."""
    stack = replace(make_stack("q=2", B=1), alpha=np.full((1, 3), 0.05))
    theirs = stack.X.copy()
    alphas = stack.alpha[None]
    request = Request(replace(stack, X=theirs), stack.X, alphas, None, SolverOptions())
    batcher = together_module._Batcher(1)
    assert batcher._answers.get(request) is None  # as `submit` does; from here on its trials are known
    theirs *= -1.0
    batcher._solve([request])
    (expected,) = solve_path(stack, alphas)
    np.testing.assert_allclose(request.solutions[0].W, expected.W, atol=1e-6)


def test_a_pool_uses_the_device_again_after_an_inner_context():
    with sending(np.asarray):
        with use_device("cpu"):
            pass
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(on_device).result()
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(on_device).result()


def test_an_error_of_one_fit_is_raised_when_the_others_are_done():
    done = []

    def good():
        done.append(GroupSVC(0.05).fit(X, Y))

    with pytest.raises(ValueError, match="one class only"):
        together([good, partial(GroupSVC(0.05).fit, X, np.ones(120)), good])
    assert len(done) == 2


def test_an_interrupt_ends_all_fits(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt("by the user")

    monkeypatch.setattr(together_module, "solve_directly", interrupted)
    ended = []

    def fit():
        try:
            GroupSVCCV(5).fit(X, Y)
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt, match="by the user"):
        together([fit] * 3)
    for _ in range(200):
        if len(ended) == 3:
            break
        time.sleep(0.01)
    assert len(ended) == 3


@pytest.mark.usefixtures("dispatch")
def test_a_refused_new_subject_leaves_the_model_where_it_was():
    asarray = array_api_strict.asarray
    model = MultiTaskGroupSVC(0.05, similarity=0.1).fit(asarray(X), asarray(Y), subjects=WHO)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="Subject 'new': y holds the unknown label 6"):
        model.adapt(asarray(X[:20]), asarray(Y[:20] + 6), subject="new")
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    assert isinstance(model.adapt(asarray(X[:20]), asarray(Y[:20])).coef_, type(asarray(X)))


def test_threads_started_inside_use_device_solve_there(monkeypatch, solved_by):
    monkeypatch.setattr(device_module, "_sender", lambda device: array_api_strict.asarray)
    with use_device("cuda"), ThreadPoolExecutor(2) as pool:
        inside = list(pool.map(lambda alpha: GroupSVC(alpha).fit(X, Y).coef_, [0.05, 0.1]))
    assert solved_by == [type(array_api_strict.asarray(1.0))] * 2
    with ThreadPoolExecutor(1) as pool:
        after = pool.submit(lambda: GroupSVC(0.05).fit(X, Y).coef_).result()
    assert len(solved_by) == 2  # the context is over
    np.testing.assert_allclose(inside[0], after, atol=1e-6)
