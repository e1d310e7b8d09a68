"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from hedgerow.storage.atomic_file import atomic_file, check_target


def write(path: str | Path, content: bytes, overwrite: bool = False) -> None:
    with atomic_file(path, overwrite) as file:
        file.write(content)


def test_file_when_the_block_ends_has_the_new_bytes_and_no_other_file_remains(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")
    with atomic_file(path, overwrite=True) as file:
        file.write(b"new....")
        file.seek(1)
        assert file.read(2) == b"ew"
        file.seek(3)
        file.truncate()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_file_when_the_block_raises_is_untouched(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")

    def fail(target: Path) -> None:
        with atomic_file(target, overwrite=True) as file:
            file.write(b"half")
            raise error

    for target in (path, tmp_path / "other"):
        with pytest.raises(error):
            fail(target)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_existing_file_when_not_to_be_overwritten_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError, match=r"model exists already.*overwrite=True"):
        write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "model"

    def save() -> None:
        with atomic_file(path) as file:
            file.write(b"ours")
            path.write_bytes(b"theirs")

    with pytest.raises(FileExistsError, match="appeared"):
        save()
    assert path.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [path]


def test_file_where_there_are_no_hard_links_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: Any) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", unsupported)
    write(tmp_path / "model", b"new")
    assert os.listdir(tmp_path) == ["model"]


def test_permissions_follow_the_umask_or_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "new"
    old = os.umask(0o027)
    try:
        write(path, b"")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write(path, b"", overwrite=True)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(old)


def test_file_that_only_its_owner_may_read_is_not_open_to_others_while_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.write_bytes(b"old")
    path.chmod(0o600)
    old = os.umask(0)
    try:
        with atomic_file(path, overwrite=True) as file:
            file.write(b"new")
            modes = [stat.S_IMODE(found.stat().st_mode) for found in tmp_path.iterdir()]
    finally:
        os.umask(old)
    assert modes == [0o600, 0o600]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("kept", [True, False])
def test_permissions_are_the_last_that_the_old_file_had(tmp_path: Path, kept: bool) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with atomic_file(path, overwrite=True) as file:
        file.write(b"new")
        if kept:
            path.chmod(0o604)
        else:
            path.unlink()
    assert stat.S_IMODE(path.stat().st_mode) == (0o604 if kept else 0o640)


def test_symbolic_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "target")
    write(tmp_path / "link", b"new", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "target").read_bytes() == b"new"


def test_relative_path_is_written_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("model", b"new")
    assert (tmp_path / "model").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["x" * 255, "\N{HERB}" * 63])
def test_name_as_long_as_the_file_system_allows_is_written(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, b"new")
    assert os.listdir(tmp_path) == [name]


def test_target_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere does not exist"):
        write(tmp_path / "nowhere" / "model", b"")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write(tmp_path, b"", overwrite=True)
    with pytest.raises(NotADirectoryError, match="is a file, not a folder"):
        write(tmp_path / "file" / "model", b"")
    with pytest.raises(FileExistsError, match="not a regular file"):
        check_target("/dev/null", overwrite=True)
