"""Checkpoints of a long computation: finished parts are kept in a folder, so that it can be stopped and resumed.

A part is one file, ``DIGEST-NAME-NUMBER.npz``. The digest is that of everything the result depends on (data,
constraints, version), so that a part of another computation is never used. Nothing in a file is executed or unpickled:
it holds arrays, and one text that says how they belong together. Numbers are restored bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from mixnorm.core.files import whole_file
from mixnorm.estimators.stability import StabilitySelection
from mixnorm.execution import on_device, together_on_device
from mixnorm.montage.progress import Tracker, heard_by
from mixnorm.montage.refits import HeldOutScores, Models

#: The classes that a file may contain, by name.
_CLASSES = {kind.__name__: kind for kind in (Models, HeldOutScores, StabilitySelection)}
_MISSING = object()


@dataclass(frozen=True, eq=False)
class Call:
    """A function and its arguments, to be called later."""

    function: Callable
    positional: tuple
    named: dict[str, Any]

    @classmethod
    def of(cls, function: Callable, *positional: Any, **named: Any) -> Call:
        """Write the call as it would be made: ``Call.of(f, 1, b=2)`` for ``f(1, b=2)``."""
        return cls(function, positional, named)

    def result(self) -> Any:
        """Call the function."""
        return self.function(*self.positional, **self.named)


@dataclass(frozen=True)
class Checkpoint:
    """Where finished parts are kept.

    Attributes
    ----------
    folder : path
        Created when the first part is finished.
    version : str
        Version of the code: parts computed by another version are not used.
    progress : callable
        Called with a message that says how many parts were taken from the folder.

    See Also
    --------
    select_montage : Takes one.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import mixnorm
    >>> from mixnorm.eeg import Checkpoint, SelectOptions, select_montage, simulated_recording
    >>> recording = simulated_recording(240, n_channels=4, n_informative=2)
    >>> quick = SelectOptions(n_resamplings=0, compare=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(Path(folder) / "parts", mixnorm.__version__)
    ...     first = select_montage(recording, quick, checkpoint=checkpoint)
    ...     again = select_montage(recording, quick, checkpoint=checkpoint)  # nothing is computed twice
    ...     checkpoint.remove()
    >>> first.montage == again.montage
    True
    """

    folder: Path
    version: str
    progress: Callable[[str], None] = lambda message: None

    def run(
        self,
        name: str,
        about: str,
        calls: Iterable[Call],
        n_jobs: int | None = None,
        tracker: Tracker | None = None,
    ) -> list[Any]:
        """Return the results of the calls: read from the folder where they are there, otherwise computed and kept.

        Parameters
        ----------
        name : str
            Name of the calls, unique within one computation.
        about : str
            Digest of everything that the results depend on, see :func:`digest`.
        calls : iterable of Call
            Functions with their arguments.
        n_jobs : int or None
            Number of processes.
        tracker : Tracker or None
            Told of every part, whether read or computed.

        Returns
        -------
        list
            One result for each call, in order.
        """
        calls = list(calls)
        stem = f"{digest(self.version, about, name)}-{re.sub(r'[^a-zA-Z0-9]+', '-', name)}"
        paths = [self.folder / f"{stem}-{number}.npz" for number in range(len(calls))]
        results = [_read(path) for path in paths]
        missing = [number for number, result in enumerate(results) if result is _MISSING]
        if len(missing) < len(calls):
            self.progress(f"{name}: {len(calls) - len(missing)} of {len(calls)} parts taken from {self.folder}")
        for _ in range(len(calls) - len(missing) if tracker else 0):
            tracker.finish_part(restored=True)
        done = _run_calls((Call.of(_keep_result, paths[number], calls[number]) for number in missing), n_jobs, tracker)
        for number, result in zip(missing, done, strict=True):
            results[number] = result
        return results

    def remove(self) -> None:
        """Remove the folder, once all results are written elsewhere."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True)
class Work:
    """How the calls of one computation are run: with a checkpoint or without, and in how many processes.

    Attributes
    ----------
    checkpoint : Checkpoint or None
    about : str
        Digest of everything that the results depend on; not needed without a checkpoint.
    n_jobs : int or None
    tracker : Tracker or None
        Told whenever a call is finished.
    """

    checkpoint: Checkpoint | None = None
    about: str = ""
    n_jobs: int | None = None
    tracker: Tracker | None = None

    def run(self, name: str, calls: Iterable[Call]) -> list[Any]:
        """Results of the calls, in order."""
        if self.checkpoint is None:
            return _run_calls(calls, self.n_jobs, self.tracker)
        return self.checkpoint.run(name, self.about, calls, self.n_jobs, self.tracker)


def _run_calls(calls: Iterable[Call], n_jobs: int | None, tracker: Tracker | None) -> list[Any]:
    if on_device():  # other processes would not use it
        return _run_on_device(list(calls), tracker)
    if tracker is None:
        return Parallel(n_jobs=n_jobs)(delayed(Call.result)(call) for call in calls)
    results = []
    with heard_by(tracker.finish_share):
        for result in Parallel(n_jobs=n_jobs, return_as="generator")(delayed(Call.result)(call) for call in calls):
            results.append(result)
            tracker.finish_part()
    return results


def _run_on_device(calls: list[Call], tracker: Tracker | None) -> list[Any]:
    """Results of the calls, whose problems are solved together."""
    with heard_by(tracker.finish_share) if tracker else nullcontext():
        results = together_on_device([call.result for call in calls])
    for _ in calls if tracker else ():
        tracker.finish_part()
    return results


def digest(*values: Any) -> str:
    """SHA-256 of arrays (type, shape and bytes) and of the text of anything else.

    Examples
    --------
    >>> digest(np.zeros(2), 1) == digest(np.zeros(2), 1), digest(np.zeros(2)) == digest(np.zeros((2, 1)))
    (True, False)
    """
    found = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            found.update(f"{value.dtype.str} {value.shape}\n".encode())
            found.update(np.ascontiguousarray(value).tobytes())
        else:
            found.update(f"{value!r}\n".encode())
    return found.hexdigest()


def _keep_result(path: Path, call: Call) -> Any:
    """Make the call and write its result to a file, which appears complete or not at all."""
    result = call.result()
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: list[np.ndarray] = []
    text = json.dumps(_packed(result, arrays))
    with whole_file(path) as file:
        np.savez(file, text=np.array(text), **{f"array{number}": array for number, array in enumerate(arrays)})
    return result


def _read(path: Path) -> Any:
    """The result in a file, or ``_MISSING`` where there is no file or it is damaged: it is then computed again."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            arrays = [found[f"array{number}"] for number in range(len(found.files) - 1)]
            return _unpacked(json.loads(str(found["text"])), arrays)
    except Exception:  # a damaged file can raise anything: unknown compression, password, …
        return _MISSING


def _packed(value: Any, arrays: list[np.ndarray]) -> Any:
    """JSON of a tree of lists, dicts, numbers, text and the classes above; arrays are collected and numbered."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        return _packed(value.item(), arrays)
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_packed(inner, arrays) for inner in value]}
    if isinstance(value, dict):
        return {"dict": {key: _packed(inner, arrays) for key, inner in value.items()}}
    if is_dataclass(value):
        own = {field.name: _packed(getattr(value, field.name), arrays) for field in fields(value)}
        return {"class": type(value).__name__, "fields": own}
    return value


def _unpacked(value: Any, arrays: list[np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "class" in value:
        own = {name: _unpacked(inner, arrays) for name, inner in value["fields"].items()}
        return _CLASSES[value["class"]](**own)
    if "dict" in value:
        return {key: _unpacked(inner, arrays) for key, inner in value["dict"].items()}
    kind = tuple if "tuple" in value else list
    return kind(_unpacked(inner, arrays) for inner in value[kind.__name__])
