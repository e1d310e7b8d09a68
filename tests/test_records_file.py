"""The file of records beside a model: damaged, crafted or exchanged, it is refused and nothing is written."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from test_updates import AT, SMALL, a_model, held_out, some_records, texts_of

import hedgerow
from hedgerow import HedgerowTextClassifier
from hedgerow.records.file import NoRecordsError, read_records
from hedgerow.records.packed import Packed
from hedgerow.storage.container import ModelFileError, read_model, write_model

Sections = dict[str, Any]
Header = dict[str, Any]
Change = Callable[[Sections, Header], None]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with held-out data, one update, and a record that was corrected."""
    model = a_model(method="bagging", members=2)
    held_out(model)
    model.update(texts_of("fir", 2), [["fir"], ["ash"]], ids=["0-3", None], rename={"oak": "Quercus"}, at=AT)
    path = tmp_path_factory.mktemp("records") / "m"
    model.save(path)
    return path


@pytest.fixture
def model(original: Path, tmp_path: Path) -> Path:
    for name in ("m", "m.data"):
        (tmp_path / name).write_bytes((original.parent / name).read_bytes())
    return tmp_path / "m"


def data_of(model: Path) -> Path:
    return model.with_name("m.data")


def refused(model: Path, late: bool = False) -> str:
    """Updating and forgetting are refused, in one way; both files stay, and nothing is left over.

    Texts are read `late`, when all is trained again.
    """
    before = {path.name: path.read_bytes() for path in model.parent.iterdir() if path.is_file()}
    messages = set()
    works: list[Callable[[Any], Any]] = [lambda one: one.forget(["0-1"])]
    if not late:
        works.append(lambda one: one.update(remove=["0-1"]))
    for work in works:
        loaded = hedgerow.load(model).set_params(n_jobs=1)
        with pytest.raises((ModelFileError, NoRecordsError)) as caught:
            work(loaded)
        messages.add(str(caught.value))
    after = {path.name: path.read_bytes() for path in model.parent.iterdir() if path.is_file()}
    assert after == before
    assert len(messages) == 1
    return messages.pop()


# --- damage ---


def test_file_with_any_bit_flipped_is_refused(model: Path) -> None:
    whole = data_of(model).read_bytes()
    drawn = random.Random(0)
    for _ in range(150):
        broken = bytearray(whole)
        broken[drawn.randrange(len(whole))] ^= 1 << drawn.randrange(8)
        data_of(model).write_bytes(broken)
        with pytest.raises(ModelFileError):
            read_records(data_of(model))
    refused(model)


def test_file_that_is_cut_short_is_refused(model: Path) -> None:
    whole = data_of(model).read_bytes()
    for kept in (0, 1, 7, 8, 100, len(whole) // 2, len(whole) - 1):
        data_of(model).write_bytes(whole[:kept])
        refused(model)


# --- exchange ---


def test_records_of_another_model_are_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    a_model(random_state=4).save(tmp_path / "other" / "m")
    data_of(model).write_bytes((tmp_path / "other" / "m.data").read_bytes())
    assert "the records of another model" in refused(model)


def test_records_of_a_model_of_the_same_data_with_other_settings_are_refused(tmp_path: Path) -> None:
    for name, settings in (("m", {}), ("n", {"branching": 2}), ("o", {"method": "bagging", "members": 2})):
        a_model(**settings).save(tmp_path / name)
    whole = (tmp_path / "m.data").read_bytes()
    for name in ("n", "o"):
        (tmp_path / "m.data").write_bytes((tmp_path / f"{name}.data").read_bytes())
        assert "the records of another model" in refused(tmp_path / "m")
    (tmp_path / "m.data").write_bytes(whole)
    hedgerow.load(tmp_path / "m").update(remove=["0-1"])


def test_model_is_no_file_of_records_and_records_are_no_model(model: Path) -> None:
    with pytest.raises(ModelFileError):
        hedgerow.load(data_of(model))
    data_of(model).write_bytes(model.read_bytes())
    assert "does not hold whole records" in refused(model)


def test_file_of_records_that_is_missing_is_named(model: Path) -> None:
    data_of(model).unlink()
    assert f"{data_of(model)} is missing" in refused(model)


@pytest.mark.parametrize("waiting", ["damaged", "foreign", "empty"])
def test_waiting_file_that_is_of_no_use_does_no_harm(model: Path, waiting: str) -> None:
    after = model.with_name("m.data.next")
    if waiting == "foreign":
        a_model(random_state=4).save(model.with_name("x"))
        after.write_bytes(model.with_name("x.data").read_bytes())
    else:
        after.write_bytes(data_of(model).read_bytes()[:1000] if waiting == "damaged" else b"")
    loaded = hedgerow.load(model)
    loaded.update(remove=["0-1"])
    loaded.save(model, overwrite=True)
    assert not after.exists()
    hedgerow.load(model).update(remove=["0-2"])


# --- crafted: checksums are right, contents are not ---


def put(name: str, array: Any) -> Change:
    return lambda sections, header: sections.update({name: np.asarray(array)})


def at(name: str, place: int, value: Any) -> Change:
    def change(sections: Sections, header: Header) -> None:
        array = np.array(sections[name])
        array[place] = value
        sections[name] = array

    return change


def cast(name: str, dtype: Any) -> Change:
    return lambda sections, header: sections.update({name: sections[name].astype(dtype)})


def cut(name: str) -> Change:
    return lambda sections, header: sections.update({name: sections[name][:-1]})


def told(key: str, value: Any) -> Change:
    return lambda sections, header: header.update({key: value})


def without(name: str) -> Change:
    return lambda sections, header: (sections.pop(name, None), header.pop(name, None))


def packed(name: str, *blocks: bytes, counts: list[int] | None = None) -> Change:
    """Other blocks of values, each of which says that it holds as many as were there."""

    def change(sections: Sections, header: Header) -> None:
        own = Packed(blocks, tuple(counts or [int(sections[f"{name}.counts"].sum())]))
        sections.update(own.to_sections(name))

    return change


def listed(name: str, values: list[Any]) -> Change:
    return lambda sections, header: sections.update(Packed.of(values).to_sections(name))


BOMB = zstandard.ZstdCompressor(level=1).compress(b"[" + b" " * (3 << 30 >> 6) + b"]")
# A frame of one byte that says it holds 2^60; and one that does not say how much.
LIAR = b"\x28\xb5\x2f\xfd\xe0" + (1 << 60).to_bytes(8, "little") + b"\x09\x00\x00x"
UNSIZED = zstandard.ZstdCompressor(write_content_size=False).compress(b"[]")
CRAFTED: dict[str, Change] = {
    "kind": told("kind", "text"),
    "no kind": without("kind"),
    "inputs": told("inputs", "pictures"),
    "features for texts": told("inputs", "features"),
    "of": told("of", 3),
    "no records": told("records", 0),
    "many records": told("records", 2**62),
    "fewer than no records": told("records", -1),
    "records as text": told("records", "61"),
    "records as a list": told("records", [61]),
    "features": told("features", 1),
    "many features": told("features", 10**30),
    "features as text": told("features", "many"),
    "base names": told("base_names", 10**6),
    "base names below 0": told("base_names", -1),
    "layers": told("layers", 3),
    "more layers": told("layers", [9, 9]),
    "no layers": told("layers", []),
    "many layers": told("layers", [10**9]),
    "steps": told("steps", "abc"),
    "no steps": told("steps", []),
    "a step of nothing": told("steps", [None]),
    "a step without a time": told("steps", [{"renamed": [], "removed_labels": []}]),
    "a step that renames a list": told("steps", [{"at": "", "renamed": [[[], "a"]], "removed_labels": []}]),
    "a step that renames three": told("steps", [{"at": "", "renamed": [[1, 2, 3]], "removed_labels": []}]),
    "a step that names a number": told("steps", [{"at": "", "renamed": [["ash", 3]], "removed_labels": []}]),
    "a step that removes a null": told("steps", [{"at": "", "renamed": [], "removed_labels": [None]}]),
    "held out": told("held_out", []),
    "held out with what": told("held_out", {"progress": 3}),
    "held out by list": told("held_out", {"by": ["all"]}),
    "held-out features": told("held_out_features", 10**9),
    "labels of held-out data that are none": listed("held_out.labels", [3] * 120),
    "labels of held-out data that are objects": listed("held_out.labels", [[{}]] * 120),
    "held-out texts that are none": listed("held_out.texts", [[3]] * 120),
    "fewer held-out texts": listed("held_out.texts", ["a"]),
    "ids that are none": listed("ids", [[3]] * 62),
    "ids that are numbers": listed("ids", list(range(62))),
    "an id twice": listed("ids", ["a"] * 62),
    "fewer ids": listed("ids", ["a"]),
    "fewer texts": listed("texts", ["a"]),
    "names that are lists": listed("names", [[]] * 11),
    "names of two kinds": listed("names", [*"abcdefghij", 3]),
    "names twice": listed("names", ["a"] * 11),
    "arrived late": at("arrived", 0, 7),
    "arrived out of order": at("arrived", 0, 1),
    "arrived before": at("arrived", 0, -1),
    "left before it came": at("left", 0, 0),
    "left after the last": at("left", 0, 9),
    "arrived as floats": cast("arrived", np.float32),
    "left as long": cast("left", np.int64),
    "hashes as signed": cast("hashes", np.int64),
    "fewer hashes": cut("hashes"),
    "no hashes": without("hashes"),
    "row out of range": at("rows.indices", 0, 10**6),
    "row below 0": at("rows.indices", 0, -1),
    "rows that fall": at("rows.indptr", 3, 10**9),
    "rows that begin late": at("rows.indptr", 0, 1),
    "rows as short": cast("rows.indptr", np.int32),
    "value that is none": at("rows.values", 0, np.nan),
    "fewer values": cut("rows.values"),
    "label out of range": at("labels.indices", 0, 99),
    "solved later": at("solved.0.0", 0, 5),
    "solved before": at("solved.0.0", 0, -5),
    "solved as floats": cast("solved.0.0", np.float32),
    "no solved": without("solved.0.0"),
    "fewer solved": cut("solved.0.0"),
    "sizes of blocks": at("texts.sizes", 0, 2**62),
    "size below 0": at("texts.sizes", 0, -5),
    "counts": at("texts.counts", 0, 2**62),
    "counts below 0": at("texts.counts", 0, -1),
    "bytes": cut("texts.bytes"),
    "liar of ids": packed("ids", LIAR),
    "liar of names": packed("names", LIAR),
    "bomb of names": packed("names", BOMB),
}
LATE: dict[str, Change] = {
    "none": listed("texts", [3] * 62),
    "no frame": packed("texts", b"this is not zstandard"),
    "liar": packed("texts", LIAR),
    "unsized": packed("texts", UNSIZED),
    "bomb": packed("texts", BOMB),
    "deep": packed("texts", zstandard.compress(b"[" * 10**6)),
    "no JSON": packed("texts", zstandard.compress(b"{]")),
    "an object": packed("texts", zstandard.compress(b"{}")),
}


@pytest.mark.parametrize(
    ("name", "late"), [*((one, False) for one in CRAFTED), *((one, True) for one in LATE)]
)
def test_crafted_file_is_refused_and_takes_little_memory(model: Path, name: str, late: bool) -> None:
    file = read_model(data_of(model))
    sections, header = dict(file.sections), dict(file.header)
    (LATE if late else CRAFTED)[name](sections, header)
    write_model(data_of(model), sections, header, overwrite=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(refused(model, late)) < 1000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10  # KiB


def test_records_that_others_may_not_read_stay_private(model: Path) -> None:
    data_of(model).chmod(0o600)
    loaded = hedgerow.load(model)
    loaded.update(remove=["0-1"])
    loaded.save(model, overwrite=True)
    assert data_of(model).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("failing", range(1, 5))
def test_disk_that_fails_at_the_end_of_a_save_leaves_a_model_with_its_records(
    model: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the four calls that bring files and folders to disk, the last one comes when the model is there."""
    calls = []

    def sync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == failing:
            raise OSError("input/output error")

    loaded = hedgerow.load(model)
    loaded.update(remove=["0-1"])
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", sync)
        with pytest.raises(OSError, match="input/output"):
            loaded.save(model, overwrite=True)
    again = hedgerow.load(model)
    again.update(remove=["0-2"])
    assert again.n_samples_ == (60 if failing < 4 else 59)


def test_records_that_are_read_are_those_that_were_written(original: Path, tmp_path: Path) -> None:
    loaded = hedgerow.load(original)
    loaded.records()
    loaded.save(tmp_path / "m")
    assert (tmp_path / "m.data").read_bytes() == data_of(original).read_bytes()
    assert (tmp_path / "m").read_bytes() == original.read_bytes()


def test_texts_of_any_kind_are_kept_as_they_are(tmp_path: Path) -> None:
    texts, labels, ids = some_records()
    odd = ["", "\0\x1b[31m", "\N{DROMEDARY CAMEL} \u0301", "a" * 100_000, '{"a": [1]}']
    model = HedgerowTextClassifier(**SMALL).fit(
        texts + odd,
        labels + [["ash"]] * len(odd),
        ids=ids + [f"odd {one}" for one in range(5)],
        keep_records=True,
    )
    model.save(tmp_path / "m")
    table = hedgerow.load(tmp_path / "m").records()
    assert table.texts.values() == texts + odd
    assert table.ids.values()[-1] == "odd 4"
