"""A file with the state of fine-tuning, so that a fit that was stopped goes on and ends the same."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.deep.encoder import Encoder
from hedgerow.deep.levels import Level
from hedgerow.storage.atomic_file import refuse_link
from hedgerow.storage.container import Malformed, read_model, write_model

Sections = dict[str, npt.NDArray[Any]]


def encoder_sections(encoder: Encoder) -> Sections:
    """The weights of the encoder, as `TuningState.load_encoder` takes them back."""
    return {f"encoder/{name}": of for name, of in encoder.weights().items()}


def level_sections(level: Level) -> Sections:
    """The candidates of a level, as `TuningState.level_at` takes them back."""
    candidates = level.candidates
    return {
        "candidates/indptr": candidates.indptr.astype(np.int64),
        "candidates/indices": candidates.indices.astype(np.int32),
        "candidates/data": candidates.data.astype(np.int8),
    }


@dataclass(frozen=True, eq=False)
class TuningState:
    """Fine-tuning as it was before a step of a level, both counted from 0, or `done`."""

    level: int
    step: int
    done: bool
    sections: Sections

    def load_encoder(self, encoder: Encoder) -> None:
        """Give an encoder the weights that it had."""
        prefix = "encoder/"
        own = {n[len(prefix) :]: a for n, a in self.sections.items() if n.startswith(prefix)}
        try:
            encoder.load_weights(own)
        except RuntimeError as error:
            raise Malformed(f"the state of fine-tuning does not fit the encoder: {error}") from error

    def level_at(self, layer: int) -> Level:
        """The level with the candidates and classifiers that it had."""
        names = ("data", "indices", "indptr")
        try:
            parts = tuple(np.array(self.sections[f"candidates/{name}"]) for name in names)
            weights = np.array(self.sections["nodes/weights"])
            return Level(layer, sp.csr_array(parts, shape=(len(parts[2]) - 1, len(weights))), weights)
        except (KeyError, ValueError) as error:
            raise Malformed(f"the state of fine-tuning is incomplete: {error}") from error


class EncoderCheckpoint:
    """The file of one fit; `fingerprint` is that of its data and settings, and that of another is refused."""

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.path = Path(path)
        self.fingerprint = fingerprint

    def read(self) -> TuningState | None:
        """The state, or None if there is no file."""
        if not refuse_link(self.path).exists():
            return None
        file = read_model(self.path)
        header = file.header
        if header.get("kind") != "fine-tuning" or header.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"{self.path} is the state of another fit, with other data or settings; delete it, or choose"
                " another folder"
            )
        return TuningState(int(header["level"]), int(header["step"]), bool(header["done"]), file.sections)

    def write(self, state: TuningState) -> None:
        """Replace the state."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        header: dict[str, Any] = {"kind": "fine-tuning", "fingerprint": self.fingerprint}
        header |= {"level": state.level, "step": state.step, "done": state.done}
        write_model(refuse_link(self.path), state.sections, header, overwrite=True)
