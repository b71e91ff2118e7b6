"""Checkpoints: parts are kept complete, restored bit for bit, and never used for another computation."""

import numpy as np
import pytest

from mixnorm.eeg import Checkpoint, Parts
from mixnorm.estimators.stability import StabilitySelection
from mixnorm.montage.checkpoint import Call, Work, digest
from mixnorm.montage.refits import HeldOutScores, Models

RNG = np.random.default_rng(0)
TREE = {
    "models": [Models(np.array([2, 0, 1]), np.array([1, 2]), RNG.random(2), RNG.random((2, 3, 4)), RNG.random(2))],
    "tests": (np.arange(3), [HeldOutScores(np.array([1.0, -1.0]), RNG.random((2, 3))), None]),
    "numbers": [0.1, float("nan"), None, 3, "text", np.float64(1 / 3)],
    "stability": StabilitySelection(RNG.random(3), np.arange(3), np.array([1]), 0.75, 1 / 3, 0.1, 2, 50),
}


def same(one, other):
    """Equal to the last bit, types included; a NumPy number may come back as a plain one."""
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other, strict=True)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert type(one) is type(other)
        for mine, theirs in zip(one, other, strict=True):
            same(mine, theirs)
    elif hasattr(one, "__dataclass_fields__"):
        assert type(one) is type(other)
        same(dict(vars(one)), dict(vars(other)))
    else:
        assert one == other or (one != one and other != other)


class Counting:
    """A function that counts its calls."""

    def __init__(self, value=TREE):
        self.calls, self.value = 0, value

    def __call__(self):
        self.calls += 1
        return self.value


@pytest.fixture
def messages():
    return []


@pytest.fixture
def checkpoint(tmp_path, messages):
    return Checkpoint(tmp_path / "parts", "1.0", messages.append)


def test_everything_comes_back_bit_for_bit_and_is_computed_once(checkpoint, messages):
    work = Counting()
    (first,) = checkpoint.run("work", "d", [Call.of(work)])
    assert messages == []
    (again,) = checkpoint.run("work", "d", [Call.of(work)])
    assert work.calls == 1
    same(first, again)
    assert messages == [f"work: 1 of 1 parts taken from {checkpoint.folder}"]


def test_a_part_of_other_data_another_name_place_or_version_is_not_taken(checkpoint):
    work = Counting()
    checkpoint.run("work", "d", [Call.of(work)])
    for other, name, data in (
        (checkpoint, "work", "e"),
        (checkpoint, "play", "d"),
        (Checkpoint(checkpoint.folder, "1.1"), "work", "d"),
    ):
        other.run(name, data, [Call.of(work)])
    assert work.calls == 4
    checkpoint.run("work", "d", [Call.of(work), Call.of(work)])
    assert work.calls == 5


def test_names_that_look_alike_in_a_file_name_are_still_two(checkpoint):
    assert checkpoint.run("a b", "d", [Call.of(Counting(1))]) == [1]
    assert checkpoint.run("a-b", "d", [Call.of(Counting(2))]) == [2]


@pytest.mark.parametrize("damage", [lambda whole: whole[: len(whole) // 2], lambda whole: b"", lambda whole: b"text"])
def test_a_damaged_part_is_computed_again(checkpoint, damage):
    work = Counting()
    checkpoint.run("work", "d", [Call.of(work)])
    (file,) = checkpoint.folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    same(checkpoint.run("work", "d", [Call.of(work)])[0], TREE)
    assert work.calls == 2
    checkpoint.run("work", "d", [Call.of(work)])
    assert work.calls == 2


def test_a_class_that_is_not_listed_is_not_built(checkpoint):
    work = Counting(1)
    checkpoint.run("work", "d", [Call.of(work)])
    (file,) = checkpoint.folder.iterdir()
    np.savez(file, text=np.array('{"class": "Popen", "fields": {"args": "true"}}'))
    assert checkpoint.run("work", "d", [Call.of(work)]) == [1]
    assert work.calls == 2


def test_nothing_pickled_is_read(checkpoint):
    work = Counting(1)
    checkpoint.run("work", "d", [Call.of(work)])
    (file,) = checkpoint.folder.iterdir()
    np.savez(file, text=np.array('{"array": 0}'), array0=np.array([{"a": 1}], dtype=object))
    assert checkpoint.run("work", "d", [Call.of(work)]) == [1]


def test_a_failure_keeps_what_was_done_before_it_and_leaves_nothing_half_written(checkpoint):
    done = Counting(7)

    def fails():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        checkpoint.run("work", "d", [Call.of(done), Call.of(fails)])
    assert [file.suffix for file in checkpoint.folder.iterdir()] == [".npz"]
    assert checkpoint.run("work", "d", [Call.of(done), Call.of(Counting(8))]) == [7, 8]
    assert done.calls == 1


def test_parts_of_parallel_processes_are_kept(checkpoint):
    assert checkpoint.run("work", "d", [Call.of(divmod, 7, 2), Call.of(divmod, 9, 4)], n_jobs=2) == [(3, 1), (2, 1)]
    assert checkpoint.run("work", "d", [Call.of(divmod), Call.of(divmod)], n_jobs=2) == [(3, 1), (2, 1)]


def test_a_checkpoint_can_be_removed_twice(checkpoint):
    checkpoint.run("work", "d", [Call.of(Counting())])
    checkpoint.remove()
    assert not checkpoint.folder.exists()
    checkpoint.remove()


@pytest.mark.parametrize(
    "other",
    [(np.zeros(3), "a"), (np.zeros(2, dtype=np.float32), "a"), (np.zeros((1, 2)), "a"), (np.array([0, 1e-300]), "a")],
)
def test_a_digest_is_of_type_shape_and_every_bit(other):
    assert digest(np.zeros(2), "a") == digest(np.zeros(2), "a") != digest(*other)
    assert digest(np.arange(6.0).reshape(2, 3)) == digest(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert digest("a", "b") != digest("ab")


def test_work_runs_with_and_without_a_checkpoint(checkpoint, messages):
    counting = Counting(3)
    assert Work().run("work", [Call.of(counting), Call.of(divmod, 7, 2)]) == [3, (3, 1)]
    assert not checkpoint.folder.exists()
    for _ in range(2):
        assert Work(checkpoint, "d").run("work", [Call.of(counting)]) == [3]
    assert counting.calls == 2
    Work(checkpoint, "e").run("work", [Call.of(counting)])
    assert counting.calls == 3
    assert len(messages) == 1


def test_the_former_name_is_an_alias():
    assert Parts is Checkpoint
