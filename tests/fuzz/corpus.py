"""The inputs that reach all that was ever reached, packed, and those that once broke something, as is."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

HERE = Path(__file__).parent
NATIVE = ("xmc_text", "sparse_rows", "model_structure")
PYTHON = ("jsonl", "model_file", "records")
TARGETS = (*NATIVE, *PYTHON)


def findings(target: str) -> dict[str, bytes]:
    """Inputs that broke something, by what they broke."""
    paths = sorted((HERE / "findings" / target).glob("*"))
    return {path.name: path.read_bytes() for path in paths}


def inputs(target: str) -> dict[str, bytes]:
    """All inputs of a target, by name."""
    found = {}
    with tarfile.open(HERE / "corpus" / f"{target}.tar.xz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                found[member.name] = content.read()
    return found | findings(target)


def pack(target: str, folder: Path) -> None:
    """Put the inputs of a folder into the place of those that were there; the same inputs, the same file."""
    contents = {path.read_bytes() for path in folder.iterdir()} - set(findings(target).values())
    (HERE / "corpus").mkdir(exist_ok=True)
    with tarfile.open(HERE / "corpus" / f"{target}.tar.xz", "w:xz", preset=9) as archive:
        # By size, so that what is alike lies together.
        for content in sorted(contents, key=lambda content: (len(content), content)):
            member = tarfile.TarInfo(hashlib.sha1(content).hexdigest())
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def unpack(target: str, folder: Path) -> None:
    """Write all inputs of a target into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in inputs(target).items():
        (folder / name).write_bytes(content)
