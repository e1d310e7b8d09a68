"""Files that appear complete and on disk, or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_PIECE = 1 << 22
# What file systems without hard links say (FAT, some network shares).
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}


def check_target(path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Raise the OSError now that saving to `path` would raise later, so that no long computation is lost."""
    name = os.fspath(path)
    target = os.path.realpath(name)
    folder = os.path.dirname(target)
    if not os.path.exists(folder):
        raise FileNotFoundError(
            f"the folder {folder} does not exist; create it, or save elsewhere than {name}"
        )
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"{folder} is a file, not a folder; save elsewhere than {name}")
    if os.path.isdir(target):
        raise IsADirectoryError(f"{name} is a folder; name a file in it")
    if os.path.lexists(target):
        if not os.path.isfile(target):
            raise FileExistsError(f"{name} is not a regular file and cannot be replaced; choose another name")
        if not overwrite:
            raise FileExistsError(
                f"{name} exists already; choose another name, or replace it with overwrite=True"
                " (--overwrite on the command line)"
            )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"no permission to write into the folder {folder}; save elsewhere than {name}")


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[BinaryIO]:
    """Write a file that appears under its name complete and on disk, or not at all.

    The bytes go to a temporary file in the same folder. When the block ends well, it is synchronized and
    takes the name; when the block raises (a full disk, Ctrl-C), it is removed and an older file stays as is.
    A crash can at worst leave a file named ``.<name>.<random>.tmp``.

    Of a symbolic link the target is written. Without `overwrite`, a file that appears under the name while
    the block runs is safe, too.
    """
    check_target(path, overwrite)
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{_short(name)}.{secrets.token_hex(8)}.tmp")
    old = _mode(target)
    file: BinaryIO | None = None
    try:
        # For a new file the umask decides. What replaces one that others may not read is never theirs either.
        opener = None if old is None else _open_privately
        file = open(temporary, "x+b", opener=opener)  # noqa: SIM115
        yield file
        file.flush()
        mode = _mode(target, old)
        if mode is not None:
            os.chmod(temporary, mode)
        os.fsync(file.fileno())
        file.close()
        _take_name(temporary, target, overwrite)
    except BaseException:
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(folder)


def give_name(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Let a file also be what `target` names, at once and on disk; what had that name loses it.

    That is a hard link, and a copy where the file system has none.
    """
    folder, name = os.path.split(os.path.realpath(target))
    temporary = os.path.join(folder, f".{_short(name)}.{secrets.token_hex(8)}.tmp")
    try:
        os.link(source, temporary)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        copy_whole(source, target)
        return
    os.replace(temporary, target)
    # Where both were names of one file already, renaming does nothing.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)
    sync_folder(folder)


def move_over(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Let a file take another name in its folder, at once and on disk, from whatever had it."""
    os.replace(source, target)
    sync_folder(os.path.dirname(os.path.realpath(target)))


def copy_whole(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy a file; the copy appears complete and on disk, or not at all."""
    with open(source, "rb") as old, atomic_file(target, overwrite=True) as new:
        shutil.copyfileobj(old, new, _PIECE)


def _mode(path: str, missing: int | None = None) -> int | None:
    """Who may do what with a file."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return missing


def _open_privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _take_name(temporary: str, target: str, overwrite: bool) -> None:
    """Rename, and without `overwrite` do it by a hard link, which fails where the name is taken."""
    if not overwrite:
        try:
            os.link(temporary, target)
        except FileExistsError:
            raise FileExistsError(
                f"{target} appeared while it was being written; choose another name"
            ) from None
        except OSError as error:
            # Without links, there is a tiny race.
            if error.errno not in _NO_LINKS:
                raise
            check_target(target)
        else:
            os.unlink(temporary)
            return
    os.replace(temporary, target)


def sync_folder(folder: str) -> None:
    """Put on disk which names a folder has."""
    if os.name == "nt":  # Windows cannot open folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.EOPNOTSUPP}:
            raise
    finally:
        os.close(descriptor)


def refuse_link(path: Path) -> Path:
    """Take the path of a file in a folder where nothing of ours makes links: writing goes where one leads."""
    if path.is_symlink():
        raise ValueError(f"{path} is a symbolic link; delete it, or choose another folder")
    return path


def file_number(path: str | os.PathLike[str]) -> int | None:
    """What tells a file from the one that takes its name later; None where there is none."""
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return None


def leftovers(path: str | os.PathLike[str]) -> list[str]:
    """What crashes left of earlier attempts to write a file."""
    folder, name = os.path.split(os.path.realpath(path))
    return glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(_short(name))}.{'?' * 16}.tmp"))


def _short(name: str) -> str:
    """Cut in bytes, because that is how file systems limit names."""
    return os.fsdecode(os.fsencode(name)[:100])
