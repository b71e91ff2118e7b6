"""Parts of a long computation: kept whole, found again bit for bit, and never mistaken for another's."""

import numpy as np
import pytest

from mixnorm.eeg import Parts
from mixnorm.estimators.stability import StabilitySelection
from mixnorm.montage import scoring as montages
from mixnorm.montage.checkpoint import call_of, digest

RNG = np.random.default_rng(0)
TREE = {
    "models": [
        montages.Models(np.array([2, 0, 1]), np.array([1, 2]), RNG.random(2), RNG.random((2, 3, 4)), RNG.random(2))
    ],
    "tests": (np.arange(3), [montages.Tested(np.array([1.0, -1.0]), RNG.random((2, 3))), None]),
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
    """A function that says how often it was called."""

    def __init__(self, value=TREE):
        self.calls, self.value = 0, value

    def __call__(self):
        self.calls += 1
        return self.value


@pytest.fixture
def told():
    return []


@pytest.fixture
def parts(tmp_path, told):
    return Parts(tmp_path / "parts", "1.0", told.append)


def test_everything_comes_back_bit_for_bit_and_is_computed_once(parts, told):
    work = Counting()
    (first,) = parts.run("work", "d", [call_of(work)])
    assert told == []
    (again,) = parts.run("work", "d", [call_of(work)])
    assert work.calls == 1
    same(first, again)
    assert told == [f"work: 1 of 1 parts taken from {parts.folder}"]


def test_a_part_of_other_data_another_name_place_or_version_is_not_taken(parts):
    work = Counting()
    parts.run("work", "d", [call_of(work)])
    for other, name, data in ((parts, "work", "e"), (parts, "play", "d"), (Parts(parts.folder, "1.1"), "work", "d")):
        other.run(name, data, [call_of(work)])
    assert work.calls == 4
    parts.run("work", "d", [call_of(work), call_of(work)])
    assert work.calls == 5


def test_names_that_look_alike_in_a_file_name_are_still_two(parts):
    assert parts.run("a b", "d", [call_of(Counting(1))]) == [1]
    assert parts.run("a-b", "d", [call_of(Counting(2))]) == [2]


@pytest.mark.parametrize("damage", [lambda whole: whole[: len(whole) // 2], lambda whole: b"", lambda whole: b"text"])
def test_what_is_not_whole_is_computed_anew(parts, damage):
    work = Counting()
    parts.run("work", "d", [call_of(work)])
    (file,) = parts.folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    same(parts.run("work", "d", [call_of(work)])[0], TREE)
    assert work.calls == 2
    parts.run("work", "d", [call_of(work)])
    assert work.calls == 2


def test_a_class_that_is_not_ours_is_not_made(parts):
    work = Counting(1)
    parts.run("work", "d", [call_of(work)])
    (file,) = parts.folder.iterdir()
    np.savez(file, text=np.array('{"class": "Popen", "fields": {"args": "true"}}'))
    assert parts.run("work", "d", [call_of(work)]) == [1]
    assert work.calls == 2


def test_nothing_pickled_is_read(parts):
    work = Counting(1)
    parts.run("work", "d", [call_of(work)])
    (file,) = parts.folder.iterdir()
    np.savez(file, text=np.array('{"array": 0}'), array0=np.array([{"a": 1}], dtype=object))
    assert parts.run("work", "d", [call_of(work)]) == [1]


def test_a_failure_keeps_what_was_done_before_it_and_leaves_nothing_half_written(parts):
    done = Counting(7)

    def fails():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        parts.run("work", "d", [call_of(done), call_of(fails)])
    assert [file.suffix for file in parts.folder.iterdir()] == [".npz"]
    assert parts.run("work", "d", [call_of(done), call_of(Counting(8))]) == [7, 8]
    assert done.calls == 1


def test_processes_keep_their_parts_too(parts):
    assert parts.run("work", "d", [call_of(divmod, 7, 2), call_of(divmod, 9, 4)], n_jobs=2) == [(3, 1), (2, 1)]
    assert parts.run("work", "d", [call_of(divmod), call_of(divmod)], n_jobs=2) == [(3, 1), (2, 1)]


def test_removed_they_are_gone_and_can_be_removed_again(parts):
    parts.run("work", "d", [call_of(Counting())])
    parts.remove()
    assert not parts.folder.exists()
    parts.remove()


@pytest.mark.parametrize(
    "other",
    [(np.zeros(3), "a"), (np.zeros(2, dtype=np.float32), "a"), (np.zeros((1, 2)), "a"), (np.array([0, 1e-300]), "a")],
)
def test_a_digest_is_of_type_shape_and_every_bit(other):
    assert digest(np.zeros(2), "a") == digest(np.zeros(2), "a") != digest(*other)
    assert digest(np.arange(6.0).reshape(2, 3)) == digest(np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert digest("a", "b") != digest("ab")
