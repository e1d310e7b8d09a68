"""The file of records beside a model: MODEL.data."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.records.packed import Packed
from hedgerow.records.table import STAYS, HeldOutRecords, RecordTable, Step, check_texts
from hedgerow.storage.atomic_file import copy_whole
from hedgerow.storage.container import ModelFileError, read_model, write_model

__all__ = [
    "NoRecordsError",
    "before",
    "beside",
    "carry_records",
    "drop_records",
    "find_records",
    "forgetting",
    "name_forgetting",
    "name_records",
    "next_to",
    "read_records",
    "settle_records",
    "write_records",
]

_KIND = "records"
# Arguments of `learn_from_held_out` that are kept.
_SETTINGS = {"method", "by", "of", "share", "seed", "least_depth", "centroids"}


class NoRecordsError(ValueError):
    """There are no records beside a model, or they are those of another one."""


def beside(model: str | os.PathLike[str]) -> Path:
    """Where the records of a model are."""
    return Path(f"{os.fspath(model)}.data")


def write_records(table: RecordTable, of: str, path: str | os.PathLike[str]) -> None:
    """Write the records of the model with this hash, whole or not at all; an older file is replaced."""
    sections: dict[str, npt.NDArray[Any]] = table.ids.to_sections("ids")
    if table.texts is not None:
        sections |= table.texts.to_sections("texts")
    for name, matrix in (("rows", table.rows), ("labels", table.labels)):
        sections[f"{name}.indptr"] = np.asarray(matrix.indptr, dtype=np.int64)
        sections[f"{name}.indices"] = np.asarray(matrix.indices, dtype=np.int32)
    sections["rows.values"] = np.asarray(table.rows.data, dtype=np.float32)
    sections |= Packed.of(table.names).to_sections("names")
    sections |= {"arrived": table.arrived, "left": table.left, "hashes": table.hashes}
    for tree, layers in enumerate(table.solved):
        sections |= {f"solved.{tree}.{layer}": when for layer, when in enumerate(layers)}
    header: dict[str, Any] = {
        "kind": _KIND,
        "of": of,
        "inputs": table.kind,
        "records": len(table.arrived),
        "features": table.rows.shape[1],
        "base_names": table.base_names,
        "layers": [len(layers) for layers in table.solved],
        "steps": [step.to_header() for step in table.steps],
    }
    if table.held_out is not None:
        held_out = table.held_out
        header["held_out"] = held_out.settings
        sections |= Packed.of(held_out.labels).to_sections("held_out.labels")
        if not isinstance(held_out.inputs, list):
            sections |= _matrix_sections("held_out.rows", held_out.inputs)
            header["held_out_features"] = held_out.inputs.shape[1]
        else:
            sections |= Packed.of(held_out.inputs).to_sections("held_out.texts")
    write_model(path, sections, header, overwrite=True)


def read_records(path: str | os.PathLike[str], verify: bool = True) -> tuple[RecordTable, str]:
    """The records in a file, and the hash of the model that they belong to."""
    file = read_model(path, verify=verify)
    header, sections = file.header, file.sections
    try:
        if header["kind"] != _KIND or type(header["of"]) is not str:
            raise ValueError("it has no records")
        if header["inputs"] not in ("texts", "features"):
            raise ValueError("its inputs are neither texts nor features")
        ids = Packed.from_sections("ids", sections)
        names = Packed.from_sections("names", sections).values()
        if {type(name) for name in names} not in ({str}, {int}) or len(set(names)) != len(names):
            raise ValueError("its labels are broken")
        records, features = header["records"], header["features"]
        texts = Packed.from_sections("texts", sections) if header["inputs"] == "texts" else None
        rows = _matrix("rows", sections, (records, features), sections["rows.values"])
        indicator = _matrix("labels", sections, (records, len(names)), None)
        arrived, left, hashes = (sections[name] for name in ("arrived", "left", "hashes"))
        if any(array.shape != (records,) for array in (arrived, left, hashes)) or len(ids) != records:
            raise ValueError("its records differ in number")
        if texts is not None and len(texts) != records:
            raise ValueError("its texts differ in number")
        if arrived.dtype != np.int32 or left.dtype != np.int32 or hashes.dtype != np.uint64:
            raise ValueError("its records have the wrong types")
        steps = tuple(map(Step.from_header, header["steps"]))
        if any({type(label) for label in step.labels} - {type(names[0])} for step in steps):
            raise ValueError("its labels are broken")
        if (arrived < 0).any() or (arrived > len(steps)).any() or (np.diff(arrived) < 0).any():
            raise ValueError("its records came at impossible times")
        if (left <= arrived).any() or ((left > len(steps)) & (left != STAYS)).any():
            raise ValueError("its records left at impossible times")
        _check_ids(ids.values(), left)
        solved = tuple(
            tuple(_times(sections[f"solved.{tree}.{layer}"], len(steps)) for layer in range(layers))
            for tree, layers in enumerate(header["layers"])
        )
        held_out = _held_out(header, sections)
        if type(header["base_names"]) is not int or not 0 <= header["base_names"] <= len(names):
            raise ValueError("its labels are broken")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelFileError(
            f"{os.fspath(path)} does not hold whole records: {error}; get the file again"
        ) from error
    table = RecordTable(
        header["inputs"],
        ids,
        texts,
        rows,
        names,
        indicator,
        arrived,
        left,
        hashes,
        steps,
        solved,
        held_out,
        header["base_names"],
    )
    return table, header["of"]


def settle_records(model: str | os.PathLike[str], of: str) -> Path:
    """The file of records that belongs to a model, whichever change of models was killed in the middle.

    An update writes MODEL.data.next, then MODEL, and then gives the records their name; a promotion and a
    rollback change MODEL first. Which of the files belongs to MODEL shows how far that came; the records of
    another model are kept as MODEL.data.previous, for a rollback. Where a record was forgotten, they wait as
    MODEL.data.forgetting, and all others are deleted.
    """
    current = beside(model)
    waiting, previous = next_to(current), before(current)
    if _belongs(forgetting(current), of):
        name_forgetting(current)
        return current
    if _belongs(current, of):
        waiting.unlink(missing_ok=True)
        forgetting(current).unlink(missing_ok=True)
        return current
    for other in (waiting, previous):
        if _belongs(other, of):
            if not current.exists():
                os.replace(other, current)
            elif other == waiting:
                os.replace(current, previous)
                os.replace(waiting, current)
            else:
                os.replace(current, waiting)
                os.replace(previous, current)
                os.replace(waiting, previous)
            break
    return current


def find_records(model: str | os.PathLike[str], of: str) -> Path | None:
    """The file that holds the records of the model with this hash, under whichever of its names."""
    current = beside(model)
    places = (current, forgetting(current), next_to(current), before(current))
    return next((path for path in places if _belongs(path, of)), None)


def name_records(current: Path) -> None:
    """Give records that waited for their model their name."""
    os.replace(next_to(current), current)


def name_forgetting(current: Path) -> None:
    """Give records without what was forgotten their name, and delete those that still have it."""
    before(current).unlink(missing_ok=True)
    next_to(current).unlink(missing_ok=True)
    os.replace(forgetting(current), current)


def forgetting(path: Path) -> Path:
    """Where records wait from which some were forgotten."""
    return Path(f"{path}.forgetting")


def carry_records(new: str | os.PathLike[str], model: str | os.PathLike[str]) -> None:
    """Put the records of a new model where they are found once it has taken the place of another."""
    if beside(new).exists():
        copy_whole(beside(new), next_to(beside(model)))


def before(path: Path) -> Path:
    """Where the records of the model are that was replaced."""
    return Path(f"{path}.previous")


def _belongs(path: Path, of: str) -> bool:
    try:
        return path.exists() and read_model(path, verify=False).header.get("of") == of
    except ModelFileError:
        return False


def drop_records(model: str | os.PathLike[str]) -> None:
    """Delete the records of a model that was replaced by one without; any other file stays."""
    current = beside(model)
    for path in (current, next_to(current), before(current), forgetting(current)):
        with contextlib.suppress(ModelFileError, OSError):
            if read_model(path, verify=False).header.get("kind") == _KIND:
                path.unlink()


def next_to(path: Path) -> Path:
    """Where records wait for their model to be written."""
    return Path(f"{path}.next")


def _matrix_sections(name: str, matrix: sp.csr_array) -> dict[str, npt.NDArray[Any]]:
    return {
        f"{name}.indptr": np.asarray(matrix.indptr, dtype=np.int64),
        f"{name}.indices": np.asarray(matrix.indices, dtype=np.int32),
        f"{name}.values": np.asarray(matrix.data, dtype=np.float32),
    }


def _matrix(
    name: str,
    sections: Mapping[str, npt.NDArray[Any]],
    shape: tuple[int, int],
    values: npt.NDArray[Any] | None,
) -> sp.csr_array:
    indptr, indices = sections[f"{name}.indptr"], sections[f"{name}.indices"]
    if any(type(length) is not int or not 0 <= length < 2**31 for length in shape):
        raise ValueError(f"{name} has an impossible shape")
    if indptr.dtype != np.int64 or indices.dtype != np.int32 or indptr.shape != (shape[0] + 1,):
        raise ValueError(f"{name} has the wrong types")
    if indptr[0] != 0 or int(indptr[-1]) != indices.size or (np.diff(indptr) < 0).any():
        raise ValueError(f"{name} is cut wrongly")
    if indices.size and not 0 <= indices.min() <= indices.max() < shape[1]:
        raise ValueError(f"{name} has a column out of range")
    if values is None:
        values = np.ones(indices.size, dtype=np.int8)
    elif values.dtype != np.float32 or values.shape != indices.shape or not np.isfinite(values).all():
        raise ValueError(f"{name} has values that are no numbers")
    # scipy would widen all indices to the type of the row starts.
    narrow = indptr.astype(np.int32) if indices.size < 2**31 else indptr
    return sp.csr_array((values, indices, narrow), shape=shape)


def _times(when: npt.NDArray[Any], steps: int) -> npt.NDArray[np.int32]:
    if when.dtype != np.int32 or when.ndim != 1 or (when.size and not 0 <= when.min() <= when.max() <= steps):
        raise ValueError("classifiers were trained at impossible times")
    return when


def _check_ids(ids: list[Any], left: npt.NDArray[np.int32]) -> None:
    """Ids are strings, and no two records that are there have the same."""
    if any(id is not None and type(id) is not str for id in ids):
        raise ValueError("its ids are broken")
    there = [id for id, until in zip(ids, left.tolist(), strict=True) if id is not None and until == STAYS]
    if len(set(there)) != len(there):
        raise ValueError("two of its records have the same id")


def _held_out(header: Mapping[str, Any], sections: Mapping[str, npt.NDArray[Any]]) -> HeldOutRecords | None:
    if "held_out" not in header:
        return None
    labels = Packed.from_sections("held_out.labels", sections).values()
    if any(type(own) is not list or any(type(one) not in (str, int) for one in own) for own in labels):
        raise ValueError("the labels of held-out inputs are broken")
    inputs: Any
    if "held_out_features" in header:
        shape = (len(labels), header["held_out_features"])
        inputs = _matrix("held_out.rows", sections, shape, sections["held_out.rows.values"])
    else:
        inputs = Packed.from_sections("held_out.texts", sections).values()
        if len(inputs) != len(labels):
            raise ValueError("the held-out inputs and their labels differ in number")
        check_texts(inputs)
    settings = header["held_out"]
    if type(settings) is not dict or not settings.keys() <= _SETTINGS:
        raise ValueError("the settings for held-out inputs are broken")
    if any(value is not None and type(value) not in (str, int, float, bool) for value in settings.values()):
        raise ValueError("the settings for held-out inputs are broken")
    return HeldOutRecords(inputs, labels, settings)
