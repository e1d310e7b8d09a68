import gzip
import lzma
import os
import pickle
import threading

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedgerow.data import DataError, lines
from hedgerow.data.compressed import packed_file

PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


@given(
    content=st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b"bc", b"\xc3\xa9"])).map(b"".join),
    block=st.integers(1, 9),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_when_joined_are_the_file_and_each_ends_a_line(tmp_path, content, block):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        blocks = list(lines.read_blocks(path))
        numbered = list(lines.read_lines(path))
    assert b"".join(blocks) == content
    assert all(piece.endswith(b"\n") for piece in blocks[:-1])
    expected = content.decode().replace("\r\n", "\n").split("\n")
    if expected[-1] == "":
        expected.pop()
    assert numbered == list(enumerate(expected, 1))


@pytest.mark.parametrize("ending", PACK)
def test_packed_file_reads_back_and_its_bytes_do_not_depend_on_the_time(tmp_path, ending):
    for name in ("a", "b"):
        with packed_file(tmp_path / f"{name}.txt{ending}") as file:
            file.write(b"one\n")
            file.write(b"two\n" * 1000)
    path = tmp_path / f"a.txt{ending}"
    assert path.read_bytes() == (tmp_path / f"b.txt{ending}").read_bytes()
    assert b"".join(lines.read_blocks(path)) == b"one\n" + b"two\n" * 1000


@pytest.mark.parametrize("ending", PACK)
def test_several_packed_streams_in_a_row_read_as_one(tmp_path, ending):
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(PACK[ending](b"one\n") + PACK[ending](b"two\n"))
    assert b"".join(lines.read_blocks(path)) == b"one\ntwo\n"


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
@pytest.mark.parametrize("damage", ["cut", "junk"])
def test_damaged_packed_file_is_an_error_not_a_short_file(tmp_path, ending, damage):
    path = tmp_path / f"a.txt{ending}"
    whole = PACK[ending](b"".join(b"%d\n" % (i * 7919 % 10007) for i in range(3000)))
    path.write_bytes(whole[: len(whole) * 2 // 3] if damage == "cut" else b"no packed file")
    with pytest.raises(DataError, match=r"a\.txt\.\w+:\d+: is damaged or cut off"):
        list(lines.read_blocks(path))


@pytest.mark.parametrize("ending", PACK)
def test_line_when_longer_than_the_limit_is_an_error(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(PACK[ending](b"one\n" * 50 + b"x" * 900 + b"\n" + b"y" * 5000))
    with pytest.raises(DataError, match=r":52: the line is longer than 1000 bytes"):
        list(lines.read_blocks(path))


def test_bytes_that_are_not_utf8_name_the_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("gut\nschön\n".encode() + "schön\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.txt:3: is not UTF-8: byte b'\\xf6' at column 4"):
        list(lines.read_lines(path))


def test_pipe_when_read_with_progress_gives_its_lines(tmp_path):
    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"yew\nelm\n",), daemon=True)
    writer.start()
    shares = []
    assert list(lines.read_lines(path, progress=shares.append)) == [(1, "yew"), (2, "elm")]
    writer.join()
    assert shares == []


def test_missing_file_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match="No such file"):
        list(lines.read_blocks(tmp_path / "a.txt"))


def test_error_when_pickled_says_the_same():
    error = DataError("a.txt", "wrong", 7)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.line, again.path) == ("a.txt:7: wrong", 7, "a.txt")
