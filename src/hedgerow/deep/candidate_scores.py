"""Scores and losses of the candidate nodes of a batch: never of all nodes of a level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

__all__ = ["LOSSES", "RIGHT", "CandidateBatch", "NodeWeights", "candidate_loss", "gather_candidates"]

LOSSES = ("squared_hinge", "logistic")
RIGHT = 2  # what is stored at a candidate that is a label of the text
_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


@dataclass(frozen=True, eq=False)
class CandidateBatch:
    """The candidates of some texts.

    Attributes
    ----------
    nodes : int64 array, shape (distinct,)
        The nodes that are a candidate of any text, ascending.
    places : int64 array, shape (texts, most)
        The candidates of each text as places in `nodes`, filled up with 0.
    valid : bool array, shape (texts, most)
        Which of these are not filling.
    right : bool array, shape (texts, most)
        Which are labels of the text.
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
    """The candidates of some texts.

    Parameters
    ----------
    candidates : csr_array, shape (n, nodes)
        What is stored is a candidate; 2 where it is right.
    rows : int array
        The texts.

    Returns
    -------
    CandidateBatch
    """
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
    """The sum of the losses of all candidates.

    Parameters
    ----------
    embeddings : tensor, shape (texts, width)
        Of the texts.
    weights : tensor, shape (distinct, width + 1)
        Of the nodes; the last column is the bias.
    places, valid, right : tensors, shape (texts, most)
        As of `CandidateBatch`.
    loss : {"squared_hinge", "logistic"}
        With the score z of a candidate and y = 1 for a label and -1 for others, max(0, 1 - y z)**2 or
        ln(1 + exp(-y z)).

    Returns
    -------
    tensor
        A number.
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

    Parameters
    ----------
    start : float32 array, shape (nodes, width + 1)
        What to begin with; the last column is the bias.
    device : torch.device
        Where the weights are.
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

    def restore(self, state: dict[str, npt.NDArray[np.float32]]) -> None:
        """Take back what `state` gave."""
        for name in ("weights", "first", "second"):
            kept = getattr(self, name)
            setattr(self, name, torch.from_numpy(np.array(state[name])).to(kept.device))
