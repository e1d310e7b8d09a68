"""What members learn from, and the sample that each of them draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import xxhash

from hedgerow import _native
from hedgerow.trees.label_tree import LabelTree

__all__ = ["Costs", "TrainingData", "as_costs", "drawn_for"]

Costs = npt.NDArray[np.float32] | None


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What all members learn from: inputs, labels (for the engine, and as a matrix) and weights of inputs."""

    X: _native.Rows
    Y: _native.Rows
    indicator: sp.csr_array
    width: int
    costs: npt.NDArray[np.float32] | None

    def fingerprint(self, tree: LabelTree | None, label_features: Any, settings: str) -> str:
        """A hash of the data and the settings: equal ones give equal members."""
        digest = xxhash.xxh3_128(repr((settings, self.width, self.indicator.shape)).encode())
        if label_features is not None:
            vectors = sp.csr_array(label_features)
            digest.update(repr(vectors.shape).encode())
            for array in (vectors.indptr, vectors.indices, vectors.data):
                digest.update(np.ascontiguousarray(array).data)
        if tree is not None:
            for array in (*tree.begins, tree.labels):
                digest.update(repr(len(array)).encode())
                digest.update(np.ascontiguousarray(array).data)
        # As the engine has them, in whatever form they were given.
        indptr, indices, values, _ = self.X.arrays()
        for part in (indptr, indices, values, self.indicator.indptr, self.indicator.indices):
            if part is not None:  # no values: all are 1
                digest.update(np.ascontiguousarray(part).data)
        if self.costs is not None:
            digest.update(self.costs.data)
        return digest.hexdigest()


def as_costs(sample_weight: npt.ArrayLike | None, rows: int) -> npt.NDArray[np.float32] | None:
    """Weights of the inputs as costs, after checking them."""
    if sample_weight is None:
        return None
    if np.iscomplexobj(sample_weight):
        raise ValueError("sample_weight has complex numbers; give real ones")
    try:
        with np.errstate(over="ignore"):
            costs = np.ascontiguousarray(sample_weight, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight is not a vector of numbers: {error}") from error
    if costs.shape != (rows,):
        raise ValueError(f"sample_weight has shape {costs.shape}, but there are {rows} inputs")
    bad = np.flatnonzero(~(np.isfinite(costs) & (costs >= 0)))
    if bad.size:
        raise ValueError(f"sample_weight[{bad[0]}] is {costs[bad[0]]}; it must be finite and not negative")
    if not costs.any():
        raise ValueError("sample_weight is 0 for every input; there is nothing to learn from")
    return costs


def drawn_for(
    number: int, seed: int, indicator: sp.csr_array, costs: Costs, bootstrap: bool
) -> tuple[int, Costs]:
    """The seed of a member and the costs of its inputs: with `bootstrap`, how often each was drawn."""
    draw = np.random.default_rng([seed, number])
    own_seed = int(draw.integers(2**62))
    return own_seed, _bootstrap(draw, indicator, costs) if bootstrap else costs


def _bootstrap(draw: np.random.Generator, indicator: sp.csr_array, costs: Costs) -> Costs:
    rows = indicator.shape[0]
    counts = np.bincount(draw.integers(0, rows, rows), minlength=rows).astype(np.float32)
    drawn = counts if costs is None else counts * costs
    if not drawn.any() or not indicator[drawn > 0].nnz:
        return np.ones(rows, dtype=np.float32) if costs is None else costs
    return drawn
