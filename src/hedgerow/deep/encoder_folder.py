"""Encoders as folders that Hugging Face's libraries read and write."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers

from hedgerow.inputs.training_record import Hashes

_TRAINED_ON = "trained_on.npy"
NO_TEXTS: Hashes = np.empty(0, dtype=np.uint64)


class EncoderNotFound(ValueError):  # noqa: N818 - the name says the cause
    """There is no encoder of that name."""


def check_name(name: str | os.PathLike[str]) -> bool:
    """Whether an encoder is a folder of this machine; a path that cannot be one is refused."""
    path = Path(name)
    if path.is_dir() and not (path / "config.json").is_file():
        raise EncoderNotFound(
            f"the folder {path} has no config.json, so it is not an encoder; give a folder that"
            " save_pretrained of Hugging Face wrote"
        )
    # Names on the hub are NAME or OWNER/NAME.
    if not path.is_dir() and (path.exists() or path.is_absolute() or len(path.parts) > 2):
        raise EncoderNotFound(
            f"there is no folder {path}; give the folder of a Hugging Face encoder, or the encoder's name on"
            " the hub"
        )
    return path.is_dir()


def open_folder(where: str) -> tuple[Any, tokenizers.Tokenizer, Hashes]:
    """Model, tokenizer and the hashes of the texts it was fine-tuned on; `where` may be a name on the hub."""
    local = check_name(where)
    try:
        with _no_progress_bar():
            tokenizer = transformers.AutoTokenizer.from_pretrained(where, local_files_only=local)
            model = transformers.AutoModel.from_pretrained(where, local_files_only=local, dtype=torch.float32)
        trained_on = _read_trained_on(Path(where)) if local else NO_TEXTS
    except (OSError, ValueError, KeyError, EOFError) as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        way_out = (
            "the folder must hold what save_pretrained writes"
            if local
            else "give the folder of an encoder, or its name on the hub and a network"
        )
        raise EncoderNotFound(f"the encoder {where!r} cannot be opened: {first}; {way_out}") from error
    if not isinstance(tokenizer, transformers.PreTrainedTokenizerFast):
        raise EncoderNotFound(f"the encoder {where!r} has no tokenizer.json; save it with a fast tokenizer")
    return model, tokenizer.backend_tokenizer, trained_on


def write_folder(
    target: Path, model: Any, tokenizer: tokenizers.Tokenizer, max_length: int, trained_on: Hashes
) -> None:
    """Write a folder that `open_folder` reads to the same bits; it is there whole or not at all."""
    if target.exists():
        raise FileExistsError(f"{target} exists already; choose another name, or delete it")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as made:
        whole = Path(made) / "encoder"
        with _no_progress_bar():
            model.save_pretrained(whole)
        tokenizer.save(str(whole / "tokenizer.json"))
        # The class that takes tokenizer.json as it is.
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_length}
        (whole / "tokenizer_config.json").write_text(json.dumps(settings))
        if trained_on.size:
            np.save(whole / _TRAINED_ON, trained_on)
        whole.rename(target)


def _read_trained_on(folder: Path) -> Hashes:
    record = folder / _TRAINED_ON
    if not record.exists():
        return NO_TEXTS
    hashes = np.load(record, allow_pickle=False)
    if hashes.dtype != np.uint64 or hashes.ndim != 1:
        raise ValueError(f"{record} does not hold hashes of texts")
    return np.asarray(hashes)


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Only the command line prints."""
    shown = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers.utils.logging.enable_progress_bar()
