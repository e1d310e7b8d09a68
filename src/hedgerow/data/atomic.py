from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from io import BufferedRandom
from os import PathLike
from pathlib import Path


@contextlib.contextmanager
def atomic_file(path: str | PathLike[str]) -> Iterator[BufferedRandom]:
    """Write a file so that others see all of it or nothing.

    The bytes go to a temporary file in the same folder. When the block ends they are forced to the disk and
    the file takes its name, in one step; when the block raises, the temporary file is removed and what had
    that name before stays as it was. A crash can at worst leave a file named ``.<name>.<random>.tmp``.

    Parameters
    ----------
    path : path-like
        The file to create or replace. A symbolic link is followed. Its folder must exist.

    Yields
    ------
    BufferedRandom
        A binary file, open for writing, reading and seeking.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "model.bin")
    >>> with atomic_file(path) as file:
    ...     _ = file.write(b"whole")
    >>> path.read_bytes()
    b'whole'
    >>> folder.cleanup()
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    # Not tempfile: its files are readable by their owner only, and the rename would keep that.
    file = open(temporary, "x+b")  # noqa: SIM115
    try:
        with file:
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, target.stat().st_mode & 0o7777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Force the folder's new entry to the disk, where the system can do that."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems refuse to sync a folder; the file itself is safe by then.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
