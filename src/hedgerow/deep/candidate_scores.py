"""Scores and losses of the candidate nodes of a batch: never of all nodes of a level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

LOSSES = ("squared_hinge", "logistic")
RIGHT = 2  # what is stored at a candidate that is a label of the text
_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


@dataclass(frozen=True, eq=False)
class CandidateBatch:
    """The candidates of some texts.

    `nodes` are those that any text has, ascending. `places` are the candidates of each text as places in
    `nodes`, filled up with 0; `valid` are those that are not filling, `right` those that are labels.
    """

    nodes: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_]
    right: npt.NDArray[np.bool_]

    @property
    def count(self) -> int:
        """Candidates of all texts."""
        return int(self.valid.sum())


def gather_candidates(candidates: sp.csr_array, rows: npt.NDArray[np.integer[Any]]) -> CandidateBatch:
    """The candidates of some rows of a matrix, which holds `RIGHT` at a right one and 1 at a wrong one."""
    lengths = np.diff(candidates.indptr)[rows]
    valid = np.arange(max(1, int(lengths.max(initial=0)))) < lengths[:, None]
    starts = np.cumsum(lengths) - lengths
    entries = np.repeat(candidates.indptr[rows] - starts, lengths) + np.arange(int(lengths.sum()))
    nodes, found = np.unique(candidates.indices[entries].astype(np.int64), return_inverse=True)
    places = np.zeros(valid.shape, dtype=np.int64)
    places[valid] = found
    right = np.zeros(valid.shape, dtype=bool)
    right[valid] = candidates.data[entries] == RIGHT
    return CandidateBatch(nodes, places, valid, right)


def candidate_loss(
    embeddings: torch.Tensor,
    weights: torch.Tensor,
    places: torch.Tensor,
    valid: torch.Tensor,
    right: torch.Tensor,
    loss: str,
) -> torch.Tensor:
    """The sum of the losses of all candidates; `places`, `valid` and `right` are those of a `CandidateBatch`.

    With the score z of a candidate and y = 1 for a label and -1 for others, the loss is max(0, 1 - y z)**2
    ("squared_hinge") or ln(1 + exp(-y z)) ("logistic"). The last column of `weights` is the bias.
    """
    own = weights[places]
    scores = torch.einsum("td,tcd->tc", embeddings, own[..., :-1]) + own[..., -1]
    margins = torch.where(right, scores, -scores)
    if loss == "squared_hinge":
        losses = torch.clamp(1 - margins, min=0) ** 2
    elif loss == "logistic":
        losses = torch.nn.functional.softplus(-margins)
    else:
        raise ValueError(f"loss is {loss!r}; use one of {', '.join(LOSSES)}")
    return torch.where(valid, losses, 0.0).sum()


class NodeWeights:
    """A linear classifier for each node of a level; only those of a batch's candidates are touched by a step.

    The last column of the weights is the bias.
    """

    def __init__(self, start: npt.NDArray[np.float32], device: torch.device) -> None:
        self.weights = torch.from_numpy(np.array(start, dtype=np.float32)).to(device)
        self.first = torch.zeros_like(self.weights)
        self.second = torch.zeros_like(self.weights)

    def rows(self, nodes: torch.Tensor) -> torch.Tensor:
        """The weights of some nodes, ready to collect gradients."""
        return self.weights[nodes].requires_grad_()

    def step(self, nodes: torch.Tensor, gradient: torch.Tensor, rate: float, step: int) -> None:
        """One step of Adam for some nodes; `step` counts from 1. The moments of all others stay."""
        first = _BETAS[0] * self.first[nodes] + (1 - _BETAS[0]) * gradient
        second = _BETAS[1] * self.second[nodes] + (1 - _BETAS[1]) * gradient**2
        self.first[nodes], self.second[nodes] = first, second
        size = (second / (1 - _BETAS[1] ** step)).sqrt() + _EPSILON
        self.weights[nodes] -= rate * first / (1 - _BETAS[0] ** step) / size

    def state(self) -> dict[str, npt.NDArray[np.float32]]:
        """Weights and moments, for a file."""
        found = {"weights": self.weights, "first": self.first, "second": self.second}
        return {name: tensor.cpu().numpy() for name, tensor in found.items()}

    def restore(self, state: Mapping[str, npt.NDArray[np.float32]]) -> None:
        """Take back what `state` gave."""
        self.weights, self.first, self.second = (
            torch.from_numpy(np.array(state[name])).to(self.weights.device)
            for name in ("weights", "first", "second")
        )
