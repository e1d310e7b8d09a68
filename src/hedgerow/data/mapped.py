"""Features and labels as plain arrays in a folder, which are mapped into memory and not read.

For each part, ``X.trn.indptr.npy``, ``X.trn.indices.npy``, ``X.trn.data.npy`` and ``X.trn.shape.npy`` hold
a CSR matrix, and ``Y.trn.indptr.npy``, ``Y.trn.indices.npy`` and ``Y.trn.shape.npy`` the labels. Label names,
if there are any, are in ``output-items.txt``, as in a PECOS folder.
"""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from hedgerow import _native
from hedgerow.progress import Stage
from hedgerow.storage.atomic_file import atomic_file, check_target

from .errors import DataError, reading_arrays, reading_matrix
from .label_space import name_columns, read_names
from .lines import read_lines
from .part import Part, csr
from .part_files import find_file, short_name
from .reading import Reading
from .xmc_text import read_rows

_TYPES: dict[str, np.dtype[Any]] = {
    "indptr": np.dtype("<i8"),
    "indices": np.dtype("<i4"),
    "data": np.dtype("<f4"),
}
# Length of the header of an array that grows while it is written.
_HEADER_BYTES = 128
_READ_BYTES = 1 << 24
_FAULTS = {
    "indptr": "the rows are cut wrongly",
    "range": "an index is out of range",
    "order": "indices do not ascend; call sort_indices() before the matrix is saved",
    "duplicate": "an entry is stored twice; call sum_duplicates() before the matrix is saved",
    "finite": "a value is not a finite 32-bit float; clean or scale the matrix",
}


def read_mapped(features: Path, labels: Path | None, names: Path | None, reading: Reading) -> Part:
    """Map one part of a folder, given its ``X.trn.indptr.npy`` and ``Y.trn.indptr.npy``.

    The matrices are views of the files. With 2**31 entries or more, scipy makes copies in memory.
    """
    X = _map_matrix(features, reading.threads)
    if labels is None:
        return Part(X=X)
    Y = _map_matrix(labels, reading.threads)
    if X.shape[0] != Y.shape[0]:
        raise DataError(labels, f"has {Y.shape[0]} rows, but {features} has {X.shape[0]}")
    if names is None:
        return Part(X=X, Y=Y, label_names=name_columns(labels, Y.shape[1], reading.label_names))
    own = read_names(names, labels, Y.shape[1])
    if reading.label_names is not None and list(reading.label_names) != own:
        raise DataError(
            names, "has other labels than the model; mapped data must have the same, in the same order"
        )
    return Part(X=X, Y=Y, label_names=own)


def map_data(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    part: str = "train",
    *,
    overwrite: bool = False,
    threads: int = 0,
    progress: Stage | None = None,
) -> None:
    r"""Write features and labels as arrays that can be mapped, without ever holding them in memory.

    Parameters
    ----------
    source : path-like
        A folder of PECOS (``X.trn.npz``, ``Y.trn.npz``) or of the extreme classification repository
        (``train.txt``), or such a text file.
    folder : path-like
        Where the arrays go; created if it does not exist.
    part : {"train", "test"}, default "train"
        Which part.
    overwrite : bool, default False
        Whether arrays that are there already are replaced.
    threads : int, default 0
        Threads that parse; 0 means all processors.
    progress : callable(share), optional
        Called with the share of a text file that was read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from hedgerow.data import read_part
    >>> folder = tempfile.TemporaryDirectory()
    >>> source = pathlib.Path(folder.name, "train.txt")
    >>> _ = source.write_text("2 3 2\n0 0:1 2:0.5\n0,1 1:2\n")
    >>> map_data(source, folder.name + "/mapped")
    >>> read_part(folder.name + "/mapped").X.toarray()
    array([[1. , 0. , 0.5],
           [0. , 2. , 0. ]], dtype=float32)
    >>> folder.cleanup()
    """
    source, folder = Path(source), Path(folder)
    short = short_name(part)
    text, matrices = source, None
    if not source.is_file():
        features, labels = (find_file(source, part, f"{matrix}.{{}}.npz", packed=False) for matrix in "XY")
        found = find_file(source, part, "{}.txt")
        if features is not None and labels is not None:
            matrices = features, labels
        elif found is not None:
            text = found
        else:
            raise DataError(
                source, f"has neither X.{short}.npz and Y.{short}.npz nor {part}.txt to be mapped"
            )
    folder.mkdir(parents=True, exist_ok=True)
    items = None if matrices is None else find_file(source, part, "output-items.txt")
    names = None if items is None else "".join(f"{name}\n" for _, name in read_lines(items)).encode()
    own_names = folder / "output-items.txt"
    if own_names.exists() and own_names.read_bytes() != names and not overwrite:
        raise DataError(own_names, f"has other labels than {source}; map it into another folder")
    shapes = [folder / f"{matrix}.{short}.shape.npy" for matrix in "XY"]
    for shape in shapes:
        check_target(shape, overwrite)
    with contextlib.ExitStack() as files:
        X = _Matrix(files, folder, f"X.{short}", ("indptr", "indices", "data"), overwrite)
        Y = _Matrix(files, folder, f"Y.{short}", ("indptr", "indices"), overwrite)
        if matrices is not None:
            for matrix, path in zip((X, Y), matrices, strict=True):
                matrix.copy_npz(path)
        else:
            _copy_text(text, X, Y, threads, progress)
        # A matrix without its shape cannot be read: until all is there, nobody can take the old for the new.
        for shape in shapes:
            shape.unlink(missing_ok=True)
    if names is not None:
        with atomic_file(own_names, overwrite=True) as file:
            file.write(names)
    else:
        own_names.unlink(missing_ok=True)
    for path, matrix in zip(shapes, (X, Y), strict=True):
        with atomic_file(path) as file:
            np.save(file, np.array(matrix.shape, dtype=np.int64))


def _copy_text(path: Path, X: _Matrix, Y: _Matrix, threads: int, progress: Stage | None) -> None:
    for shape, arrays in read_rows(path, threads, progress):
        x_indptr, x_indices, x_values, y_indptr, y_indices = arrays
        X.append(indptr=x_indptr, indices=x_indices, data=x_values)
        Y.append(indptr=y_indptr, indices=y_indices)
        X.shape, Y.shape = (shape[0], shape[1]), (shape[0], shape[2])


class _Matrix:
    """The arrays of a matrix, in files that grow and appear as a whole at the end."""

    def __init__(
        self,
        files: contextlib.ExitStack,
        folder: Path,
        name: str,
        arrays: tuple[str, ...],
        overwrite: bool,
    ) -> None:
        self.shape = (0, 0)
        self._entries = 0
        self._arrays = {
            array: files.enter_context(_growing(folder / f"{name}.{array}.npy", _TYPES[array], overwrite))
            for array in arrays
        }
        self._arrays["indptr"].write(np.zeros(1, dtype=_TYPES["indptr"]).data)

    def append(self, **arrays: npt.NDArray[Any]) -> None:
        """Add rows; their indptr begins with 0."""
        indptr = arrays.pop("indptr")
        self._arrays["indptr"].write((indptr[1:] + self._entries).astype(_TYPES["indptr"]).data)
        self._entries += int(indptr[-1])
        for name, array in arrays.items():
            self._arrays[name].write(np.ascontiguousarray(array, dtype=_TYPES[name]).data)

    def copy_npz(self, path: Path) -> None:
        """Take over a matrix as scipy and PECOS save it, unpacking it on the way."""
        with reading_matrix(path):
            with np.load(path, allow_pickle=False) as file:
                kind, shape = file["format"].item(), file["shape"]
            if kind not in ("csr", b"csr"):
                raise DataError(
                    path, f"has the format {kind!r}; convert the matrix to csr before it is saved"
                )
            self.shape = _shape_of(shape)
            with zipfile.ZipFile(path) as archive:
                for name in ("indptr", "indices", "data"):
                    for number, piece in enumerate(_pieces_of(archive, f"{name}.npy")):
                        self._copy(path, name, piece[1:] if name == "indptr" and not number else piece)

    def _copy(self, path: Path, name: str, piece: npt.NDArray[Any]) -> None:
        if name == "data" and "data" not in self._arrays:
            if not piece.all():
                raise DataError(path, "stores zeros; call eliminate_zeros() before the matrix is saved")
            return
        if name == "indices" and piece.size and (piece.min() < 0 or piece.max() >= self.shape[1]):
            raise DataError(path, f"has an index out of range: there are {self.shape[1]} columns")
        with np.errstate(over="ignore"):
            self._arrays[name].write(np.ascontiguousarray(piece, dtype=_TYPES[name]).data)


def _shape_of(shape: npt.NDArray[Any]) -> tuple[int, int]:
    """The shape of a matrix in an npz file, if a mapped one can have it."""
    rows, columns = (int(size) for size in shape.tolist())
    if not (0 <= rows < 2**31 and 0 <= columns < 2**31):
        raise ValueError(f"it has the shape {(rows, columns)}")
    return rows, columns


def _pieces_of(archive: zipfile.ZipFile, name: str) -> Iterator[npt.NDArray[Any]]:
    """An array of an npz file, piece by piece."""
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if len(shape) != 1 or dtype.hasobject or dtype.kind not in "biuf":
            raise ValueError(f"{name} has the type {dtype} and {len(shape)} dimensions")
        if shape[0] < 0:
            raise ValueError(f"{name} has {shape[0]} entries")
        left = shape[0]
        while left:
            count = min(left, _READ_BYTES // dtype.itemsize)
            data = file.read(count * dtype.itemsize)
            if len(data) != count * dtype.itemsize:
                raise EOFError(f"{name} ends too early")
            yield np.frombuffer(data, dtype=dtype)
            left -= count


@contextlib.contextmanager
def _growing(path: Path, dtype: np.dtype[Any], overwrite: bool) -> Iterator[BinaryIO]:
    """A file of one array, whose length is known and written at the end."""
    with atomic_file(path, overwrite) as file:
        file.write(b" " * _HEADER_BYTES)
        yield file
        count = (file.tell() - _HEADER_BYTES) // dtype.itemsize
        about = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({count},), }}"
        room = _HEADER_BYTES - 10
        file.seek(0)
        file.write(b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + f"{about:{room - 1}}\n".encode())


def _map_matrix(path: Path, threads: int) -> csr_array:
    """Map the arrays beside an indptr, and check all that a damaged file could get wrong."""
    stem = path.name.removesuffix(".indptr.npy")
    indptr, indices = _map(path, np.int64), _map(path.with_name(f"{stem}.indices.npy"), np.int32)
    values = _map(path.with_name(f"{stem}.data.npy"), np.float32) if stem.startswith("X.") else None
    shape = _map(path.with_name(f"{stem}.shape.npy"), np.int64)
    sound = (
        shape.shape == (2,)
        and 0 <= shape.min() <= shape.max() < 2**31
        and indptr.shape == (shape[0] + 1,)
        and indices.shape == (indptr[-1],)
        and (values is None or values.shape == indices.shape)
    )
    if not sound:
        raise DataError(
            path,
            f"its arrays do not make a matrix of shape {tuple(shape)}; make them again with hedgerow map",
        )
    columns = int(shape[1])
    if fault := _native.Rows(indptr, indices, values, columns).fault(threads):
        kind, row, column, _ = fault
        raise DataError(path, f"row {row}, column {column}: {_FAULTS[kind]}")
    # One number for all labels: there is nothing to store.
    ones = np.broadcast_to(np.float32(1), indices.shape)
    return csr(ones if values is None else values, indices, indptr, columns)


def _map(path: Path, dtype: type[np.generic]) -> npt.NDArray[Any]:
    with reading_arrays(path, "cannot be mapped", "make it with hedgerow map"):
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):  # an archive of arrays
            raise ValueError("it holds more than one array")
    if array.dtype != dtype or array.ndim != 1:
        raise DataError(
            path, f"has the type {array.dtype} and {array.ndim} dimensions; make it with hedgerow map"
        )
    return array
