"""The model file: a safetensors container in which every bit is accounted for.

The file is read by any safetensors library::

    8 bytes    length N of the JSON, little endian
    N bytes    JSON: dtype, shape and place of each section; ``__metadata__`` names the format and carries
               the model's own header as a JSON string; spaces at its end align the data
    data       the sections by name, each starting at a multiple of 64 bytes, with ``padding.I`` sections of
               zeros between them (safetensors allows no gaps) and behind them where the JSON would be long
               beside its data, and the section ``checksums`` last

``checksums`` holds one XXH3-128 digest (16 bytes) for the length and the JSON, one for each other section in
file order (paddings too), and one for all the digests before it. So there is no byte that could change
unnoticed. This guards against accidents, not against an attacker, who can compute checksums as well. So
whatever is read is checked against the size of the file before use, and nothing in a file is ever executed.

Sections come back as read-only views of one memory map. Processes that load the same file share one copy.
"""

from .container_format import (
    ALIGNMENT,
    CHECKSUMS,
    DIGEST_BYTES,
    FORMAT_VERSION,
    METADATA,
    PADDING,
    Altered,
    Chunked,
    ExtraMissing,
    Malformed,
    ModelFile,
    ModelFileError,
    NotAModel,
    TooNew,
    Truncated,
)
from .container_reader import read_model
from .container_writer import write_model

__all__ = [
    "ALIGNMENT",
    "CHECKSUMS",
    "DIGEST_BYTES",
    "FORMAT_VERSION",
    "METADATA",
    "PADDING",
    "Altered",
    "Chunked",
    "ExtraMissing",
    "Malformed",
    "ModelFile",
    "ModelFileError",
    "NotAModel",
    "TooNew",
    "Truncated",
    "read_model",
    "write_model",
]
