"""Several processes that fine-tune one encoder, each with a GPU of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import distributed

from hedgerow.deep.device import choose_device


@dataclass(frozen=True)
class Team:
    """A process among those that share the texts of each batch; all of them end with the same weights.

    `rank` says which of the `size` processes it is, from 0; `device` and `threads` are what it computes with,
    where 0 threads are as many as torch and the engine would use.
    """

    device: torch.device
    rank: int = 0
    size: int = 1
    threads: int = 0

    def total(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over all processes."""
        if self.size == 1:
            return tensor
        summed = tensor.clone()
        distributed.all_reduce(summed)
        return summed

    def wait(self) -> None:
        """Go on when all processes are here."""
        # Not a barrier: where there is a GPU, torch may do that on it, even if all compute on processors.
        self.total(torch.zeros(1, device=self.device)).item()


def join_team(device: str, threads: int = 0) -> Team:
    """Join the other processes, if ``torchrun`` or ``accelerate launch`` started several.

    `device` is a name as of `choose_device`; of several processes on GPUs, each gets a GPU of its own.
    """
    chosen = choose_device(device)
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Team(chosen, threads=threads)
    if chosen.type == "cuda":
        chosen = _own_gpu(device)
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    return Team(chosen, distributed.get_rank(), size, threads)


def _own_gpu(device: str) -> torch.device:
    """The GPU of this process; ValueError where there are more processes than GPUs."""
    place = int(os.environ.get("LOCAL_RANK", "0"))
    processes = max(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), place + 1)
    gpus = torch.cuda.device_count()
    if processes > gpus:
        raise ValueError(
            f"{processes} processes were started on a machine with {gpus} GPU{'' if gpus == 1 else 's'}, and"
            f" each needs a GPU of its own: start at most {gpus} (accelerate launch --num_processes {gpus},"
            f" torchrun --nproc-per-node {gpus}), or use device='cpu' (--device cpu)"
        )
    if torch.device("cuda" if device == "auto" else device).index is not None:
        raise ValueError(
            f"device is {device!r}, but {processes} processes were started, and each needs a GPU of its own:"
            " use 'cuda' or 'auto'"
        )
    own = torch.device("cuda", place)
    torch.cuda.set_device(own)
    return own
