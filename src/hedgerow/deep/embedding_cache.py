"""Embeddings on disk, found by what they were made from: a stale one is never used."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from hedgerow.deep.encoder import DropoutPass, Encoder
from hedgerow.inputs.training_record import add_strings
from hedgerow.progress import Stage
from hedgerow.storage.atomic_file import atomic_file

PRECISIONS = ("float32", "float16")


class EmbeddingCache:
    """A folder of ``.npy`` files, one for each list of texts and encoder, named by a hash of both.

    What comes back has the `precision` of the files, whether it was stored before or just now. The folder is
    made when the first file is written.
    """

    def __init__(self, folder: str | os.PathLike[str], precision: str = "float32") -> None:
        if precision not in PRECISIONS:
            raise ValueError(f"precision is {precision!r}; use one of {', '.join(PRECISIONS)}")
        self.folder = Path(folder)
        self.precision = precision

    def path(self, encoder: Encoder, texts: Sequence[str], dropout: DropoutPass | None = None) -> Path:
        """The file of these texts by this encoder, whether it exists or not."""
        digest = xxhash.xxh3_128(repr((encoder.fingerprint(), self.precision, dropout)).encode())
        add_strings(digest, texts)
        return self.folder / f"embeddings-{digest.hexdigest()}.npy"

    def read(
        self, encoder: Encoder, texts: Sequence[str], dropout: DropoutPass | None = None
    ) -> npt.NDArray[Any] | None:
        """The embeddings as a read-only memory map, or None if they are not there."""
        return self._read(self.path(encoder, texts, dropout), (len(texts), encoder.width))

    def embed(
        self,
        encoder: Encoder,
        texts: Sequence[str],
        *,
        dropout: DropoutPass | None = None,
        threads: int = 0,
        progress: Stage | None = None,
    ) -> npt.NDArray[Any]:
        """The embeddings, from the folder if they are there; if not, they are made and stored."""
        path, shape = self.path(encoder, texts, dropout), (len(texts), encoder.width)
        found = self._read(path, shape)
        if found is not None:
            return found
        return self._store(path, encoder.embed(texts, dropout=dropout, threads=threads, progress=progress))

    def embed_together(
        self, encoder: Encoder, texts: Sequence[str], *, threads: int = 0, progress: Stage | None = None
    ) -> npt.NDArray[Any]:
        """The same by `Encoder.embed_together`, in files of their own, as bits may differ."""
        path = self.path(encoder, texts)
        path = path.with_name(f"together-{path.name}")
        found = self._read(path, (len(texts), encoder.width))
        if found is not None:
            return found
        return self._store(path, encoder.embed_together(texts, threads=threads, progress=progress))

    def _store(self, path: Path, made: npt.NDArray[Any]) -> npt.NDArray[Any]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(path, overwrite=True) as file:
            np.save(file, made.astype(self.precision), allow_pickle=False)
        stored = self._read(path, made.shape)
        return made.astype(self.precision) if stored is None else stored

    def _read(self, path: Path, shape: tuple[int, ...]) -> npt.NDArray[Any] | None:
        if not path.exists():
            return None
        try:
            found = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path} is not a NumPy array ({error}); delete it") from error
        if found.shape != shape or found.dtype != np.dtype(self.precision):
            raise ValueError(
                f"{path} holds {found.dtype} of shape {found.shape} instead of {self.precision} of {shape};"
                " delete it"
            )
        return np.asarray(found)
