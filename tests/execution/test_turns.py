"""The order in which the fits of `together` run on the host, and what is recorded on a GPU."""

import sys
import threading
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from mixnorm import GroupSVC
from mixnorm.execution import batching
from mixnorm.execution import turns as turns_module
from mixnorm.execution.batching import COLLECTOR, together
from mixnorm.execution.requests import Request
from mixnorm.execution.solve import Job, SolverOptions, solve_directly
from mixnorm.solvers.newton.batched import recorded
from stacks import make_stack


def run_in_turn(turns, beginning, trials, running, order):
    """A thread that waits for its turn, notes how many run beside it, and ends it."""

    def run():
        turns.is_beginning = beginning
        turns.set_bytes(trials)
        turns.begin()
        running.append(1)
        order.append((beginning, trials, len(running)))
        ready.set()
        release.wait(5)
        running.pop()
        turns.end()

    ready, release = threading.Event(), threading.Event()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, ready, release


def queued(turns):
    return sum(len(queue) for queue in turns._queues)


def wait_until(condition):
    for _ in range(500):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come to that in 5 s")


def test_fits_that_begin_come_before_those_that_continue():
    turns, order = turns_module.Turns(), []
    first = run_in_turn(turns, True, 0, [], order)
    first[1].wait(5)
    later = []
    for beginning in (False, True, False, True):
        later.append(run_in_turn(turns, beginning, 0, [], order))
        wait_until(lambda: queued(turns) == len(later))
    first[2].set()
    for _, _, release in later:
        release.set()
    for thread, *_ in (first, *later):
        thread.join(5)
    assert [beginning for beginning, *_ in order] == [True, True, True, False, False]


@pytest.mark.parametrize(("trials", "at_once"), [(0, 1), (turns_module.LARGE_BYTES, turns_module.LARGE_FITS)])
def test_large_fits_run_several_at_a_time_and_small_ones_do_not(trials, at_once):
    turns, order, running = turns_module.Turns(), [], []
    fits = [run_in_turn(turns, False, trials, running, order) for _ in range(6)]
    wait_until(lambda: queued(turns) == 6 - at_once)
    wait_until(lambda: len(running) == at_once)
    for _, _, release in fits:
        release.set()
    for thread, *_ in fits:
        thread.join(5)
    assert len(order) == 6
    assert max(n for *_, n in order) == at_once


def test_the_switch_interval_is_restored_also_after_an_error():
    before, seen = sys.getswitchinterval(), []

    def fail():
        seen.append(sys.getswitchinterval())
        raise ValueError("a fit failed")

    with pytest.raises(ValueError, match="a fit failed"):
        together([fail, fail])
    assert seen[0] == pytest.approx(turns_module.SWITCH_INTERVAL)
    assert sys.getswitchinterval() == before


def test_the_switch_interval_is_restored_after_calls_that_overlap():
    before, inside, leave = sys.getswitchinterval(), threading.Event(), threading.Event()

    def other():
        together([lambda: inside.set() or leave.wait(5)])

    thread = threading.Thread(target=other)
    together([lambda: thread.start() or inside.wait(5)])  # ends first, and began first
    assert sys.getswitchinterval() == pytest.approx(turns_module.SWITCH_INTERVAL)
    leave.set()
    thread.join(5)
    assert sys.getswitchinterval() == before


def test_a_fit_with_a_known_answer_lets_a_full_kind_begin(monkeypatch):
    """Of two fits one waits with a stack that fills the device; the other begins, and gets an answer that is kept."""
    monkeypatch.setattr(batching, "_FULL", 1)
    batcher, stack, options = batching._Batcher(2), make_stack("q=2", B=1), SolverOptions()
    waiting, known = (Request(stack, stack.X, np.full((1, 1, 3), alpha), None, options) for alpha in (0.1, 0.2))
    batcher._beginning = 1
    batcher._add(waiting)
    solutions = solve_directly(stack, known.alphas, None, options)
    batcher._answers.keep(known, solutions)
    device = threading.Thread(target=batcher._wait, daemon=True)
    device.start()
    wait_until(lambda: len(batcher._change._waiters) == 1)
    assert batcher.submit([Job(stack, known.alphas)], options) == [solutions]
    device.join(5)
    assert not device.is_alive()
    assert batcher._ready == [[waiting]]


def test_a_function_is_recorded_from_its_second_call_in_a_process_on(monkeypatch):
    """With an array that says it is on a GPU, and a tape that notes what is recorded."""
    made, called = [], []

    class Tape:
        def __init__(self, function, args, pool):
            made.append(args[0].shape)

        def replay(self, leaves):
            return "replayed"

    monkeypatch.setattr(recorded, "is_torch_array", lambda array: True)
    monkeypatch.setattr(recorded, "_Tape", Tape)
    monkeypatch.setattr(recorded, "_RUN_BEFORE", set())

    def function(_, array):
        called.append(array.shape)
        return "called"

    arrays = [SimpleNamespace(is_cuda=True, shape=shape, device=0) for shape in ((2,), (2,), (3,), (2,))]
    first, second = (recorded.Recorded(partial(function, problems)) for problems in range(2))
    assert [first(array) for array in arrays] == ["called", "replayed", "replayed", "replayed"]
    assert called == [(2,)]
    assert made == [(2,), (3,)]
    # what its first call initialises serves all objects, but no other device
    assert second(arrays[0]) == "replayed"
    assert second(SimpleNamespace(is_cuda=True, shape=(2,), device=1)) == "called"


def test_every_fit_is_counted_once_as_begun_and_as_ended():
    """Fits that submit a stack, that have several parts, that submit nothing, and that fail."""
    X, y = np.random.default_rng(0).standard_normal((40, 6)), np.arange(40) % 2
    batchers = []

    def fit(alpha):
        batchers.append(COLLECTOR.get())
        return GroupSVC(alpha).fit(X, y).alpha

    def fail():
        raise ValueError("a fit failed")

    parts = [partial(fit, 0.01), partial(fit, 0.01), lambda: 0]
    assert together([partial(fit, 0.02), lambda: together(parts), lambda: 1]) == [0.02, [0.01, 0.01, 0], 1]
    with pytest.raises(ValueError, match="a fit failed"):
        together([partial(fit, 0.02), lambda: together([*parts, fail])])
    assert len(set(map(id, batchers))) == 2
    for batcher in batchers:
        assert (batcher._beginning, batcher._fitting, batcher._n_waiting) == (0, 0, 0)
        assert not batcher._unsolved
