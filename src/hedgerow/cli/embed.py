"""``hedgerow embed``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from .failures import ExitCode, Failure, failing_as
from .options import AsJson, Pooling, Precision, TextFields, Threads, Verbose, parse_field
from .terminal import print_json, say, show_progress

if TYPE_CHECKING:
    from hedgerow.deep.encoder import Encoder


def embed(
    encoder: Annotated[
        str,
        typer.Argument(
            help="A folder with an encoder, its name on the hub, or a model file.", metavar="ENCODER_OR_MODEL"
        ),
    ],
    data: Annotated[Path, typer.Argument(help="A file, or a data folder.", metavar="DATA")],
    out: Annotated[Path, typer.Option(help="The folder for embeddings.", metavar="FOLDER")],
    text_field: TextFields,
    part: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Read this part: train, test, or any other value of the field 'split' of JSON records."
            " Default: train of a folder, all of a file.",
        ),
    ] = None,
    precision: Annotated[
        Precision, typer.Option(help="float16 takes half the space; fit uses float32.")
    ] = Precision.float32,
    max_length: Annotated[
        int, typer.Option(min=3, help="Tokens of a text that are read; a model file has its own.")
    ] = 128,
    pooling: Annotated[
        Pooling, typer.Option(help="Mean of the tokens, or the first one; a model file has its own.")
    ] = Pooling.mean,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu, cuda or cuda:1.")] = "auto",
    threads: Threads = 0,
    json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Embed the texts of DATA with a transformer and keep the result.

    FOLDER gets one .npy file per encoder and list of texts. Its name is a hash of both: with --cache FOLDER,
    `hedgerow fit` uses what is there, and never what belongs to other texts or another encoder.

    \b
    Examples:
      hedgerow embed MiniLM/ records.jsonl.xz --out embeddings/
      hedgerow embed deep.hedgerow new.jsonl --out embeddings/ --precision float16
    """  # noqa: D301
    from hedgerow.deep.extra import check_device

    with failing_as(ExitCode.USAGE, ValueError, ImportError):
        check_device(device)
    from hedgerow.deep.embedding_cache import EmbeddingCache

    if out.exists() and not out.is_dir():
        raise Failure(ExitCode.WRITE, f"{out} is a file; name a folder with --out")
    from .inputs import Selection, sources

    encoders, fields = _open_encoders(encoder, max_length, pooling)
    if text_field:
        fields = sources(dict(map(parse_field, text_field)))
    cache = EmbeddingCache(out, precision.value)
    with show_progress(verbose) as report:
        rows = Selection(data, part, threads=threads, text_fields=fields).read(report, "train")
        texts = rows.whole_texts
        if texts is None or not rows.n:
            raise Failure(ExitCode.DATA, f"{data} has no texts to embed")
        found: list[dict[str, Any]] = []
        for one in encoders:
            start = time.perf_counter()
            one.to(device)
            there = cache.read(one, texts) is not None
            with failing_as(ExitCode.WRITE, ValueError):
                vectors = cache.embed(
                    one, texts, threads=threads, progress=lambda share: report(share, "embedding")
                )
            path = cache.path(one, texts)
            found.append(
                {
                    "file": str(path),
                    "rows": len(vectors),
                    "width": int(vectors.shape[1]),
                    "precision": precision.value,
                    "bytes": path.stat().st_size,
                    "new": not there,
                    "seconds": round(time.perf_counter() - start, 3),
                }
            )
    if json:
        print_json({"embeddings": found})
        return
    for about in found:
        when = f"in {about['seconds']:.1f} s" if about["new"] else "which were there already"
        say(
            f"Saved {about['file']} ({decimal(about['bytes'])}): {about['rows']:,} embeddings of"
            f" {about['width']} numbers, {when}."
        )


def _open_encoders(
    name: str, max_length: int, pooling: Pooling
) -> tuple[list[Encoder], tuple[str, ...] | None]:
    """The encoders, and the texts of records that a model reads."""
    from hedgerow import HedgerowTransformerClassifier
    from hedgerow.deep.encoder import Encoder

    from .inputs import open_model

    if not os.path.isfile(name):
        with failing_as(ExitCode.USAGE, ValueError):
            return [Encoder.open(name, pooling.value, max_length)], None
    model = open_model(Path(name)).classifier
    if not isinstance(model, HedgerowTransformerClassifier):
        raise Failure(
            ExitCode.MODEL,
            f"{name} has no encoder; name a model trained with --base transformer, or an encoder",
        )
    return model.encoders_, model.source.reader.text_fields
