"""Several processes that fine-tune one encoder, each with a GPU of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch

from hedgerow.deep.device import choose_device

__all__ = ["Team", "join_team"]


@dataclass(frozen=True)
class Team:
    """A process among those that share the texts of each batch; all of them end with the same weights.

    Attributes
    ----------
    device : torch.device
        Where this process computes.
    rank, size : int
        Which process it is, from 0, and of how many.
    accelerator : accelerate.Accelerator or None
        Adds up what the processes found.
    """

    device: torch.device
    rank: int = 0
    size: int = 1
    accelerator: Any = None

    def total(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over all processes."""
        if self.accelerator is None:
            return tensor
        summed: torch.Tensor = self.accelerator.reduce(tensor, reduction="sum")
        return summed

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()


def join_team(device: str) -> Team:
    """Join the other processes, where ``accelerate launch`` (or torchrun) started several.

    Parameters
    ----------
    device : str
        As of `choose_device`; of several processes on GPUs, each gets its own.

    Returns
    -------
    Team
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Team(choose_device(device))
    try:
        from accelerate import Accelerator
    except ImportError as error:
        raise ImportError(
            "several processes were launched, and they need accelerate to work together; install it with: pip"
            " install accelerate, or start one process"
        ) from error
    accelerator = Accelerator(cpu=choose_device(device).type == "cpu")
    return Team(accelerator.device, accelerator.process_index, accelerator.num_processes, accelerator)
