import os
import stat

import pytest

from hedgerow.data import atomic_file


def test_file_when_the_block_ends_has_the_new_bytes_and_no_other_file_remains(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    with atomic_file(path) as file:
        file.write(b"new....")
        file.seek(3)
        file.truncate()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_file_when_the_block_raises_is_untouched(tmp_path, error):
    path = tmp_path / "model"
    path.write_bytes(b"old")

    def fail(target):
        with atomic_file(target) as file:
            file.write(b"half")
            raise error

    for target in (path, tmp_path / "other"):
        with pytest.raises(error):
            fail(target)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_follow_the_umask_or_the_old_file(tmp_path):
    old = os.umask(0o027)
    try:
        with atomic_file(tmp_path / "new"):
            pass
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    with atomic_file(tmp_path / "new"):
        pass
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_symbolic_link_stays_a_link(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "target")
    with atomic_file(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "target").read_bytes() == b"new"


def test_folder_when_missing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "no" / "model"):
        pass
