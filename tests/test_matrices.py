"""Matrices where they enter the library."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from hedgerow.inputs.matrices import as_indicator


def test_indicator_with_stored_zeros_in_any_order_keeps_the_ones() -> None:
    Y = sp.csr_array(
        (np.array([1.0, 0.0, 1.0, 0.0]), np.array([2, 0, 1, 3]), np.array([0, 3, 4])), shape=(2, 4)
    )
    kept, _ = as_indicator(Y, 2)
    np.testing.assert_array_equal(kept.toarray(), [[0, 1, 1, 0], [0, 0, 0, 0]])
    assert kept.nnz == 2


@pytest.mark.parametrize("indptr", [[0, 1 << 30, 2], [0, -(1 << 30), 2]])
def test_indicator_with_stored_zeros_and_a_broken_indptr_is_refused(indptr: list[int]) -> None:
    Y = sp.csr_array((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
    Y.indptr = np.array(indptr, dtype=np.int32)
    with pytest.raises(ValueError, match=r"Y\.indptr is broken"):
        as_indicator(Y, 2)
