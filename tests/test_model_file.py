"""The model file: round trips, damage, crafted files, and saves that fail half-way."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from xxhash import xxh3_128

from hedgerow.storage import atomic_file, container
from hedgerow.storage.container import (
    Altered,
    Chunked,
    Malformed,
    ModelFileError,
    NotAModel,
    TooNew,
    Truncated,
    read_model,
    write_model,
)

DTYPES = ["?", "u1", "i1", "u2", "i2", "f2", "u4", "i4", "f4", "u8", "i8", "f8", ">f4", ">i8"]
SMALL = {
    "weights": np.arange(6, dtype=np.float16).reshape(2, 3),
    "index": np.array([3, 1, 2], dtype=np.int64),
    "flags": np.array([True, False]),
    "nothing": np.zeros((0, 4), np.float32),
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.hedgerow"
    write_model(path, SMALL, {"method": "single", "labels": 3})
    return path


arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9))
)
names = st.from_regex(r"[a-z_][a-z0-9_./-]{0,12}", fullmatch=True).filter(
    lambda name: name != "checksums" and not name.startswith("padding.")
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


# --- round trips ---


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    sections=st.dictionaries(names, arrays, max_size=5),
    header=st.dictionaries(st.text(), json_values, max_size=3),
)
def test_round_trip_gives_back_every_section_and_the_header(
    tmp_path: Path, sections: dict[str, np.ndarray], header: dict[str, Any]
) -> None:
    path = tmp_path / "model"
    write_model(path, sections, header, overwrite=True)
    for verify in (True, False):
        model = read_model(path, verify=verify)
        assert model.header == header
        assert list(model.sections) == sorted(sections)
        for name, section in sections.items():
            found = model.sections[name]
            assert found.dtype == section.dtype.newbyteorder("<")
            assert found.shape == section.shape
            assert found.tobytes() == section.astype(found.dtype).tobytes()
            assert not found.flags.writeable
            assert found.ctypes.data % 64 == 0 or found.size == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(sections=st.dictionaries(names, arrays, max_size=5))
def test_safetensors_library_reads_what_we_write(tmp_path: Path, sections: dict[str, np.ndarray]) -> None:
    safetensors = pytest.importorskip("safetensors")
    path = tmp_path / "model"
    write_model(path, sections, {"method": "single"}, overwrite=True)
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata()["format"] == "hedgerow"
        assert json.loads(file.metadata()["header"]) == {"method": "single"}
        for name, section in sections.items():
            np.testing.assert_array_equal(file.get_tensor(name), section)


def test_read_arrays_share_one_read_only_map(small: Path) -> None:
    sections = read_model(small).sections
    start = sections["flags"].ctypes.data
    for name, offset in (("index", 64), ("weights", 128)):  # by name, 64 bytes each
        assert sections[name].ctypes.data == start + offset
    with pytest.raises(ValueError, match="read-only"):
        sections["weights"][0, 0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        sections["weights"].flags.writeable = True


def test_arrays_outlive_the_model_and_the_file(small: Path) -> None:
    weights = read_model(small).sections["weights"]
    small.unlink()
    np.testing.assert_array_equal(weights, SMALL["weights"])


def test_same_sections_in_another_order_give_the_same_bytes(small: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_model(other, dict(reversed(SMALL.items())), {"labels": 3, "method": "single"})
    assert other.read_bytes() == small.read_bytes()


def test_chunks_give_the_same_bytes_as_the_whole_array(tmp_path: Path) -> None:
    array = np.arange(35, dtype=np.int32).reshape(7, 5)
    chunks = (array[start : start + 3] for start in range(0, 7, 3))
    write_model(tmp_path / "whole", {"a": array}, {})
    write_model(tmp_path / "chunks", {"a": Chunked(np.int32, (7, 5), chunks)}, {})
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "chunks").read_bytes()


def test_strided_arrays_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "WRITE_BYTES", 64)
    array = np.arange(3 * 50 * 7, dtype=np.float64).reshape(3, 50, 7)
    views = {"f": array.T, "step": array[:, ::3], "back": array[::-1, ::-1], "empty": array[:, :0]}
    write_model(tmp_path / "model", views, {})
    for name, section in read_model(tmp_path / "model").sections.items():
        np.testing.assert_array_equal(section, views[name])


def test_threads_find_the_altered_section_of_a_big_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "PARALLEL_BYTES", 1)
    path = tmp_path / "model"
    write_model(path, {name: np.full(1000, ord(name), np.uint8) for name in "abcdef"}, {})
    read_model(path)
    path.write_bytes(path.read_bytes().replace(b"eee", b"eef", 1))
    with pytest.raises(Altered, match="section 'e'"):
        read_model(path)
    read_model(path, verify=False)


# --- damage ---


def test_every_single_bit_flip_is_rejected(small: Path) -> None:
    whole = small.read_bytes()
    for position in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[position] ^= 1 << bit
            small.write_bytes(changed)
            with pytest.raises(ModelFileError, match=r"small\.hedgerow"):
                read_model(small)


def test_every_truncation_is_rejected_even_without_checksums(small: Path) -> None:
    whole = small.read_bytes()
    front = 8 + int.from_bytes(whole[:8], "little")
    for length in range(len(whole)):
        small.write_bytes(whole[:length])
        with pytest.raises(NotAModel if length == 0 else ModelFileError) as caught:
            read_model(small, verify=False)
        if length > 8:
            assert isinstance(caught.value, Truncated), (length, front)


def test_bytes_after_the_end_are_rejected(small: Path) -> None:
    small.write_bytes(small.read_bytes() + b"\0")
    with pytest.raises(Malformed, match="1 bytes follow"):
        read_model(small, verify=False)


# --- foreign files ---


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"", "is empty"),
        (pickle.dumps({"a": 1}), "pickle"),
        (b"\x1f\x8b" + b"0" * 30, "compressed"),
        (b"\xfd7zXZ\x00" + b"0" * 30, "compressed"),
        (b'{"labels": ["a"]}\n', "text file"),
        (b"hello world, I am a text", "not a hedgerow model"),
        (b"\x7fELF" + bytes(60), "not a hedgerow model"),
    ],
)
def test_foreign_file_is_named_for_what_it_is(tmp_path: Path, content: bytes, hint: str) -> None:
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(NotAModel, match=hint) as caught:
        read_model(path)
    assert str(path) in str(caught.value)


def test_zip_folder_pipe_and_missing_file_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x", "y")
    with pytest.raises(NotAModel, match="zip"):
        read_model(tmp_path / "a.zip")
    with pytest.raises(NotAModel, match="folder"):
        read_model(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotAModel, match="regular"):
        read_model(tmp_path / "pipe")
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "missing")


def test_file_of_the_safetensors_library_is_not_a_model(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    numpy.save_file({"a": np.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(NotAModel, match="a safetensors file, but not a hedgerow model"):
        read_model(tmp_path / "other.safetensors")


# --- crafted files: the checksums are right, the rest is not ---


def craft(path: Path, text: str | bytes, data: bytes = b"", count: int = 1) -> Path:
    """Write a file with this JSON, `data` in `count` sections, and honest checksums."""
    text = text.encode() if isinstance(text, str) else text
    text += b" " * (-(8 + len(text)) % 64)
    front = len(text).to_bytes(8, "little") + text
    digests = b"".join(xxh3_128(part).digest() for part in [front, *([data] if count else [])])
    path.write_bytes(front + data + digests + xxh3_128(digests).digest())
    return path


def entry(dtype: Any = "F32", shape: Any = (16,), offsets: Any = (0, 64)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


CHECKSUMS = {"dtype": "U8", "shape": [3, 16], "data_offsets": [64, 112]}
METADATA = {"format": "hedgerow", "version": "1", "writer": "0.1.0", "header": "{}"}


def document(section: Any = None, metadata: Any = METADATA, **more: Any) -> str:
    sections = {"a": entry() if section is None else section, "checksums": CHECKSUMS, **more}
    return json.dumps({"__metadata__": metadata, **sections})


def test_crafting_an_honest_file_succeeds(tmp_path: Path) -> None:
    model = read_model(craft(tmp_path / "m", document(), bytes(64)))
    np.testing.assert_array_equal(model.sections["a"], np.zeros(16, np.float32))


@pytest.mark.parametrize(
    "section",
    [
        entry(dtype="F4"),
        entry(dtype="BF16", shape=[32]),
        entry(dtype=4),
        entry(dtype=["F32"]),
        entry(dtype="O"),
        entry(shape=[15]),
        entry(shape=[-16]),
        entry(shape=[-4, -4]),
        entry(shape=[16.0]),
        entry(shape=[True, 16]),
        entry(shape=16),
        entry(shape="16"),
        entry(shape=[2**64, 2**64]),
        entry(shape=[10**4000]),
        entry(shape=[1] * 40 + [16]),
        entry(shape=[2**62 + 16]),
        entry(offsets=[0, 48]),
        entry(offsets=[64, 0]),
        entry(offsets=[-64, 0]),
        entry(offsets=[16, 80]),
        entry(offsets=[64, 128]),
        entry(offsets=[0, 64, 128]),
        entry(offsets=[2**64, 2**64 + 64]),
        entry(offsets=[0.0, 64.0]),
        entry(offsets=None),
        {**entry(), "more": 1},
        {"dtype": "F32"},
        [],
        None,
        7,
    ],
)
def test_impossible_section_is_malformed(tmp_path: Path, section: Any) -> None:
    text = document(section) if section is not None else document(a=None)
    with pytest.raises(Malformed):
        read_model(craft(tmp_path / "m", text, bytes(64)), verify=False)


@pytest.mark.parametrize(
    ("sections", "data"),
    [
        pytest.param({"a": entry(), "b": entry(), "checksums": CHECKSUMS}, 64, id="overlap"),
        pytest.param({"a": entry(), "b": entry(offsets=[48, 112])}, 64, id="partial overlap"),
        pytest.param(
            {"a": entry(offsets=[64, 128]), "checksums": entry("U8", [3, 16], [128, 176])}, 128, id="gap"
        ),
        pytest.param(
            {"a": entry(), "checksums": entry("U8", [4, 16], [64, 128])}, 80, id="too many checksums"
        ),
        pytest.param(
            {"a": entry(), "checksums": entry("I8", [3, 16], [64, 112])}, 64, id="checksums not bytes"
        ),
        pytest.param({"a": entry(), "b": entry("U8", [48], [64, 112])}, 64, id="no checksums"),
        pytest.param({}, 0, id="no sections"),
        pytest.param(
            {"a": entry(), "b": entry(shape=[0, 2**62, 4], offsets=[64, 64]), "checksums": CHECKSUMS},
            64,
            id="empty and huge",
        ),
    ],
)
def test_inconsistent_table_is_malformed(tmp_path: Path, sections: dict[str, Any], data: int) -> None:
    text = json.dumps({"__metadata__": METADATA, **sections})
    with pytest.raises(Malformed):
        read_model(craft(tmp_path / "m", text, bytes(data)), verify=False)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"\xff":1}', id="not UTF-8"),
        pytest.param("{", id="unfinished"),
        pytest.param('{"a":1,"a":2}', id="key twice"),
        pytest.param(document()[:-1] + ', "a": ' + json.dumps(entry()) + "}", id="section twice"),
        pytest.param('{"a":NaN}', id="NaN"),
        pytest.param('{"a":' + "9" * 100_000 + "}", id="long number"),
        pytest.param('{"a":' + "[" * 15_000, id="deep list"),
        pytest.param('{"a":' * 15_000, id="deep object"),
        pytest.param('{"a":' + "[" * 7_500 + "]" * 7_500 + "}", id="deep and closed"),
        pytest.param(document(metadata={**METADATA, "version": "one"}), id="version no number"),
        pytest.param(document(metadata={**METADATA, "version": 1}), id="version no string"),
        pytest.param(document(metadata={**METADATA, "version": "9" * 5000}), id="version huge"),
        pytest.param(document(metadata={**METADATA, "header": "[]"}), id="header no object"),
        pytest.param(document(metadata={**METADATA, "header": "[" * 15_000}), id="header deep"),
        pytest.param(document(metadata={**METADATA, "header": '{"a":1,"a":1}'}), id="header key twice"),
        pytest.param(document(metadata={**METADATA, "header": {}}), id="header no string"),
        pytest.param(document(metadata={"format": "hedgerow", "version": "1"}), id="header missing"),
    ],
)
def test_odd_json_is_malformed(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(Malformed):
        read_model(craft(tmp_path / "m", text, bytes(64)))


def test_length_of_the_header_is_capped(tmp_path: Path) -> None:
    path = tmp_path / "m"
    for length in (2**63, 2**64 - 1, 100_000_001):
        path.write_bytes(length.to_bytes(8, "little") + b"{" + bytes(100))
        with pytest.raises(NotAModel):
            read_model(path)
    path.write_bytes((1000).to_bytes(8, "little") + b"{" + bytes(100))
    with pytest.raises(Truncated, match="1008"):
        read_model(path)


def test_misaligned_section_is_malformed(tmp_path: Path) -> None:
    path = tmp_path / "m"
    craft(path, document(), bytes(64))
    text = path.read_bytes()[8:].split(b"}}")[0] + b"}}"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(112))
    assert len(text) % 64 != 56
    with pytest.raises(Malformed, match="multiple of 64"):
        read_model(path, verify=False)


def test_boolean_other_than_zero_and_one_is_malformed(tmp_path: Path) -> None:
    path = craft(tmp_path / "m", document(entry("BOOL", [64])), b"\2" * 64)
    with pytest.raises(Malformed, match="true and false"):
        read_model(path)


def test_newer_version_asks_for_an_upgrade_whatever_else_it_holds(tmp_path: Path) -> None:
    text = document(entry(dtype="F128"), metadata={**METADATA, "version": "2"})
    with pytest.raises(TooNew, match=r"newer version of hedgerow \(format 2\); upgrade with pip install -U"):
        read_model(craft(tmp_path / "m", text, bytes(64)))


# --- what cannot be stored ---


@pytest.mark.parametrize("name", ["", "checksums", "padding.0", "__metadata__", "a b", "é", ".a", 'a"'])
def test_reserved_and_odd_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a section"):
        write_model(tmp_path / "m", {name: np.zeros(1)}, {})


@pytest.mark.parametrize(
    "array", [np.array([None]), np.array(["a"]), np.zeros(1, "c8"), np.zeros(1, "f4,i4")]
)
def test_other_dtypes_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    with pytest.raises(TypeError, match="dtype"):
        write_model(tmp_path / "m", {"a": array}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "chunks",
    [[np.zeros(3, np.int32)], [np.zeros(3, np.int32)] * 3, [np.zeros(4)], [], [np.zeros(4, np.int64)]],
)
def test_chunks_that_do_not_fit_are_refused(tmp_path: Path, chunks: list[np.ndarray]) -> None:
    with pytest.raises((ValueError, TypeError), match="section 'a'"):
        write_model(tmp_path / "m", {"a": Chunked(np.int32, (4,), chunks)}, {})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("header", [{"a": float("nan")}, {"a": object()}, {"a": {1, 2}}])
def test_header_that_json_cannot_hold_is_refused(tmp_path: Path, header: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        write_model(tmp_path / "m", {}, header)
    assert not list(tmp_path.iterdir())


# --- saving is all or nothing ---


def test_existing_file_is_refused_unless_overwrite(small: Path) -> None:
    before = small.read_bytes()
    with pytest.raises(FileExistsError, match=r"small\.hedgerow exists already.*overwrite=True"):
        write_model(small, {}, {})
    assert small.read_bytes() == before
    write_model(small, {}, {"new": True}, overwrite=True)
    assert read_model(small).header == {"new": True}


WRITES = 8  # the front, three sections that hold something, their paddings, the checksums


class FailingFile:
    """A file whose n-th write finds the disk full, after half of the bytes."""

    def __init__(self, file: Any, when: int) -> None:
        self.file, self.when = file, when

    def write(self, data: Any) -> int:
        self.when -= 1
        if self.when < 0:
            self.file.write(bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@pytest.mark.parametrize("overwrite", [False, True])
def test_failing_write_leaves_the_old_model_and_nothing_else(
    small: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    before = small.read_bytes()
    target = small if overwrite else small.parent / "new"
    for when in range(WRITES + 1):
        monkeypatch.setattr(
            atomic_file,
            "open",
            lambda *args, when=when, **more: FailingFile(open(*args, **more), when),  # noqa: SIM115
            raising=False,
        )
        if when == WRITES:
            write_model(target, SMALL, {"new": True}, overwrite=overwrite)
            break
        with pytest.raises(OSError, match="No space left"):
            write_model(target, SMALL, {"new": True}, overwrite=overwrite)
        assert os.listdir(small.parent) == [small.name]
        assert small.read_bytes() == before
    monkeypatch.undo()
    assert read_model(target).header == {"new": True}


@pytest.mark.parametrize("error", [OSError(errno.EIO, "I/O error"), KeyboardInterrupt()])
@pytest.mark.parametrize(
    ("call", "overwrite"),
    [("fsync", False), ("link", False), ("fsync", True), ("chmod", True), ("replace", True)],
)
def test_failing_system_call_leaves_the_old_model_and_nothing_else(
    small: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, call: str, overwrite: bool
) -> None:
    before = small.read_bytes()

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(type(error)):
        write_model(small if overwrite else small.parent / "new", {}, {}, overwrite=overwrite)
    assert os.listdir(small.parent) == [small.name]
    assert small.read_bytes() == before


def test_failing_sync_of_the_folder_is_reported_and_the_new_model_complete(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail_second(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(os, "fsync", fail_second)
    with pytest.raises(OSError, match="I/O error"):
        write_model(small, {}, {"new": True}, overwrite=True)
    assert os.listdir(small.parent) == [small.name]
    assert read_model(small).header == {"new": True}


def test_interrupted_chunks_leave_the_old_model_and_nothing_else(small: Path) -> None:
    def chunks() -> Any:
        yield np.zeros(10, np.float32)
        raise KeyboardInterrupt

    before = small.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        write_model(small, {"a": Chunked(np.float32, (20,), chunks())}, {}, overwrite=True)
    assert os.listdir(small.parent) == [small.name]
    assert small.read_bytes() == before


SAVE = """
    import os, resource, signal, sys
    import numpy as np
    from hedgerow.storage.container import Chunked, write_model
    def chunks():
        for number in range(4):
            if sys.argv[2] == "kill" and number == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            yield np.zeros(1 << 20, np.uint8)
    if sys.argv[2] == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
    try:
        write_model(sys.argv[1], {"a": Chunked(np.uint8, (4 << 20,), chunks())}, {}, overwrite=True)
    except OSError as error:
        sys.exit(error.errno)
"""


@pytest.mark.parametrize(("how", "status"), [("kill", -signal.SIGKILL), ("full", errno.EFBIG)])
def test_killed_process_and_file_size_limit_leave_the_old_model(small: Path, how: str, status: int) -> None:
    before = small.read_bytes()
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(SAVE), str(small), how], check=False)
    assert done.returncode == status
    assert small.read_bytes() == before
    if how == "full":
        assert os.listdir(small.parent) == [small.name]
