"""Files whose checksums are right and whose contents are not: each is refused, and takes little memory."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trust_counts import Count
from xxhash import xxh3_128

import hedgerow
from hedgerow import _native
from hedgerow.storage.container import Malformed, Truncated, read_model, write_model

Sections = dict[str, Any]
Header = dict[str, Any]
Change = Callable[[Sections, Header], None]
TREE, TABLE, WEIGHTS = "tree.0", "tree.0.chunks", "tree.0.weights"
BUCKET = struct.Struct("<14H14HII")  # keys, spots, base, overflows
NO_ROW = 3


def put(name: str, array: Any) -> Change:
    """Another section in the place of this one."""
    return lambda sections, header: sections.update({name: np.asarray(array)})


def set_at(name: str, place: Any, value: Any) -> Change:
    """Another value at a place of a section."""

    def change(sections: Sections, header: Header) -> None:
        array = np.array(sections[name])
        array[place] = value
        sections[name] = array

    return change


def mapped(name: str, work: Callable[[Any], Any]) -> Change:
    """What `work` makes of a section."""
    return lambda sections, header: sections.update({name: np.ascontiguousarray(work(sections[name]))})


def without(name: str) -> Change:
    return lambda sections, header: sections.pop(name)


def told(*path: Any, value: Any) -> Change:
    """Another value in the header."""

    def change(sections: Sections, header: Header) -> None:
        place: Any = header
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def unsaid(*path: Any) -> Change:
    def change(sections: Sections, header: Header) -> None:
        place: Any = header
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


def together(*changes: Change) -> Change:
    def change(sections: Sections, header: Header) -> None:
        for each in changes:
            each(sections, header)

    return change


def bucket(chunk: int, change: Callable[[list[int]], None]) -> Change:
    """Another first bucket that has rows, of a chunk; the parts are 14 keys, 14 spots, base, overflows."""

    def work(sections: Sections, header: Header) -> None:
        begin, _, lanes, _, buckets, _ = sections[TABLE][chunk].tolist()
        weights = bytearray(sections[WEIGHTS])
        for number in range(buckets):
            at = begin + 64 * (-(-lanes // 16) + number)
            parts = list(BUCKET.unpack_from(weights, at))
            if parts[14] & 3 != NO_ROW:
                change(parts)
                BUCKET.pack_into(weights, at, *parts)
                break
        sections[WEIGHTS] = np.frombuffer(bytes(weights), np.uint8)

    return work


def first_row(change: Callable[[bytearray, int], None]) -> Change:
    """Other bytes in the row of the first feature of the first chunk."""

    def work(sections: Sections, header: Header) -> None:
        begin, _, lanes, _, buckets, shift = sections[TABLE][0].tolist()
        weights = bytearray(sections[WEIGHTS])
        groups = -(-lanes // 16)
        for number in range(buckets):
            parts = BUCKET.unpack_from(weights, begin + 64 * (groups + number))
            if parts[14] & 3 != NO_ROW:
                payload = begin + 64 * (groups + buckets)
                change(weights, payload + parts[28] + (parts[14] >> 2 << shift))
                break
        sections[WEIGHTS] = np.frombuffer(bytes(weights), np.uint8)

    return work


def put_in(parts: list[int], place: int, value: int) -> None:
    parts[place] = value


def scribble(room: bytearray, at: int, value: bytes) -> None:
    room[at : at + len(value)] = value


HUGE = 10**400
CRAFTED: dict[str, Change] = {
    # the tree
    "tree begins late": set_at(f"{TREE}.begins.0", 0, 1),
    "tree goes back to its root": set_at(f"{TREE}.begins.1", 1, 0),
    "tree with an overlap": mapped(f"{TREE}.begins.1", lambda a: a[::-1]),
    "tree that leads past its labels": set_at(f"{TREE}.begins.1", -1, 99),
    "tree with a negative child": set_at(f"{TREE}.begins.1", 1, -1),
    "tree with an empty layer": put(f"{TREE}.begins.0", np.empty(0, np.int32)),
    "tree with a layer of another type": mapped(f"{TREE}.begins.0", lambda a: a.astype(np.int64)),
    "tree with a layer of two dimensions": mapped(f"{TREE}.begins.0", lambda a: a[None]),
    "tree without a layer": without(f"{TREE}.begins.1"),
    "tree of depth 0": told("trees", 0, "depth", value=0),
    "tree of depth 3 in place of 2": told("trees", 0, "depth", value=3),
    "tree deeper than any": told("trees", 0, "depth", value=2**40),
    "tree whose depth is true": told("trees", 0, "depth", value=True),
    "tree with a label twice": mapped(f"{TREE}.labels", lambda a: np.full_like(a, a[0])),
    "tree with a label too many": set_at(f"{TREE}.labels", 0, 6),
    "tree with a negative label": set_at(f"{TREE}.labels", 0, -1),
    "tree with labels of another type": mapped(f"{TREE}.labels", lambda a: a.astype(np.float32)),
    # the table of chunks
    "table of another width": mapped(TABLE, lambda a: a[:, :5]),
    "table of another type": mapped(TABLE, lambda a: a.astype(np.int64)),
    "table of one dimension": mapped(TABLE, lambda a: a.reshape(-1)),
    "table with too few chunks": mapped(TABLE, lambda a: a[:-1]),
    "table with too many chunks": mapped(TABLE, lambda a: np.vstack([a, a[-1:]])),
    "table with no chunk": mapped(TABLE, lambda a: a[:0]),
    "chunk that overlaps": set_at(TABLE, (1, 0), 0),
    "chunk that begins outside": set_at(TABLE, (1, 0), 2**63),
    "chunk whose end overflows": set_at(TABLE, (1, 1), 2**64 - 64),
    "chunk of no whole lines": set_at(TABLE, (0, 1), 100),
    "chunk without bytes": set_at(TABLE, (0, 1), 0),
    "chunk without lanes": set_at(TABLE, (0, 2), 0),
    "chunk with lanes for others": set_at(TABLE, (0, 2), 3),
    "chunk with too many lanes": set_at(TABLE, (0, 2), 2**32 + 2),
    "chunk without homes": set_at(TABLE, (0, 3), 0),
    "chunk with more homes than buckets": set_at(TABLE, (0, 3), 99),
    "chunk with too many buckets": set_at(TABLE, (0, 4), 2**31 - 1),
    "chunk whose buckets overflow": set_at(TABLE, (0, 4), 2**64 - 1),
    "chunk with an impossible unit": set_at(TABLE, (0, 5), 63),
    # the bytes of the chunks
    "bucket whose rows are outside": bucket(0, lambda parts: put_in(parts, 28, 2**32 - 4)),
    "row past the end": bucket(0, lambda parts: put_in(parts, 14, 0xFFF0 | parts[14] & 3)),
    "dense row past the end": bucket(0, lambda parts: put_in(parts, 14, 0xFFF0 | 2)),
    "masked row past the end": bucket(0, lambda parts: put_in(parts, 14, 0xFFF0 | 1)),
    "bucket that overflows twice": bucket(0, lambda parts: put_in(parts, 29, 2)),
    "lane that is none": together(
        bucket(0, lambda parts: put_in(parts, 14, parts[14] & ~3)),
        first_row(lambda room, at: scribble(room, at, b"\xff\xff")),
    ),
    "mask with lanes that are none": together(
        bucket(0, lambda parts: put_in(parts, 14, parts[14] & ~3 | 1)),
        first_row(lambda room, at: scribble(room, at, b"\xff\xff\xff\xff")),
    ),
    "weight that is infinite": together(
        bucket(0, lambda parts: put_in(parts, 14, parts[14] & ~3)),
        first_row(lambda room, at: scribble(room, at, b"\0\0\x80\x7f")),
    ),
    "bias that is no number": set_at(WEIGHTS, slice(0, 4), np.frombuffer(b"\0\0\xc0\x7f", np.uint8)),
    "weights cut short": mapped(WEIGHTS, lambda a: a[:-64]),
    "weights with more behind": mapped(WEIGHTS, lambda a: np.append(a, np.zeros(64, np.uint8))),
    "no weights": mapped(WEIGHTS, lambda a: a[:0]),
    "weights of another type": mapped(WEIGHTS, lambda a: a.view(np.int8)),
    # what the header says of the trees
    "no trees": told("trees", value=[]),
    "trees that are an object": told("trees", value={}),
    "trees that are numbers": told("trees", value=[1, 2]),
    "trees without end": told("trees", value=[{}] * 3),
    "members below none": told("trees", 0, "members", value=-1),
    "members beyond count": told("trees", 0, "members", value=2**31),
    "members times parts too many": together(
        told("trees", 0, "members", value=4096), told("trees", 0, "parts", value=3)
    ),
    "fewer weights than none": told("trees", 0, "weights", value=-1),
    "weights beyond count": told("trees", 0, "weights", value=2**63),
    "weights beyond print": told("trees", 0, "weights", value=int("9" * 4300)),
    "no features": told("trees", 0, "features", value=0),
    "features beyond count": told("trees", 0, "features", value=2**63),
    "features that differ": told("trees", 0, "features", value=2**31 - 1),
    "features of both that differ from the words": together(
        told("trees", 0, "features", value=2**31 - 1), told("trees", 1, "features", value=2**31 - 1)
    ),
    "unknown transform": told("trees", 0, "transform", value="eval"),
    "transform that is a list": told("trees", 0, "transform", value=["sigmoid"]),
    "normalize that is a number": told("trees", 0, "normalize", value=1),
    # the model
    "unknown kind": told("kind", value="pickle"),
    "kind that is a list": told("kind", value=["text"]),
    "no kind": unsaid("kind"),
    "unknown parameter": told("parameters", "__class__", value="os.system"),
    "parameters that are a list": told("parameters", value=[]),
    "parameter out of range": told("parameters", "beam", value=-1),
    "parameter beyond all numbers": told("parameters", "dropout", value=HUGE),
    "parameter that is a text": told("parameters", "beam", value="1e9"),
    "dropout of several trees": told("dropout", value={"share": 0.5, "passes": 2, "seed": 0}),
    "dropout without sense": told("dropout", value=[0.5]),
    "labels that are a text": told("labels", value="6"),
    "labels that are fewer": told("labels", value=5),
    "labels below none": told("labels", value=-1),
    "labels beyond count": told("labels", value=HUGE),
    # labels
    "names missing": without("classes.text"),
    "names cut outside": set_at("classes.begins", 1, 2**63),
    "names cut backwards": set_at("classes.begins", 1, 10**6),
    "names of another type": mapped("classes.begins", lambda a: a.astype(np.float64)),
    "names that are not UTF-8": mapped("classes.text", lambda a: np.full_like(a, 0xFF)),
    "names that are all the same": mapped("classes.begins", lambda a: np.append(0 * a[:-1], a[-1])),
    "names that are numbers": told("names", value=False),
    "numbers that occur twice": together(
        told("names", value=False), put("classes.numbers", np.zeros(6, np.int64))
    ),
    "frequencies below none": set_at("label_counts", 0, -1),
    "frequencies above the inputs": set_at("label_counts", 0, 10**9),
    "frequencies of another type": mapped("label_counts", lambda a: a.astype(np.float64)),
    "frequencies of too few": mapped("label_counts", lambda a: a[:-1]),
    "inputs below none": told("rows", value=-1),
    "inputs that are a text": told("rows", value="60"),
    # the vocabulary
    "words missing": without("text.word_bytes"),
    "words cut outside": set_at("text.word_starts", 1, 2**31),
    "words that do not ascend": mapped("text.word_bytes", lambda a: np.full_like(a, ord("a"))),
    "words that are not UTF-8": mapped("text.word_bytes", lambda a: np.full_like(a, 0xFF)),
    "pair of unknown words": set_at("text.pairs", 0, 2**64 - 1),
    "pairs that do not ascend": mapped("text.pairs", lambda a: np.zeros_like(a)),
    "idf that is no number": set_at("text.idf", 0, np.nan),
    "idf below none": set_at("text.idf", 0, -1),
    "idf of another type": mapped("text.idf", lambda a: a.astype(np.float64)),
    "table of words that is empty": mapped("text.word_table", lambda a: a[:0]),
    "table of words that leads outside": mapped(
        "text.word_table", lambda a: np.full_like(a, ~a.dtype.type(0))
    ),
    "table of words that leads nowhere": mapped("text.word_table", lambda a: np.zeros_like(a)),
    "table of words of odd length": mapped("text.word_table", lambda a: a[:-1]),
    "table of pairs that leads outside": mapped(
        "text.pair_table", lambda a: np.full_like(a, ~a.dtype.type(1))
    ),
    "vocabulary of another format": set_at("text.format", 0, 99),
    "format that is a fraction": put("text.format", np.array([1.0])),
    # the training record
    "hashes that do not ascend": mapped("seen", lambda a: a[::-1]),
    "hashes of another type": mapped("seen", lambda a: a.astype(np.int64)),
    "hashes of two dimensions": mapped("seen", lambda a: a[None]),
    "hashes of more than there were": put("seen", np.arange(61, dtype=np.uint64)),
    "seed that is a fraction": told("training", "seed", value=0.5),
    "training that is a text": told("training", value="none"),
    # what is familiar
    "familiar by unknown signals": told("familiar", value=["colour"] * 5),
    "familiar by signals of signals": told("familiar", value=[["rarity"]]),
    "familiar with a mean that is no number": set_at("familiar.mean", 0, np.nan),
    "familiar with knots that fall": mapped("familiar.knots", lambda a: a[:, ::-1]),
    "familiar with too few knots": mapped("familiar.knots", lambda a: a[:, :3]),
    "familiar with infinite scores": set_at("familiar.scores", -1, np.inf),
    "familiar with scores that fall": mapped("familiar.scores", lambda a: a[::-1]),
    "familiar with scores of another type": mapped("familiar.scores", lambda a: a.astype(np.float32)),
    "familiar with too few scores": mapped("familiar.scores", lambda a: a[:3]),
    # the calibration
    "calibration of a label in no group": set_at("calibration.group", 0, 255),
    "calibration of another number of labels": mapped("calibration.group", lambda a: a[:-1]),
    "calibration with groups of another type": mapped("calibration.group", lambda a: a.astype(np.int64)),
    "calibration cut outside": set_at("calibration.begins", 1, 2**40),
    "calibration cut backwards": set_at("calibration.begins", 1, -5),
    "calibration above 1": mapped("calibration.y", lambda a: 2 * a),
    "calibration that falls": mapped("calibration.y", lambda a: a[::-1]),
    "calibration that is no number": set_at("calibration.x", 1, np.nan),
    "calibration in half precision": mapped("calibration.x", lambda a: a.astype(np.float16)),
    "calibration of impossible limits": put("calibration.limits", np.zeros((300, 2))),
    "calibration by something else": told("calibration", "method", value="lambda"),
    "calibration from fewer than none": told("calibration", "rows", value=-1),
    "calibration that is an empty object": told("calibration", value={}),
    "calibration with more to say": told("calibration", "n_labels", value=3),
    # the policy
    "policy that is a number": told("policy", value=3),
    "policy without curves": told("policy", "curves", value=[]),
    "policy with curves of numbers": told("policy", "curves", value=5),
    "policy from more inputs than can be counted": told("policy", "curves", 0, 1, value=HUGE),
    "policy whose inputs are all that count": told("policy", "rows", value=-1),
    "policy with losses below none": set_at("policy.totals", (0, 0), -1.0),
    "policy with losses above all": set_at("policy.totals", (0, -1), 1e300),
    "policy with losses that are no numbers": set_at("policy.totals", (0, 0), np.nan),
    "policy with thresholds that fall": mapped("policy.thresholds", lambda a: a[::-1]),
    "policy with too many thresholds": put("policy.thresholds", np.zeros(5000, np.float32)),
    "policy with thresholds of another type": mapped("policy.thresholds", lambda a: a.astype(np.float64)),
    "policy with groups that overlap": told("policy", "groups", value=[[0, 5, 0.0], [3, 9, 0.0]]),
    "policy with groups of texts": told("policy", "groups", value=["abc"]),
    "policy with more unknown than all": told("policy", "unknown", value=1.5),
    "policy with a share beyond all numbers": told("policy", "unknown", value=HUGE),
    "policy by unknown doubts": told("policy", "inputs", value=["colour"]),
    "policy by doubts of doubts": told("policy", "inputs", value=[["top"]]),
    "policy without fingerprint": told("policy", "fingerprint", value="z" * 32),
    "policy of an odd search": told("policy", "search", "beam", value=[50]),
    "policy with notes that are numbers": told("policy", "notes", value=[1]),
    "policy with certificates above 1": set_at("policy.proven", 0, 1.5),
    "policy with certificates that are no numbers": set_at("policy.proven", 0, np.nan),
    "policy with doubts that fall": mapped("policy.inputs.top", lambda a: a[::-1]),
    "policy with doubts of another width": mapped("policy.inputs.top", lambda a: a[:, :3]),
    "policy with more mistakes than inputs": set_at("policy.inputs.top", (-1, 3), 10**6),
    "policy with doubts counted in halves": set_at("policy.inputs.top", (0, 1), 0.5),
    "policy without its doubts": without("policy.inputs.top"),
}


def write_crafted(name: str, whole: Path, path: Path) -> None:
    file = read_model(whole)
    sections, header = dict(file.sections), json.loads(json.dumps(file.header))
    CRAFTED[name](sections, header)
    write_model(path, sections, header)


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_file_is_refused(whole_file: Path, tmp_path: Path, name: str, count: Count) -> None:
    path = tmp_path / "crafted.hedgerow"
    write_crafted(name, whole_file, path)
    with pytest.raises(Malformed, match=r"crafted\.hedgerow|^tree\.[01] cannot be read"):
        hedgerow.load(path)
    count("wrong, but with right checksums")


# --- headers that are larger than any model needs ---

LONG = 12_000_000  # bytes: below the limit, so that what is inside counts
METADATA = '"format":"hedgerow","version":"1","writer":"0"'
ENTRY = '"s%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
BOMBS: dict[str, Callable[[], str]] = {
    "lists": lambda: '{"a":[' + "[]," * (LONG // 3) + "[]]}",
    "objects": lambda: '{"a":[' + "{}," * (LONG // 3) + "{}]}",
    "as many keys as any file may have": lambda: "{" + ",".join(f'"{n}":{{}}' for n in range(7_900)) + "}",
    "as long a wide text as any file may have": lambda: '{"a":"\\ud83c\\udf3f' + "x" * 500_000 + '"}',
    "as many keys as may be": lambda: "{" + ",".join(f'"{number}":{{}}' for number in range(490_000)) + "}",
    "numbers": lambda: '{"a":[' + "1.5," * (LONG // 4) + "1]}",
    "keys": lambda: "{" + ",".join(f'"{number}":0' for number in range(LONG // 11)) + "}",
    "one text": lambda: '{"a":"' + "x" * LONG + '"}',
    "one wide text": lambda: '{"a":"\\ud83c\\udf3f' + "x" * LONG + '"}',
    "as many sections as may be": lambda: "{" + ",".join(ENTRY % number for number in range(140_000)) + "}",
    "sections": lambda: "{" + ",".join(ENTRY % number for number in range(LONG // 60)) + "}",
    "lists in the model's header": lambda: (
        '{"__metadata__":{' + METADATA + ',"header":"[' + "[]," * (LONG // 3) + '[]]"}}'
    ),
    "one wide text in the model's header": lambda: (
        '{"__metadata__":{' + METADATA + ',"header":"[\\"\\\\ud83c\\\\udf3f' + "x" * LONG + '\\"]"}}'
    ),
    "longer than any": lambda: '{"a":"' + "x" * 2 * LONG + '"}',
    "not in ASCII": lambda: '{"a":"\N{HERB}' + "x" * LONG + '"}',
}
MEASURE = """
import json, sys
import hedgerow
from hedgerow.storage.container import ModelFileError

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))

def load(path):
    try:
        hedgerow.load(path)
        return "loaded"
    except ModelFileError:
        return "refused"
    except BaseException as error:
        return repr(error)[:200]

load(sys.argv[1])
for path in sys.argv[2:]:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    before = peak()
    outcome = load(path)
    print(json.dumps([path, outcome, peak() - before]))
"""
SLACK = 8 << 20  # what an interpreter may take for itself meanwhile


def measured(whole: Path, paths: list[Path]) -> list[tuple[str, str, int]]:
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(whole), *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.unsanitized
def test_crafted_files_take_no_more_memory_than_twice_their_size(whole_file: Path, tmp_path: Path) -> None:
    paths = []
    for number, name in enumerate(CRAFTED):
        paths.append(tmp_path / f"{number}.hedgerow")
        write_crafted(name, whole_file, paths[-1])
    for path, outcome, grown in measured(whole_file, paths):
        assert outcome == "refused", path
        assert grown <= 2 * Path(path).stat().st_size + SLACK, path


@pytest.mark.unsanitized
# So little data that headers are refused for it, and enough for any.
@pytest.mark.parametrize("data", [64, 256 << 20])
def test_huge_headers_are_refused_within_bounds(
    whole_file: Path, tmp_path: Path, count: Count, data: int
) -> None:
    for name, bomb in BOMBS.items():
        text = bomb().encode()
        text += b" " * (-(8 + len(text)) % 64)
        with (tmp_path / name).open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + data)  # takes no room on the disk
    for path, outcome, grown in measured(whole_file, sorted(tmp_path.iterdir())):
        assert outcome == "refused", path
        assert grown <= 2 * Path(path).stat().st_size + SLACK, (path, grown)
        count("headers made to be costly")


@pytest.mark.unsanitized
def test_values_that_escapes_hide_are_refused_within_bounds(
    whole_file: Path, tmp_path: Path, count: Count
) -> None:
    # The model's own header is JSON within JSON: only when the outer is parsed do its marks show.
    hidden = "\\u002c".join(f'\\u007b\\"{number}\\":1e9}}' for number in range(175_000))
    size = 32 << 20
    text = (
        '{"__metadata__":{' + METADATA + ',"header":"{\\"a\\":\\u005b' + hidden + ']}"},'
        f'"padding.0":{{"dtype":"U8","shape":[{size}],"data_offsets":[0,{size}]}},'
        f'"checksums":{{"dtype":"U8","shape":[3,16],"data_offsets":[{size},{size + 48}]}}}}'
    ).encode()
    text += b" " * (-(8 + len(text)) % 64)
    parts = [len(text).to_bytes(8, "little") + text, bytes(size)]
    digests = b"".join(xxh3_128(part).digest() for part in parts)
    path = tmp_path / "hidden.hedgerow"
    path.write_bytes(b"".join([*parts, digests, xxh3_128(digests).digest()]))
    with pytest.raises(Truncated, match="the model's header has"):
        read_model(path)
    [(_, outcome, grown)] = measured(whole_file, [path])
    assert outcome == "refused"
    assert grown <= 2 * path.stat().st_size + SLACK
    count("headers made to be costly")


@pytest.mark.parametrize("free", ["bytes", "values"])
def test_header_that_is_long_beside_its_data_is_stored_with_a_longer_file(tmp_path: Path, free: str) -> None:
    header = {"text": "x" * 1_000_000} if free == "bytes" else {"list": [0] * 40_000}
    path = tmp_path / "long.hedgerow"
    write_model(path, {"one": np.arange(3)}, header)
    found = read_model(path)
    assert found.header == header
    assert list(found.sections) == ["one"]
    front = 8 + int.from_bytes(path.read_bytes()[:8], "little")
    cut = tmp_path / "cut.hedgerow"
    cut.write_bytes(path.read_bytes()[: front + 100_000])
    with pytest.raises(Truncated, match="is cut off, or was not written by hedgerow: its header has"):
        read_model(cut)


def test_chunk_past_the_reach_of_its_codes_is_refused(tmp_path: Path) -> None:
    # Places of rows have 30 bits. What lay further on was checked there, but looked for in another place.
    path, payload = tmp_path / "weights", 1 << 30
    parts = 64 + 64 + 64  # biases, one bucket, spare bytes
    with path.open("wb") as file:
        file.truncate(payload + 64 + parts)  # takes no room on the disk

    def opened(size: int) -> _native.TreeModel:
        table = np.array([[0, size, 2, 1, 1, 1]], np.uint64)
        weights = np.memmap(path, np.uint8, "r", shape=(size,))
        tree = [np.array([0, 2], np.int32)], np.array([0, 1], np.int32)
        return _native.TreeModel.open(*tree, 8, "sigmoid", 1, 1, table, weights, True, 1)

    opened(payload + parts)
    with pytest.raises(ValueError, match="over 1 GB"):
        opened(payload + 64 + parts)
