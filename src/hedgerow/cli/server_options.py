"""Options of what listens on a port: where, and who may ask."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Host = Annotated[
    str, typer.Option(help="The address to listen on. One that other machines can reach needs a token.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Ask every client for the token in this file. Default: the variable HEDGEROW_TOKEN.",
    ),
]
