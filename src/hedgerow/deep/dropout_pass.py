"""Passes of an encoder with dropout that can be repeated: every text loses the same hidden units."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass(frozen=True)
class DropoutPass:
    """One pass with dropout; `number` and `seed` choose the hidden units that it leaves out.

    `share` is the share of the units of each layer that is left out; None for the encoder's own.
    """

    number: int
    seed: int
    share: float | None = None


@contextmanager
def units_left_out(model: nn.Module, dropout: DropoutPass) -> Iterator[None]:
    """While it is open, every dropout layer drops the units of one pass."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Dropout)]
    if not layers:
        raise ValueError("the encoder has no dropout layers; choose another method than mc-dropout")
    hooks = [
        layer.register_forward_hook(_leaving_out(dropout, number, layer.p))
        for number, layer in enumerate(layers)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _leaving_out(dropout: DropoutPass, number: int, usual: float) -> Callable[..., torch.Tensor]:
    share = usual if dropout.share is None else dropout.share
    masks: dict[int, torch.Tensor] = {}

    def leave_out(layer: nn.Module, given: tuple[torch.Tensor, ...], _: torch.Tensor) -> torch.Tensor:
        (hidden,) = given
        if hidden.ndim != 3:  # attention: as wide as the text is long, not as the layer
            return hidden
        units = hidden.shape[-1]
        if units not in masks:
            draw = np.random.default_rng([dropout.seed, dropout.number, number])
            kept = (draw.random(units) >= share).astype(np.float32) / np.float32(1 - share)
            masks[units] = torch.from_numpy(kept).to(hidden.device)
        return hidden * masks[units]

    return leave_out
