"""One stack out of several: each row a data set, stacks of the same trials side by side in it."""

import itertools
from typing import Any

import numpy as np

from mixnorm.core.arrays import Array, device, namespace
from mixnorm.core.metric import join_metrics
from mixnorm.core.penalties import GroupNorms, Penalty
from mixnorm.core.problem import Stack
from mixnorm.execution.solve import to_device


def merge_trials(stacks: list[Stack]) -> tuple[Array, Array]:
    """Return X (B, T, n, d) and y (B, T, n) of several stacks (B = 1), on the device.

    Those with fewer trials are padded; in `merge_problems` the padding has the weight zero.
    """
    n = max(stack.shape[2] for stack in stacks)

    def filled(name: str, fill: float) -> Array:
        # One after the other into an array on the device: a copy of all of them on the host would take longer than
        # their transfer.
        parts = (to_device(getattr(stack, name)) for stack in stacks)
        first = next(parts)
        xp = namespace(first)
        out = xp.full(
            (len(stacks), first.shape[1], n, *first.shape[3:]), fill, dtype=first.dtype, device=device(first)
        )
        for i, part in enumerate(itertools.chain([first], parts)):
            out[i, :, : part.shape[2], ...] = part[0, ...]
        return out

    return filled("X", 0.0), filled("y", 1.0)


def merge_problems(rows: list[list[Stack]], n: int) -> dict[str, Any]:
    """Return the fields of a merged stack of n trials other than X and y; stacks in one row have the same trials."""
    first = rows[0][0]
    names = ["alpha", "group_weights", "similarity"]
    names += [name for name in ("center", "ridge") if getattr(first, name) is not None]  # of all, or of none
    joined: dict[str, Any] = {
        name: np.concatenate([np.concatenate([getattr(one, name) for one in row], axis=-1) for row in rows])
        for name in names
    }
    metrics = [row[0].metric for row in rows if row[0].metric is not None]  # of all, or of none: see `kind`
    if metrics:
        joined["metric"] = join_metrics(metrics)
    K = first.shape[4]
    weights = np.zeros((len(rows), first.shape[1], n, K * len(rows[0])))
    for i, row in enumerate(rows):
        for j, stack in enumerate(row):
            weights[i, :, : stack.shape[2], j * K : (j + 1) * K] = stack.sample_weight[0]
    return {"sample_weight": weights, "penalty": _merge_penalties(rows), **joined}


def _merge_penalties(rows: list[list[Stack]]) -> Penalty:
    """Return the penalty of a merged stack: that of all, or norms of several orders."""
    orders = [[stack.penalty.q for stack in row] for row in rows]
    if len(np.unique(orders)) == 1:
        return rows[0][0].penalty
    return GroupNorms(np.repeat(orders, rows[0][0].shape[4], axis=1))
