"""What fits submit to `mixnorm.execution.batching`: requests, which of them are alike, and answers that are kept."""

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np

from mixnorm.core.lq_prox import n_joint_steps
from mixnorm.core.penalties import is_between
from mixnorm.core.problem import Solution, Stack
from mixnorm.execution.solve import SolverOptions, on_device

#: At most so many problems of several data sets are solved at once: the fits of the first part continue while the
#: device solves the next.
_MOST = 640
#: The arrays of a solution, all with the data sets as their first axis and the problems as their last one.
SOLUTION_PARTS = [part.name for part in fields(Solution)]
#: Solutions are kept for fits that submit the same stack later, up to so many bytes.
_MOST_KEPT = 512 * 1024**2


@dataclass(eq=False)
class Waiter:
    """A fit that waits until all of some requests are solved; ``left`` of them are not."""

    left: int = 1
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(eq=False)
class Request:
    """A stack of NumPy arrays (B = 1) that a fit submitted, with its alphas and options, and later its solutions.

    ``trials``: the array of trials of this fit itself; that of the stack is the first one with the same content.
    ``same``: later requests with the same content, which get the same solutions. ``key``: kind and content when it was
    submitted.
    """

    stack: Stack
    trials: np.ndarray
    alphas: np.ndarray
    similarities: np.ndarray | None
    options: SolverOptions
    solutions: list[Solution] = field(default_factory=list)
    error: BaseException | None = None
    waiter: Waiter = field(default_factory=Waiter)
    same: list["Request"] = field(default_factory=list)
    key: tuple = ()

    @cached_property
    def kind(self) -> tuple:
        """A key that is equal for requests that can be merged into one stack.

        Their numbers of trials may differ by a factor of up to √2, because the shorter ones are padded.
        """
        stack = self.stack
        _, T, n, d, K = stack.shape
        shared = (T, d, K, len(self.alphas), int(2 * np.log2(n)), stack.fit_intercept, self.similarities is None)
        terms = (stack.center is None, stack.ridge is None, None if stack.metric is None else stack.metric.kind())
        penalty = (type(stack.penalty).__name__, self._order, stack.groups.index.tobytes())
        return (*shared, *terms, *penalty, self.options, type(stack.loss).__name__)

    @property
    def _order(self) -> Hashable:
        """What kinds differ in by the order q of the norm: those between 1 and 2 are solved together on a device."""
        q = self.stack.penalty.q
        if is_between(q) and on_device() and self.options.solver in ("auto", "newton"):
            return "between 1 and 2", n_joint_steps(q)
        return q

    @cached_property
    def content(self) -> tuple:
        """A key that is equal for requests of one kind with the same problems.

        The trials are compared by their address, because `KnownTrials` replaces equal trials by the same array, and
        by their `fingerprint_of`: the array may have been filled with other trials since.
        """
        stack = self.stack
        own = [stack.y, stack.sample_weight, stack.group_weights, stack.similarity, stack.center, stack.ridge]
        parts = [*own, self.alphas, self.similarities]
        parts += [] if stack.metric is None else stack.metric.arrays()
        told = [b"none" if part is None else repr(part.shape).encode() + part.tobytes() for part in parts]
        # At once: after every part of some size the thread would have to wait for the interpreter.
        digest = blake2b(b"".join([repr(stack.penalty.q).encode(), *told]), digest_size=32)
        return _address(stack.X), self.fingerprint, digest.digest()

    @property
    def data_set(self) -> tuple:
        """A key that is equal for requests with the same trials and labels."""
        # The address alone is not enough: an array may be filled with other trials.
        return _address(self.stack.X), self.fingerprint, self.stack.y.tobytes()

    @cached_property
    def fingerprint(self) -> bytes:
        """That of the trials when they were submitted."""
        return fingerprint_of(self.trials)

    def use_unchanged_trials(self) -> None:
        """Return to the trials of this fit itself, if the fit whose array is used has filled it with others since."""
        if self.stack.X is not self.trials and fingerprint_of(self.stack.X) != self.fingerprint:
            self.stack = replace(self.stack, X=self.trials)
            self.__dict__.pop("content", None)


class KnownTrials:
    """The arrays of trials seen so far; of arrays with equal content only the first is kept and used."""

    def __init__(self):
        self._alike: dict[tuple, list[np.ndarray]] = {}
        self._lock = threading.Lock()

    def first_like(self, X: np.ndarray) -> np.ndarray:
        """Return the first array with the content of X.

        The array is kept in memory, so that no other array can get the same address.
        """
        with self._lock:
            # A few values tell arrays apart quickly; only candidates with equal samples are compared as a whole.
            known = self._alike.setdefault((X.shape, _sample_of(X)), [])
            for other in known:
                if _address(other) == _address(X) or np.array_equal(other, X):
                    return other
            known.append(X)
            return X


class Answers:
    """The solutions of earlier stacks, for fits that submit the same stack later; nothing is kept beyond a limit."""

    def __init__(self):
        self._solutions: dict[tuple, list[Solution]] = {}
        self._room = _MOST_KEPT

    def get(self, request: Request) -> list[Solution] | None:
        """Return the solutions of a stack, if they were kept."""
        return self._solutions.get((request.kind, request.content))

    def keep(self, request: Request, solutions: list[Solution]) -> None:
        """Keep the solutions of a stack, if there is room."""
        size = len(solutions) * sum(getattr(solutions[0], name).nbytes for name in SOLUTION_PARTS)
        if size <= self._room:
            self._room -= size
            self._solutions[request.kind, request.content] = solutions


def in_parts(requests: list[Request]) -> list[list[Request]]:
    """Divide requests of one kind into parts that are solved one after the other.

    A part has at most `_MOST` problems, or one data set, and as many requests of each of its data sets.
    """
    # Sorted by the address of the trials, so that trials which the kind before left on the device are reused.
    rows = _by_data_set(sorted(requests, key=lambda request: request.content[0]))
    K = requests[0].stack.shape[-1]
    parts: list[list[Request]] = []
    length = 0
    for row in sorted(rows, key=len):
        if not parts or len(row) != length or K * (len(parts[-1]) + len(row)) > _MOST:
            parts.append([])
        parts[-1] += row
        length = len(row)
    return parts


def even_rows(requests: list[Request]) -> list[list[Request]]:
    """Put requests with the same trials side by side if all data sets have equally many, or each into its own row."""
    rows = _by_data_set(requests)
    return rows if len({len(row) for row in rows}) == 1 else [[request] for request in requests]


def _by_data_set(requests: list[Request]) -> list[list[Request]]:
    """Put requests with the same trials and labels side by side.

    A metric belongs to a data set, so that requests with a metric stay by themselves.
    """
    if requests[0].stack.metric is not None:
        return [[request] for request in requests]
    found: dict[tuple, list[Request]] = {}
    for request in requests:
        found.setdefault(request.data_set, []).append(request)
    return list(found.values())


def merge_grids(rows: list[list[Request]], name: str) -> np.ndarray | None:
    """Return the alphas or the similarities of a merged stack, (A, B, K); None where there are none."""
    if getattr(rows[0][0], name) is None:  # of all, or of none: see `kind`
        return None
    return np.concatenate([np.concatenate([getattr(one, name) for one in row], axis=2) for row in rows], axis=1)


def fingerprint_of(X: np.ndarray) -> bytes:
    """Return the product of every trial with a fixed vector, by which trials that were changed are recognised."""
    return (X @ np.sin(np.arange(1.0, X.shape[-1] + 1))).tobytes()


def _sample_of(X: np.ndarray) -> bytes:
    """Return about 64 values of an array, by which different arrays can be distinguished quickly."""
    return X.reshape(-1)[:: max(1, X.size // 64)].tobytes()


def _address(array: np.ndarray) -> tuple:
    return array.__array_interface__["data"][0], array.shape, array.strides
