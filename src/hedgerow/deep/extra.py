"""What fine-tuning runs on, found out without importing it: packages, and the processes launched."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

NEEDED = ("torch", "transformers", "tokenizers")


class MissingExtra(ImportError):  # noqa: N818 - the name says the cause
    """A package of the extra ``deep`` is not installed."""


class GpuMemoryError(MemoryError):
    """The GPU has too little memory, whatever the size of a batch; the message says what to do."""


def load_torch() -> Any:
    """Import torch and return it, or say how to get it."""
    for name in NEEDED:
        try:
            import_module(name)
        except ImportError as error:
            raise MissingExtra(
                f"transformers need the package {name} ({error}); install it with: pip install"
                " 'hedgerow[deep]'"
            ) from error
    return import_module("torch")


def check_device(name: str) -> None:
    """Raise what is missing to compute on a device: a package, or the device itself."""
    load_torch()
    from hedgerow.deep.device import choose_device

    choose_device(name)


def is_first() -> bool:
    """Whether this process writes files: the only one, or the first that a launcher started."""
    return int(os.environ.get("RANK", "0")) == 0
