"""Kinds of values: what is allowed, and the sentence about what is not."""

from math import inf, nan

import numpy as np
import pytest

from mixnorm.core.schema import (
    LABELS,
    Array,
    Either,
    Flag,
    Label,
    Many,
    Number,
    Pairs,
    Record,
    SchemaError,
    Text,
    Whole,
    Word,
    check,
    or_none,
)

ALLOWED = [
    (Number(), [0, -2.5, 1e99, 2**62]),
    (Number(0, inf, above=True), [1e-320, 1e200, inf]),
    (Whole(1, 5), [1, 5]),
    (Flag(), [True, False]),
    (Text(3), ["a", "äöü", "\x1b"]),
    (Text(3, empty=True), [""]),
    (Word("a", "b"), ["a", "b"]),
    (Label(), ["", 0, 2.5, True, ("a", 1), (("a",), "b")]),
    (Either(Flag(), Whole()), [True, 3]),
    (or_none(Text()), [None, "a"]),
    (Many(Whole(), least=1, most=2), [[1], (1, 2), np.array([3])]),
    (Pairs(Label(), Number()), [{}, {("a", 1): 2.0}]),
    (Array("f", 2), [np.zeros(2), np.zeros(2, dtype=np.float32)]),
    (Array("f", "..."), [np.zeros(()), np.zeros((2, 3))]),
    (Array("f", "n", high=inf), [np.array([inf])]),
    (Array(LABELS, "n"), [np.array(["a"]), np.array([1]), np.array([True]), np.array([b"x"])]),
]
REFUSED = [
    (Number(), [nan, inf, 1e101, 10**400, True, "1", None, [1], 1j, np.float32(1)]),
    (Number(0, above=True), [0, -1]),
    (Number(0, inf), [-inf, nan]),
    (Whole(1, 5), [0, 6, 1.0, True, "1", 10**400]),
    (Flag(), [0, "true", None]),
    (Text(3), ["", "abcd", 5, b"a", "\ud800", None]),
    (Word("a", "b"), ["c", "", [], {}, None, 1]),
    (Label(), [None, [], {}, nan, inf, ((((("a",),),),),), ["a"], "\udfff", 10**400]),
    (Either(Flag(), Whole()), [1.5, "x"]),
    (Many(Whole(), least=1, most=2), [[], [1, 2, 3], ["a"], "a", {1: 2}, np.zeros((2, 2)), np.array([1.5]), None]),
    (Pairs(Text(), Number()), [[], {1: 2}, {"a": "b"}, None]),
    (Array("f", 2), [[0.0, 0.0], np.zeros(3), np.zeros((2, 1)), np.zeros(2, int), np.array([nan, 0]), None]),
    (Array("f", 2), [np.zeros(2, dtype=np.float16), np.array([0.0, inf]), np.array([0.0, 1e101])]),
    (Array("U", "n"), [np.array([0x110000], np.uint32).view("<U1"), np.array(["\ud800"]), np.array([b"a"])]),
    (Array("f", "n", "n"), [np.zeros((2, 3)), np.zeros(2)]),
    (Record({"a": Flag()}), [None, [], {}, {"a": 1}, {"a": True, "b": 1}, {1: 2}]),
]


@pytest.mark.parametrize(("kind", "values"), ALLOWED, ids=lambda part: type(part).__name__)
def test_allowed_values_pass(kind, values):
    for value in values:
        check(kind, value, "it")


@pytest.mark.parametrize(("kind", "values"), REFUSED, ids=lambda part: type(part).__name__)
def test_other_values_are_refused_in_a_short_sentence(kind, values):
    for value in values:
        with pytest.raises(SchemaError, match=r"^it.*\.$") as refusal:
            check(kind, value, "it")
        assert len(str(refusal.value)) < 300


def test_letters_have_one_value_in_a_check():
    model = Record(
        {"d": Whole(size="d"), "coef": Array("f", "T", "d"), "index": Array("i", "T", low=0, below="d")},
        {"names": Many(Text(), size="T"), "grid": Array("f", "...", "A"), "scores": Array("f", "...", "A", "K")},
    )
    fits = {"d": 3, "coef": np.zeros((2, 3)), "index": np.array([0, 2]), "names": ["a", "b"]}
    fits |= {"grid": np.zeros((4, 5, 6)), "scores": np.zeros((4, 5, 6, 7))}
    check(model, fits, "model")
    for change, text in (
        ({"d": 4}, r"'coef' must have the axes \(T, d\) with d = 4, but its shape is \(2, 3\)"),
        ({"index": np.array([0, 3])}, "'index' must have values from 0 to 2, but has 3"),
        ({"names": ["a"]}, "'names' must agree with T = 2, but it gives 1"),
        ({"scores": np.zeros((4, 6, 7))}, r"'scores' must have the axes \(..., A, K\) with ... = \(4, 5\)"),
    ):
        with pytest.raises(SchemaError, match=text):
            check(model, fits | change, "model")


def test_records_join_and_rules_see_the_whole():
    both = Record({"a": Whole()}, {"b": Flag()}) | Record(
        {"b": Whole()}, rules=[lambda v: "a > b" * (v["a"] > v["b"]) or None]
    )
    check(both, {"a": 1, "b": 2}, "it")
    with pytest.raises(SchemaError, match=r"^it: a > b\.$"):
        check(both, {"a": 3, "b": 2}, "it")
    with pytest.raises(SchemaError, match=r"^it: 'b' is missing\.$"):
        check(both, {"a": 3}, "it")
    with pytest.raises(SchemaError, match=r"^it: 'c' is unknown"):
        check(both, {"a": 3, "b": 4, "c": 1}, "it")


def test_the_most_telling_sentence_is_given():
    kind = or_none(Many(Number(0, 1)))
    with pytest.raises(SchemaError, match=r"^it has an item 1 that must be a number from 0 to 1, but it is 2\.$"):
        check(kind, [0.5, 2], "it")
    with pytest.raises(SchemaError, match=r"^it must be nothing \(null\), or a list .*, but it is 'x'\.$"):
        check(kind, "x", "it")
