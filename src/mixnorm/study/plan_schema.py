"""What a plan file may hold: types and bounds of every key, checked before anything is made of it.

A new option of a simulation or of reading gets a line in `SIMULATED`, `COHORT` or `READING`; one without a line must
be a number, text, a truth value or a list of text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixnorm.core.schema import Either, Flag, Kind, Many, Nothing, Number, Pairs, Record, Text, Whole, check, or_none

#: Larger numbers of these are a mistake: no study could be computed. Draws of different seeds would coincide beyond
#: 10,000 splits (see `mixnorm.study.data.DRAWS_PER_SEED`).
MOST = {"splits": 10_000, "folds": 1000, "seed": 2**32 - 1, "n_train": 10_000_000, "values in a grid": 10_000}
#: Largest plan file in bytes.
MOST_BYTES = 1 << 20

_NAMES = Either(Text(empty=True), Many(Text(empty=True), most=100_000))
_PLAIN = Either(Nothing(), Number(), Flag(), Text(empty=True), Many(Either(Nothing(), Number(), Text(empty=True))))
_TRIALS = Whole(2, 10_000_000)
_CHANNELS = Whole(0, 64)

SIMULATED: dict[str, Kind] = {
    "n_trials": _TRIALS,
    "n_channels": _CHANNELS,
    "n_informative": _CHANNELS,
    "noise": Number(0, 1e6),
    "noise_correlation": Number(-1, 1),
    "target_fraction": Number(0, 1),
}
COHORT: dict[str, Kind] = {
    "n_subjects": Whole(1, 1000),
    "n_trials": _TRIALS,
    "n_common": _CHANNELS,
    "n_own": _CHANNELS,
    "difference": Number(0, 1e6),
}
READING: dict[str, Kind] = {
    "target": _NAMES,
    "nontarget": _NAMES,
    "drop": _NAMES,
    "ch_names": _NAMES,
    "sfreq": or_none(Number(0, 1e7, above=True)),
    "unlabelled": Flag(),
    "subject": or_none(Text()),
    "session": or_none(Text()),
}

#: Keys of a data set. Its name is checked with that of the plan.
_DATASET = Record(
    {"source": Text()},
    {
        "name": _PLAIN,
        "preparation": Either(Nothing(), Text(), Pairs(Text(), _PLAIN, 100)),
        "options": or_none(Pairs(Text(), _PLAIN, 100)),
        "subjects": Many(Text(), most=100_000),
        "sessions": or_none(Whole(1, 1_000_000)),
        "where": Text(10_000, empty=True),
    },
)
#: Keys of a plan whose values are not checked by `Plan` itself.
_PLAN = Record(optional={"about": Text(10_000, empty=True), "scatter_at": or_none(Whole(1))})


def check_plan(description: Mapping[str, Any]) -> None:
    """Raise a `SchemaError` for keys of a plan that `Plan` does not check, where their values are not allowed."""
    check(_PLAN, {key: value for key, value in description.items() if key in _PLAN.optional}, "The plan")


def check_datasets(datasets: Any) -> None:
    """Raise a `SchemaError` where a plan has no list of tables under ``dataset``."""
    check(Many(Pairs(Text(), _ANYTHING, 100), most=1000), datasets, "'dataset'")


def check_dataset(description: Mapping[str, Any]) -> None:
    """Raise a `SchemaError` for the table of a data set with known keys, where a value is not allowed."""
    name = f"The data set {description.get('name', description.get('source'))!r:.80}"
    check(_DATASET, description, name)
    kinds = {"simulated": SIMULATED, "cohort": COHORT}.get(description["source"], READING)
    options = description.get("options") or {}
    # Names of options are checked where their function is known (`mixnorm.study.data`); here their values are.
    check(Record(optional={key: kinds.get(key, _PLAIN) for key in options}), options, f"{name}: options")


class _Anything:
    words = "anything"

    def problem(self, value: Any, sizes: dict[str, Any]) -> None:
        """As in `mixnorm.core.schema.Kind`."""


_ANYTHING = _Anything()
