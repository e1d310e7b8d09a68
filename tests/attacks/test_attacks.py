"""What a stranger may try with a file, a name or a request, and what must come of it: nothing."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import pickle
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from report_contents import HOSTILE, a_hostile_content
from served_models import Open
from starlette.testclient import TestClient
from trust_counts import Count
from whole_model import some_texts

import hedgerow
from hedgerow import HedgerowTextClassifier, Votes
from hedgerow.cli import predict_shards
from hedgerow.cli.allowed import Allowed
from hedgerow.cli.failures import Failure
from hedgerow.data import DataError, read_part
from hedgerow.report import render
from hedgerow.storage.container import ModelFileError, NotAModel
from hedgerow.training.block_files import BlockFiles
from hedgerow.training.blocks import Block, TrainedBlock
from hedgerow.trees.label_tree import LabelTree

LINE = 160 << 20  # longer than any line may be


class Exploit:
    """Whoever unpickles it makes a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = str(marker)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "code was run"


# --- code in files ---


@pytest.mark.parametrize("opened", [hedgerow.load, Votes.load, HedgerowTextClassifier.load])
def test_pickle_in_place_of_a_model_is_not_run(
    tmp_path: Path, marker: Path, opened: Callable[[Path], Any], count: Count
) -> None:
    path = tmp_path / "model.hedgerow"
    path.write_bytes(pickle.dumps(Exploit(marker)))
    with pytest.raises(ModelFileError, match="never unpickles"):
        opened(path)
    assert not marker.exists()
    count("attacks", 1)


def test_pickle_in_a_matrix_is_not_run(tmp_path: Path, marker: Path, count: Count) -> None:
    array = np.empty(1, dtype=object)
    array[0] = Exploit(marker)
    parts = dict.fromkeys(("data", "indices", "indptr", "shape", "format"), array)
    for name in ("X.trn.npz", "Y.trn.npz"):
        np.savez(tmp_path / name, allow_pickle=True, **parts)
    with pytest.raises(DataError):
        read_part(tmp_path)
    assert not marker.exists()
    count("attacks", 1)


def test_pickle_in_a_folder_of_pecos_is_not_run(tmp_path: Path, marker: Path, count: Count) -> None:
    (tmp_path / "ranker").mkdir()
    for name in ("param.json", "ranker/param.json", "ranker/W.npz", "ranker/C.npz"):
        (tmp_path / name).write_bytes(pickle.dumps(Exploit(marker)))
    with pytest.raises((DataError, ValueError)):
        hedgerow.import_pecos([tmp_path])
    assert not marker.exists()
    count("attacks", 1)


# --- bombs ---

READ = """
import resource, sys
from hedgerow.data import DataError, read_part
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
before = peak()
try:
    read_part(sys.argv[1])
    print("read", 0)
except DataError:
    print("refused", peak() - before)
"""


def read_in_a_process(path: Path, program: str = READ) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcome, grown = done.stdout.split()
    return outcome, int(grown)


@pytest.mark.parametrize("ending", ["xz", "zst", "gz"])
def test_line_that_unpacks_to_more_than_any_is_refused_early(
    tmp_path: Path, ending: str, count: Count
) -> None:
    pack = {
        "xz": lambda plain: lzma.compress(plain, preset=0),
        "zst": lambda plain: zstandard.ZstdCompressor(level=1).compress(plain),
        "gz": lambda plain: gzip.compress(plain, 1),
    }[ending]
    path = tmp_path / f"train.jsonl.{ending}"
    path.write_bytes(pack(b"x" * LINE))
    assert path.stat().st_size < LINE // 100
    outcome, grown = read_in_a_process(path)
    assert outcome == "refused"
    assert grown < 2 * LINE
    count("attacks", 1)


READ_VOCABULARY = """
import resource, sys
from hedgerow import read_vocabulary
from hedgerow.data import DataError
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
# More processor time than this is a hang, and ends the process: each of these files once took minutes.
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
before = peak()
try:
    read_vocabulary(sys.argv[1])
    print("read", 0)
except DataError as error:
    print("refused" if error.line == 3 else f"refused_at_{error.line}", peak() - before)
"""
IN_XML = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"\n'
    ' xmlns:skos="http://www.w3.org/2004/02/skos/core#"><skos:Concept rdf:about="t:1">\n{}'
    "</skos:Concept></rdf:RDF>"
)
IN_TURTLE = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n<t:1> a skos:Concept ;\n{} .\n"
LAUGHS = "".join(
    f'<!ENTITY {new} "{f"&{old};" * 100}">' for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
HUGE = 8_000_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.rdf", f'\n\n<!DOCTYPE a [<!ENTITY a "ha">{LAUGHS}]><a>&i;</a>'),
        ("x.rdf", '\n\n<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]><a>&f;</a>'),
        ("x.rdf", IN_XML.format(f"<skos:prefLabel>{'&lt;' * (25 * 2**20)}</skos:prefLabel>")),
        ("x.rdf", IN_XML.format(f'<skos:prefLabel xml:lang="{"e" * HUGE}">x</skos:prefLabel>')),
        ("x.rdf", IN_XML.format(f"<skos:definition>a{'&#10;' * HUGE}</skos:definition>")),
        ("x.rdf", IN_XML.format(f'<skos:note rdf:parseType="Literal">{"x<b/>" * (HUGE // 4)}</skos:note>')),
        ("x.rdf", IN_XML.format(f'<skos:note rdf:parseType="Literal">{"x<b>" * 500_000}')),
        ("x.rdf", "\n\n<a " + " ".join(f'xmlns:a{number}="t:{number}"' for number in range(100_000)) + "/>"),
        ("x.ttl", IN_TURTLE.format(f'skos:prefLabel "{chr(92)}u003c{f"{chr(92)}u003c" * HUGE}"')),
        ("x.ttl", IN_TURTLE.format(f'skos:definition \'\'\'"{"x" * HUGE}')),
    ],
    ids=[
        "billion laughs",
        "external entity",
        "100 MB of escapes",
        "language",
        "newlines of a definition",
        "markup in a literal",
        "deep markup in a literal",
        "namespaces",
        "escapes in Turtle",
        "string without end",
    ],
)  # fmt: skip
def test_vocabulary_that_would_fill_memory_or_time_is_refused_with_the_line(
    tmp_path: Path, name: str, content: str, count: Count
) -> None:
    path = tmp_path / name
    path.write_text(content)
    outcome, grown = read_in_a_process(path, READ_VOCABULARY)
    assert outcome == "refused"
    assert grown < 3 * len(content) + (50 << 20)
    count("attacks", 1)


def test_zip_bomb_in_place_of_a_model_is_refused_unopened(tmp_path: Path, count: Count) -> None:
    path = tmp_path / "model.hedgerow"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights", bytes(LINE))
    with pytest.raises(NotAModel, match="zip archive"):
        hedgerow.load(path)
    count("attacks", 1)


def test_matrix_that_promises_more_than_it_holds_is_refused(tmp_path: Path, count: Count) -> None:
    header = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }"
    huge = header + text.ljust(117) + b"\n"
    for name in ("X.trn.npz", "Y.trn.npz"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for part in ("data", "indices", "indptr", "shape", "format"):
                archive.writestr(f"{part}.npy", huge)
    with pytest.raises(DataError):
        read_part(tmp_path)
    count("attacks", 1)


# --- files that lead elsewhere ---


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/proc/self/mem"])
def test_link_to_a_device_in_place_of_a_model_is_refused(tmp_path: Path, device: str, count: Count) -> None:
    (tmp_path / "model.hedgerow").symlink_to(device)
    with pytest.raises(ModelFileError):
        hedgerow.load(tmp_path / "model.hedgerow")
    count("attacks", 1)


def test_link_in_a_checkpoint_does_not_overwrite_what_it_leads_to(tmp_path: Path, count: Count) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "member-0000.hedgerow").symlink_to(victim)
    model = HedgerowTextClassifier(method="bagging", members=2, random_state=0, n_jobs=1)
    with pytest.raises(ValueError, match="member-0000"):
        model.fit(*some_texts(20, 0), checkpoint=checkpoint)
    assert victim.read_text() == "precious"
    count("attacks", 1)


def test_dangling_link_in_a_checkpoint_does_not_make_what_it_leads_to(tmp_path: Path, count: Count) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "member-0000.hedgerow").symlink_to(tmp_path / "elsewhere")
    model = HedgerowTextClassifier(method="bagging", members=2, random_state=0, n_jobs=1)
    with pytest.raises(ValueError, match="member-0000"):
        model.fit(*some_texts(20, 0), checkpoint=checkpoint)
    assert not (tmp_path / "elsewhere").exists()
    count("attacks", 1)


def write_tree(folder: Path) -> None:
    BlockFiles(folder, "fit").write_tree(0, LabelTree.from_clusters([[0, 0, 1, 1]]))


def write_block(folder: Path) -> None:
    table, weights = np.zeros((2, 6), dtype=np.uint64), np.zeros(0, dtype=np.uint8)
    BlockFiles(folder, "fit").write(0, TrainedBlock(Block(1, 0, 2), table, weights, 0))


def write_encoder(folder: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install 'hedgerow[deep]'")
    from hedgerow.deep.tuning_state import EncoderCheckpoint, TuningState

    state = TuningState(0, 0, False, {"step": np.zeros(1)})
    EncoderCheckpoint(folder / "encoder-0000.hedgerow", "fit").write(state)


@pytest.mark.parametrize(
    ("name", "write"),
    [("tree-0000", write_tree), ("block-0000-1-0-2", write_block), ("encoder-0000", write_encoder)],
)
@pytest.mark.parametrize("dangling", [False, True])
def test_link_in_place_of_what_a_fit_keeps_is_not_followed(
    tmp_path: Path, name: str, write: Callable[[Path], None], dangling: bool, count: Count
) -> None:
    victim = tmp_path / "victim"
    write(tmp_path / "sound")
    assert (tmp_path / "sound" / f"{name}.hedgerow").is_file()
    if not dangling:
        victim.write_text("precious")
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / f"{name}.hedgerow").symlink_to(victim)
    with pytest.raises(ValueError, match=f"{name}.hedgerow is a symbolic link"):
        write(checkpoint)
    assert not victim.exists() if dangling else victim.read_text() == "precious"
    count("attacks", 1)


def record_of(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / predict_shards.RECORD).write_text(text)
    return folder


SCORING = predict_shards.Scoring(
    k=5,
    part=None,
    search={},
    uncertainty=False,
    quality=None,
    tolerance=None,
    allowed=Allowed(),
    lang=None,
    model="model",
    digest="00",
    version="0",
)


@pytest.mark.parametrize("name", ["a\0.jsonl", "\ud800.jsonl"])
def test_record_of_a_run_with_a_name_that_no_file_can_have_fails_in_words(
    tmp_path: Path, name: str, count: Count
) -> None:
    folder = record_of(tmp_path / "out", json.dumps({"inputs": {name: [1, 2]}}))
    with pytest.raises(Failure):
        predict_shards._begin(folder, SCORING, [], overwrite=True)
    count("attacks", 1)


@pytest.mark.parametrize("name", ["{outside}", "../victim.jsonl", "more/../../victim.jsonl"])
def test_record_of_a_run_that_names_a_file_elsewhere_deletes_nothing(
    tmp_path: Path, name: str, count: Count
) -> None:
    victim = tmp_path / "victim.jsonl"
    victim.write_text("precious")
    (tmp_path / "more").mkdir()
    named = name.format(outside=victim)
    folder = record_of(tmp_path / "out", json.dumps({"inputs": {named: [1, 2]}}))
    with pytest.raises(Failure, match=rf"{predict_shards.RECORD} is no record"):
        predict_shards._begin(folder, SCORING, [], overwrite=True)
    assert victim.read_text() == "precious"
    count("attacks", 1)


@pytest.mark.parametrize(
    "text",
    ["", "\x00", "[]", "{}", '{"inputs": 3}', '{"inputs": ["a"]}', '{"inputs": {"": 1}}', "[" * 200_000],
)
@pytest.mark.parametrize("overwrite", [False, True])
def test_record_of_a_run_that_is_none_is_refused_by_name(
    tmp_path: Path, text: str, overwrite: bool, count: Count
) -> None:
    folder = record_of(tmp_path / "out", text)
    with pytest.raises(Failure, match=predict_shards.RECORD):
        predict_shards._begin(folder, SCORING, [], overwrite)
    count("attacks", 1)


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/page/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "//etc/passwd",
        "/page.css/../../app.py",
        "/%00",
    ],
)
def test_path_that_leaves_the_page_finds_nothing(client: TestClient, path: str, count: Count) -> None:
    answer = client.get(path)
    assert answer.status_code in (400, 404)
    assert "root:" not in answer.text
    assert "import" not in answer.text
    count("attacks", 1)


# --- markup in names ---


def test_markup_in_names_and_texts_is_no_markup_in_the_report(count: Count) -> None:
    page = render(a_hostile_content())
    assert any("<script" in text for text in HOSTILE)
    for text in HOSTILE:
        if "<" in text:
            assert text not in page
    count("attacks", 1)


def test_markup_in_label_names_comes_from_the_server_as_data(
    open_client: Open, tmp_path: Path, count: Count
) -> None:
    texts, labels = some_texts(60, 0)
    evil = "</script><img src=x onerror=alert(1)>"
    model = HedgerowTextClassifier(method="bagging", members=2, random_state=0, n_jobs=1)
    model.fit(texts, [[f"{evil}{label}" for label in own] for own in labels]).save(tmp_path / "evil.hedgerow")
    client = open_client(model=tmp_path / "evil.hedgerow")
    answer = client.post("/predict", json={"text": texts[0], "k": 1})
    assert answer.json()["results"][0]["labels"][0]["label"].startswith(evil)
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert evil not in client.get("/").text
    count("attacks", 1)


# --- requests ---


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"text": "' + b"x" * (5 << 20) + b'"}', id="too many bytes"),
        pytest.param(b'{"text": "' + b"x" * 200_000 + b'"}', id="too long a text"),
        pytest.param(json.dumps({"texts": ["x"] * 10_000}).encode(), id="too many texts"),
        pytest.param(b'{"text": "x", "k": 1000000000000}', id="too many labels"),
        pytest.param(b"[" * 100_000, id="too deep"),
        pytest.param(b'{"text":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="too deep and closed"),
        pytest.param(b'{"text": "x", "k": ' + b"9" * 100_000 + b"}", id="too long a number"),
        pytest.param(b"\x80\x04\x95", id="a pickle"),
        pytest.param(b'{"text": "\\ud800"}', id="half a character"),
    ],
)
def test_oversized_or_odd_request_is_refused_and_the_next_answered(
    client: TestClient, body: bytes, count: Count
) -> None:
    answer = client.post("/predict", content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert client.post("/predict", json={"text": "a music player"}).status_code == 200
    count("attacks", 1)
