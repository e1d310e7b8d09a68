"""The votes of an ensemble's members: what all models make and all measures read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.inputs.labels import add_label_sections, read_label_sections
from hedgerow.storage.container import Malformed, read_model, write_model

__all__ = ["Votes", "arrow_table", "check_votes"]


@dataclass(frozen=True, eq=False)
class Votes:
    """For each input some candidate labels, and for each of them the probabilities that the members give it.

    A label that is not a candidate of an input has probability 0 for every member, up to `bound`.

    Attributes
    ----------
    indptr : int64 array, shape (n + 1,)
        The candidates of input `i` are the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    labels : int32 array, shape (entries,)
        The candidates, ascending for each input.
    probs : float32 array, shape (entries, members)
        Their probabilities.
    n_labels : int
        Number of all labels.
    bound : float32 array, shape (n,), optional
        How far the mean probability of any label, candidate or not, may be from the one over all labels.
    missed : float32 array, shape (n,), optional
        How far the total uncertainty of the input may be from the one over all labels.
    classes : array, shape (n_labels,), optional
        Names of the labels; their numbers, if not given.
    unlearned : bool array, shape (n_labels,), optional
        Labels of which a single member has learned nothing: all uncertainty about them is lack of knowledge.
        Without it, members show what they do not know by disagreeing.

    Examples
    --------
    Members of any origin can vote: here two of them, on two inputs and three labels.

    >>> from scipy.sparse import csr_array
    >>> first = csr_array([[1.0, 0.0, 0.25], [0.0, 0.5, 0.0]])
    >>> second = csr_array([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]])
    >>> votes = Votes.from_members([first, second])
    >>> votes.members, len(votes)
    (2, 2)
    >>> votes.mean().toarray()
    array([[0.75 , 0.   , 0.125],
           [0.   , 0.5  , 0.   ]], dtype=float32)
    """

    indptr: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    probs: npt.NDArray[np.float32]
    n_labels: int
    bound: npt.NDArray[np.float32] | None = None
    missed: npt.NDArray[np.float32] | None = None
    classes: npt.NDArray[Any] | None = field(default=None, repr=False)
    unlearned: npt.NDArray[np.bool_] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # the object is frozen from here on
        set_(self, "indptr", _vector("indptr", self.indptr, np.int64))
        set_(self, "labels", _vector("labels", self.labels, np.int32))
        if isinstance(self.n_labels, bool) or not isinstance(self.n_labels, int | np.integer):
            raise TypeError(f"n_labels is {self.n_labels!r}; it must be an integer")
        if not 0 <= self.n_labels < 2**31:
            raise ValueError(f"n_labels is {self.n_labels}; it must be from 0 to 2**31 - 1")
        if np.iscomplexobj(self.probs):
            raise ValueError("probs has complex numbers; probabilities must be between 0 and 1")
        probs = np.ascontiguousarray(self.probs, dtype=np.float32)
        set_(self, "probs", probs)
        if probs.ndim != 2 or len(probs) != len(self.labels) or probs.shape[1] < 1:
            raise ValueError(
                f"probs has shape {probs.shape}; it needs a row for each of {len(self.labels)} candidates"
                " and a column for each member"
            )
        _check_rows(self.indptr, self.labels, self.n_labels)
        _check_probabilities(self.indptr, self.labels, probs)
        for name in ("bound", "missed"):
            values = getattr(self, name)
            if values is None:
                continue
            set_(self, name, _vector(name, values, np.float32))
            if len(getattr(self, name)) != len(self):
                raise ValueError(f"{name} has {len(values)} entries for {len(self)} inputs")
        if self.classes is not None:
            names = np.asarray(self.classes)
            set_(self, "classes", names if names.dtype.kind in "iu" else names.astype(object, copy=False))
            if self.classes.shape != (self.n_labels,):
                raise ValueError(f"there are {len(self.classes)} classes for {self.n_labels} labels")
        if self.unlearned is not None:
            set_(self, "unlearned", np.asarray(self.unlearned))
            if self.unlearned.shape != (self.n_labels,) or self.unlearned.dtype != np.bool_:
                raise ValueError(f"unlearned must have True or False for each of {self.n_labels} labels")

    @classmethod
    def from_members(cls, members: Sequence[Any], classes: npt.ArrayLike | None = None) -> Votes:
        """Votes from the predictions of models of any kind.

        Parameters
        ----------
        members : sequence of sparse matrices, shape (n, n_labels)
            The probabilities that each member gives; what is not stored is 0.
        classes : array, shape (n_labels,), optional
            Names of the labels.

        Returns
        -------
        Votes
        """
        if not members:
            raise ValueError("members is empty; give at least one matrix of probabilities")
        matrices = []
        for number, member in enumerate(members):
            matrix = sp.csr_array(member, dtype=np.float32)
            if matrix.shape != np.shape(members[0]):
                raise ValueError(
                    f"members[{number}] has shape {matrix.shape}, but members[0] has {np.shape(members[0])}"
                )
            matrix.sum_duplicates()
            matrices.append(matrix)
        rows, columns = matrices[0].shape
        # Every entry that any member has, numbered row by row.
        entries = [
            np.repeat(np.arange(rows, dtype=np.int64), np.diff(m.indptr)) * columns + m.indices
            for m in matrices
        ]
        union = np.unique(np.concatenate(entries))
        probs = np.zeros((len(union), len(matrices)), dtype=np.float32)
        for number, (matrix, own) in enumerate(zip(matrices, entries, strict=True)):
            probs[np.searchsorted(union, own), number] = matrix.data
        indptr = np.searchsorted(union, np.arange(rows + 1, dtype=np.int64) * columns)
        names = None if classes is None else np.asarray(classes)
        return cls(indptr, (union % columns).astype(np.int32), probs, columns, classes=names)

    @property
    def members(self) -> int:
        """Number of members."""
        return int(self.probs.shape[1])

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, rows: Any) -> Votes:
        """The votes on some inputs: a slice, a mask, or numbers of inputs."""
        chosen = np.arange(len(self))[rows]
        chosen = np.atleast_1d(chosen)
        sizes = np.diff(self.indptr)[chosen]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.repeat(self.indptr[chosen] - indptr[:-1], sizes) + np.arange(indptr[-1])
        return Votes(
            indptr,
            self.labels[entries],
            self.probs[entries],
            self.n_labels,
            None if self.bound is None else self.bound[chosen],
            None if self.missed is None else self.missed[chosen],
            self.classes,
            self.unlearned,
        )

    @staticmethod
    def concatenate(parts: Sequence[Votes]) -> Votes:
        """The votes of several batches, one after the other."""
        parts = list(parts)
        if not parts:
            raise ValueError("there is nothing to concatenate")
        first = parts[0]
        for number, part in enumerate(parts):
            check_votes(part, f"parts[{number}]")
            if (part.classes is None) != (first.classes is None) or not np.array_equal(
                part.classes if part.classes is not None else [],
                first.classes if first.classes is not None else [],
            ):
                raise ValueError(f"parts[{number}] has other label names than parts[0]")
            if not np.array_equal(_given(part.unlearned), _given(first.unlearned)):
                raise ValueError(f"parts[{number}] has learned of other labels than parts[0]")
            if (part.n_labels, part.members) != (first.n_labels, first.members):
                raise ValueError(
                    f"parts[{number}] has {part.n_labels} labels and {part.members} members, but parts[0] has"
                    f" {first.n_labels} and {first.members}"
                )
        offsets = np.cumsum([0, *(part.indptr[-1] for part in parts)])

        def joined(name: str) -> npt.NDArray[np.float32] | None:
            arrays = [getattr(part, name) for part in parts]
            return None if any(a is None for a in arrays) else np.concatenate(arrays)

        return Votes(
            np.concatenate(
                [[0], *(part.indptr[1:] + offset for part, offset in zip(parts, offsets, strict=False))]
            ),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.probs for part in parts]),
            first.n_labels,
            joined("bound"),
            joined("missed"),
            first.classes,
            first.unlearned,
        )

    def member(self, number: int) -> sp.csr_array:
        """The probabilities of one member, as a sparse matrix of shape (n, n_labels)."""
        if not 0 <= number < self.members:
            raise IndexError(f"there is no member {number}; there are {self.members}")
        return self._matrix(np.ascontiguousarray(self.probs[:, number]))

    def mean(self) -> sp.csr_array:
        """The mean probability over the members, as a sparse matrix of shape (n, n_labels)."""
        return self._matrix(self.means())

    def means(self) -> npt.NDArray[np.float32]:
        """The mean probability of each candidate over the members, in the order of `labels`."""
        means: npt.NDArray[np.float32] = self.probs.mean(axis=1, dtype=np.float64).astype(np.float32)
        return means

    def marks(self) -> npt.NDArray[np.uint8] | None:
        """Whether nothing was learned of the label of each candidate; None where `unlearned` is."""
        return None if self.unlearned is None else self.unlearned[self.labels].view(np.uint8)

    def but(self, **changed: Any) -> Votes:
        """The same votes but for some attributes. Nothing is checked: for votes made from sound ones."""
        made = object.__new__(Votes)
        vars(made).update(vars(self) | changed)
        return made

    def chosen(self, entries: npt.NDArray[np.intp]) -> Votes:
        """Only some of the candidates, by their ascending places; error bounds do not hold for them."""
        return self.but(
            indptr=np.searchsorted(entries, self.indptr),
            labels=self.labels[entries],
            probs=self.probs[entries],
            bound=None,
            missed=None,
            classes=None,
        )

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a row for each candidate: input, label, and a column for each member."""
        columns: dict[str, Any] = {
            "input": np.repeat(np.arange(len(self)), np.diff(self.indptr)),
            "label": self.labels if self.classes is None else self.classes[self.labels],
        }
        for number in range(self.members):
            columns[f"member_{number}"] = np.ascontiguousarray(self.probs[:, number])
        return arrow_table(columns)

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with the columns of `to_arrow`."""
        return self.to_arrow().to_pandas()

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the votes to a file, whole or not at all.

        Parameters
        ----------
        path : path-like
            The file.
        overwrite : bool
            Replace an existing file.
        """
        sections: dict[str, Any] = {"indptr": self.indptr, "labels": self.labels, "probs": self.probs}
        for name in ("bound", "missed"):
            if getattr(self, name) is not None:
                sections[name] = getattr(self, name)
        header: dict[str, Any] = {"kind": "votes", "labels": int(self.n_labels), "named": False}
        if self.unlearned is not None:
            sections["unlearned"] = self.unlearned.view(np.uint8)
        if self.classes is not None:
            header["named"] = True
            add_label_sections(self.classes, sections, header)
        write_model(path, sections, header, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Votes:
        """Read votes that `save` wrote.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        Votes
        """
        file = read_model(path)
        if file.header.get("kind") != "votes":
            raise Malformed(f"{os.fspath(path)} holds a model, not votes; open it with hedgerow.load")
        try:
            sections = file.sections
            return cls(
                sections["indptr"],
                sections["labels"],
                sections["probs"],
                file.header["labels"],
                sections.get("bound"),
                sections.get("missed"),
                read_label_sections(file) if file.header["named"] else None,
                _as_marks(sections.get("unlearned")),
            )
        except (LookupError, TypeError, ValueError) as error:
            raise Malformed(f"{file.path} does not hold whole votes: {error}") from error

    def _matrix(self, values: npt.NDArray[np.float32]) -> sp.csr_array:
        return sp.csr_array((values, self.labels, self.indptr), shape=(len(self), self.n_labels))


def _given(marks: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_]:
    return np.zeros(0, dtype=bool) if marks is None else marks


def _as_marks(section: npt.NDArray[Any] | None) -> npt.NDArray[np.bool_] | None:
    if section is None:
        return None
    if section.dtype != np.uint8 or (section > 1).any():
        raise ValueError("unlearned has other values than 0 and 1")
    return np.asarray(section).view(np.bool_)


def arrow_table(columns: dict[str, Any]) -> Any:
    """A `pyarrow.Table`, or an ImportError that says what to install."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("tables need pyarrow; install hedgerow[parquet]") from error
    return pyarrow.table(columns)


def check_votes(votes: object, name: str = "votes") -> None:
    """Raise TypeError for anything but votes."""
    if not isinstance(votes, Votes):
        raise TypeError(f"{name} is a {type(votes).__name__}; give Votes, such as predict_votes returns")


def _vector(name: str, values: Any, dtype: type[np.generic]) -> npt.NDArray[Any]:
    array = np.asarray(values)
    whole = np.issubdtype(dtype, np.integer)
    if array.ndim != 1 or (array.size and array.dtype.kind not in ("iu" if whole else "iuf")):
        kind = "integers" if whole else "numbers"
        raise ValueError(f"{name} must be a vector of {kind}; it has shape {array.shape}, type {array.dtype}")
    limits = np.iinfo(cast(Any, dtype)) if whole else None
    if limits and array.size and (array.max() > limits.max or array.min() < limits.min):
        raise ValueError(
            f"{name} has the value {max(array.max(), -array.min(), key=abs)}, which is out of range"
        )
    if not whole and not np.isfinite(array).all():
        raise ValueError(f"{name} has the value {array[~np.isfinite(array)][0]}")
    return np.ascontiguousarray(array, dtype=dtype)


def _check_rows(indptr: npt.NDArray[np.int64], labels: npt.NDArray[np.int32], n_labels: int) -> None:
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(labels) or (np.diff(indptr) < 0).any():
        raise ValueError(f"indptr must rise from 0 to the number of candidates, {len(labels)}")
    if not labels.size:
        return
    outside = np.flatnonzero((labels < 0) | (labels >= n_labels))
    if outside.size:
        row = int(np.searchsorted(indptr, outside[0], side="right")) - 1
        raise ValueError(f"input {row} has the label {labels[outside[0]]}, but there are {n_labels} labels")
    rising = np.diff(labels) > 0
    rising[indptr[1:-1][(indptr[1:-1] > 0) & (indptr[1:-1] < len(labels))] - 1] = True
    if not rising.all():
        at = int(np.flatnonzero(~rising)[0]) + 1
        row = int(np.searchsorted(indptr, at, side="right")) - 1
        raise ValueError(f"the labels of input {row} must ascend; {labels[at]} follows {labels[at - 1]}")


def _check_probabilities(
    indptr: npt.NDArray[np.int64], labels: npt.NDArray[np.int32], probs: npt.NDArray[np.float32]
) -> None:
    if not probs.size or (probs.min() >= 0 and probs.max() <= 1):  # not so with a NaN
        return
    at, member = np.argwhere(~((probs >= 0) & (probs <= 1)))[0].tolist()
    row = int(np.searchsorted(indptr, at, side="right")) - 1
    raise ValueError(
        f"member {member} gives label {labels[at]} of input {row} the probability {probs[at, member]};"
        " probabilities must be between 0 and 1"
    )
