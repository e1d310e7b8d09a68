"""``hedgerow embed``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from hedgerow.data import DataError, read_part
from hedgerow.deep.extra import load_torch
from hedgerow.estimators.loading import load
from hedgerow.estimators.transformer import HedgerowTransformerClassifier
from hedgerow.storage.container import ModelFileError

from .failures import ExitCode, Failure, failing_as
from .inputs import check_part
from .terminal import cell, human_bytes, print_json, progress_bar

if TYPE_CHECKING:
    from hedgerow.deep.encoder import Encoder


def run_embed(
    name: str,
    data: Path,
    out: Path,
    part_name: str | None,
    precision: str,
    max_length: int,
    pooling: str,
    device: str,
    threads: int,
    as_json: bool,
) -> None:
    """Open the encoders, read, embed and tell where the files are."""
    with failing_as(ExitCode.USAGE, ValueError, ImportError):
        load_torch()
        from hedgerow.deep.device import choose_device
        from hedgerow.deep.embedding_cache import EmbeddingCache

        choose_device(device)
    if out.exists() and not out.is_dir():
        raise Failure(ExitCode.WRITE, f"{out} is a file; name a folder with --out")
    encoders = _encoders(name, max_length, pooling)
    cache = EmbeddingCache(out, precision)
    found: list[dict[str, Any]] = []
    with progress_bar() as report:
        with failing_as(ExitCode.DATA, DataError):
            part = read_part(
                data,
                part_name or ("train" if data.is_dir() else None),
                labels_field=None,
                threads=threads,
                progress=lambda share: report(share, "reading"),
            )
        if part.texts is None or not part.n:
            raise Failure(ExitCode.DATA, f"{data} has no texts to embed")
        check_part(data, part, part_name)
        texts = list(part.texts)
        for encoder in encoders:
            start = time.perf_counter()
            encoder.to(device)
            there = cache.read(encoder, texts) is not None
            with failing_as(ExitCode.WRITE, ValueError):
                vectors = cache.embed(
                    encoder, texts, threads=threads, progress=lambda share: report(share, "embedding")
                )
            path = cache.path(encoder, texts)
            found.append(
                {
                    "file": str(path),
                    "rows": len(vectors),
                    "width": int(vectors.shape[1]),
                    "precision": precision,
                    "bytes": path.stat().st_size,
                    "new": not there,
                    "seconds": round(time.perf_counter() - start, 3),
                }
            )
    if as_json:
        print_json({"embeddings": found})
        return
    console = Console(soft_wrap=True, highlight=False)
    for one in found:
        told = f"in {one['seconds']:.1f} s" if one["new"] else "which were there already"
        console.print(
            cell(
                f"Saved {one['file']} ({human_bytes(one['bytes'])}): {one['rows']:,} embeddings of"
                f" {one['width']} numbers, {told}."
            )
        )


def _encoders(name: str, max_length: int, pooling: str) -> list[Encoder]:
    from hedgerow.deep.encoder import Encoder

    if not os.path.isfile(name):
        with failing_as(ExitCode.USAGE, ValueError):
            return [Encoder.open(name, pooling, max_length)]
    with failing_as(ExitCode.MODEL, ModelFileError):
        model = load(name)
    if not isinstance(model, HedgerowTransformerClassifier):
        raise Failure(
            ExitCode.MODEL,
            f"{name} has no encoder; name a model fitted with --base transformer, or an encoder",
        )
    return model.encoders_
