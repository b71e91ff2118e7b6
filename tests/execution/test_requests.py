"""Which stacks of the fits of `together` are solved at once and in which order, and fits that submit several."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from mixnorm.core.penalties import GroupNorm
from mixnorm.execution import batching, requests
from mixnorm.execution.batching import together
from mixnorm.execution.device import sending
from mixnorm.execution.requests import Request, even_rows, in_parts
from mixnorm.execution.solve import Job, SolverOptions, solve_all
from stacks import make_stack, solve_path

OPTIONS = SolverOptions(tol=1e-8)


def made(name="q=2", alpha=0.1, X=None):
    stack = make_stack(name, B=1, beta=False)
    stack = stack if X is None else replace(stack, X=X)
    return Request(stack, stack.X, np.full((1, 1, 3), alpha), None, OPTIONS)


def test_a_large_kind_is_solved_in_parts_and_no_data_set_is_divided(monkeypatch):
    monkeypatch.setattr(requests, "_MOST", 13)
    trials = [made().stack.X.copy() for _ in range(5)]
    # two stacks of three problems of every data set, one after the other
    kind = [made(alpha=alpha, X=X) for alpha in (0.1, 0.2) for X in trials]
    parts = in_parts(kind)
    assert [len(part) for part in parts] == [4, 4, 2]
    assert {id(one) for part in parts for one in part} == {id(one) for one in kind}
    for part in parts:
        assert sorted(id(one.stack.X) for one in part[::2]) == sorted(id(one.stack.X) for one in part[1::2])
    monkeypatch.setattr(requests, "_MOST", 1)  # less than one data set has
    assert [len(part) for part in in_parts(kind)] == [2] * 5
    monkeypatch.setattr(requests, "_MOST", 1000)
    more = made(alpha=0.3, X=trials[0])  # a third stack of one data set: all of that data set in a part of their own
    parts = in_parts([*kind, more])
    assert [len(part) for part in parts] == [8, 3]
    assert [len(rows) for rows in map(even_rows, parts)] == [4, 1]
    assert len(even_rows([*kind, more])) == 11


def test_the_kind_that_most_fits_wait_for_is_solved_first(monkeypatch):
    monkeypatch.setattr(batching, "_FULL", 3)
    batcher = batching._Batcher(5)
    batcher._beginning = 0
    few, trials = made("l2"), made().stack.X
    many = [made("q=2", X=trials) for _ in range(3)]  # the same problems three times
    batcher._add(few)
    assert batcher._complete() == few.kind
    for request in many:
        batcher._add(request)
    assert batcher._complete() == many[0].kind
    batcher._n_waiting = batcher._fitting = 4
    assert batcher._wait()  # all wait: both kinds are ready, in this order
    assert [ready[0] for ready in batcher._ready] == [many[0], few]
    assert not batcher._n_requests
    assert not batcher._n_problems
    # one that joins a request which is being solved does not count for its kind
    batcher._add(made("q=2", X=trials))
    assert not batcher._n_requests


@pytest.fixture
def solves(monkeypatch):
    """The stacks that were solved, each a merged one."""
    stacks, plain = [], batching.solve_directly
    monkeypatch.setattr(batching, "solve_directly", lambda stack, *rest: stacks.append(stack) or plain(stack, *rest))
    return stacks


def jobs():
    """Stacks of three kinds, two of them with equal trials."""
    stacks = [make_stack(name, B=1, beta=False) for name in ("q=2", "l2", "l1")]
    stacks[1] = replace(stacks[1], X=stacks[0].X)
    return [Job(stack, 0.1 * np.ones((1, 1, 3))) for stack in stacks]


def test_a_fit_that_submits_several_stacks_waits_for_all_of_them(solves):
    expected = [solve_path(job.stack, job.alphas, tol=1e-8) for job in jobs()]
    with sending(np.asarray):
        alone = solve_all(jobs(), OPTIONS)
        solves.clear()
        found = together([partial(solve_all, jobs(), OPTIONS), partial(solve_all, jobs()[::-1], OPTIONS)])
        assert len(solves) == 3  # each kind once for both
        solves.clear()
        again = together([lambda: (solve_all(jobs()[:1], OPTIONS), solve_all(jobs(), OPTIONS))[1]])[0]
        assert len(solves) == 3  # the answer to the first stack was kept
    for one in (alone, found[0], found[1][::-1], again):
        for (mine,), (theirs,) in zip(one, expected, strict=True):
            np.testing.assert_allclose(mine.objective, theirs.objective, rtol=1e-7)


def test_an_error_of_one_stack_is_raised_once_all_are_done(solves, monkeypatch):
    plain = batching.solve_directly

    def solve(stack, *rest):
        found = plain(stack, *rest)
        if not stack.penalty.is_norm:
            raise RuntimeError("no memory")
        return found

    monkeypatch.setattr(batching, "solve_directly", solve)
    with sending(np.asarray), pytest.raises(RuntimeError, match="no memory"):
        together([partial(solve_all, jobs(), OPTIONS), partial(solve_all, jobs()[:1], OPTIONS)])
    assert len(solves) == 3


def test_several_orders_on_a_device_of_numpy_arrays():
    stack = make_stack("q=1.4", B=1, beta=False)
    orders = [Job(replace(stack, penalty=GroupNorm(q)), 0.1 * np.ones((1, 1, 3))) for q in (1.3, 1.7)]
    with sending(np.asarray):
        (found,) = together([partial(solve_all, orders, OPTIONS)])
    for (mine,), job in zip(found, orders, strict=True):
        (expected,) = solve_path(job.stack, job.alphas, tol=1e-8)
        np.testing.assert_allclose(mine.objective, expected.objective, rtol=1e-7)


def test_closing_wakes_a_fit_whose_request_was_being_ended():
    """Ctrl-C between the two: the number of requests that are left has gone down, but the fit still waits."""
    batcher, request = batching._Batcher(1), made()
    batcher._add(request)
    batcher._n_waiting = 1
    request.waiter.left = 0
    batcher.close(KeyboardInterrupt())
    assert request.waiter.done.is_set()
