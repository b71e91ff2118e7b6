"""Helpers for arrays of all libraries."""

import numpy as np
import pytest

from mixnorm.core.arrays import put_rows, to_numpy
from stacks import LIBRARIES


@pytest.mark.parametrize("asarray", LIBRARIES)
def test_rows_are_written_in_place(asarray):
    target = asarray(np.zeros((4, 2)))
    put_rows(target, asarray(np.array([2, 0])), asarray(np.array([[1.0, 2.0], [3.0, 4.0]])))
    np.testing.assert_array_equal(to_numpy(target), [[3, 4], [0, 0], [1, 2], [0, 0]])
