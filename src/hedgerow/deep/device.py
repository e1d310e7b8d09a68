"""Where an encoder runs, with how many threads, and how exact that is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

# How far a number of an embedding (of length 1) may be from that of the same text on a GPU in a batch of
# another shape, with or without a recording, or on a processor. For another shape a GPU's libraries choose
# other kernels, which add up in another order. That changes single-precision sums of some hundred numbers by
# a few units of the last bit, 1e-7 each; what further layers make of it stays well below this bound.
GPU_TOLERANCE = 1e-5


def choose_device(name: str) -> torch.device:
    """Find a device: "auto" (a GPU where there is one), "cpu", "cuda", "cuda:1" or whatever else torch knows.

    Examples
    --------
    >>> choose_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device is {name!r}; use 'auto', 'cpu', 'cuda' or 'cuda:1'") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(
                f"device is {name!r}, but torch finds no GPU: use 'cpu' or 'auto', or install a torch that"
                " was built for the GPU and its driver"
            )
        if device.index is not None and device.index >= torch.cuda.device_count():
            raise ValueError(f"device is {name!r}, but there are only {torch.cuda.device_count()} GPUs")
    return device


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use `count` threads for a while; 0 leaves it as it is."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
