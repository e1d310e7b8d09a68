"""From a user's inputs to the rows of features that trees see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow import _native
from hedgerow.features.analyzer import Analyzer
from hedgerow.features.damping import Damping
from hedgerow.features.tfidf import Reading as Tfidf
from hedgerow.features.tfidf import TfidfVectorizer, Wording, as_texts
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.training_record import Hashes, hash_texts
from hedgerow.progress import Progress, Stage

__all__ = [
    "MatrixReader",
    "Reader",
    "Reading",
    "TextReader",
    "TfidfReading",
    "checked_texts",
    "vectorizer_settings",
]

Sections = dict[str, npt.NDArray[Any]]

# Parameters of the vectoriser that model files have, and those that are there if they are not the default.
_NEEDED = ("ngrams", "min_count", "max_features", "sublinear")
_OPTIONAL = ("analyzer", "language", "char_ngrams")


@dataclass(frozen=True, eq=False)
class Reading:
    """Rows of features, for texts where asked for their wording, and with an encoder the embeddings."""

    rows: _native.Rows
    wording: Wording | None = None
    embeddings: npt.NDArray[Any] | None = None


class Reader(Protocol):
    """Turns inputs into rows of features; its kind is "features", "text" or "transformer".

    `knows_training`: the features were learned from the labels of all training inputs, so that every member
    knows even the inputs that its own sample lacks.
    """

    @property
    def kind(self) -> str: ...  # noqa: D102

    @property
    def width(self) -> int: ...  # noqa: D102

    @property
    def knows_training(self) -> bool: ...  # noqa: D102

    @property
    def has_pairs(self) -> bool:
        """Whether pairs of words are among the features."""

    @property
    def embedding_width(self) -> int | None:
        """Length of the one embedding of an input; None where there is none, or several."""

    def embed_names(
        self, names: Sequence[str], threads: int, progress: Stage | None
    ) -> npt.NDArray[Any] | None:
        """Names of labels as the encoder of the inputs sees them; None without `embedding_width`."""

    def inputs(self, X: Any) -> Any:
        """The inputs in a form that can be counted, cut and hashed."""

    def check(self, inputs: Any, threads: int) -> None:
        """Refuse inputs whose values cannot be read."""

    def hashes(self, inputs: Any, threads: int) -> Hashes:
        """A 64-bit hash of each input."""

    def read(
        self, inputs: Any, threads: int, *, wording: bool = False, progress: Progress | None = None
    ) -> Reading:
        """The features of inputs."""

    def plain_features(self, inputs: Any, threads: int) -> sp.csr_array:
        """One row per input, for explanations."""

    def feature_name(self, column: int) -> str | int:
        """What a feature is called."""

    def feature_names(self, inputs: Any, columns: npt.NDArray[np.int32]) -> list[str | int]:
        """The same of features that the one input has; words as it writes them."""

    def feature_field(self, column: int) -> str | None:
        """The field of a record that a feature belongs to; None where inputs have no fields."""

    @property
    def text_fields(self) -> tuple[str, ...] | None:
        """The texts of a record that are read; None where inputs have no fields."""

    def texts_apart(self, inputs: Any) -> list[tuple[str, ...]]:
        """All titles, say, and then all abstracts; empty where inputs are no texts."""

    def to_file(self) -> tuple[dict[str, Any], dict[str, Any], Sections]:
        """For a model file: fitted parameters, entries of the header, and arrays."""


@dataclass(frozen=True, eq=False)
class MatrixReader:
    """Inputs are rows of a matrix, whose values may be damped."""

    width: int
    damping: Damping | None = None
    kind = "features"
    text_fields = None
    knows_training = False
    has_pairs = False
    embedding_width = None

    def inputs(self, X: Any) -> Any:
        """The matrix as it is; lists become an array."""
        return X if hasattr(X, "shape") else np.asarray(X)

    def check(self, inputs: Any, threads: int) -> None:
        """Refuse values that are not finite numbers, and indices outside."""
        as_rows(inputs, columns=self.width, threads=threads)

    def hashes(self, inputs: Any, threads: int) -> Hashes:
        """Hashes of the rows."""
        return as_rows(inputs, columns=self.width, threads=threads).hashes(threads)

    def read(
        self, inputs: Any, threads: int, *, wording: bool = False, progress: Progress | None = None
    ) -> Reading:
        """The rows, checked."""
        return Reading(self.damped(as_rows(inputs, columns=self.width, threads=threads)))

    def damped(self, rows: _native.Rows) -> _native.Rows:
        """Rows as the trees see them."""
        return rows if self.damping is None else self.damping.apply(rows)

    def plain_features(self, inputs: Any, threads: int) -> sp.csr_array:
        """The rows as a sparse matrix."""
        rows = as_rows(inputs, columns=self.width, threads=threads)
        if self.damping is not None:
            indptr, indices, values, _ = self.damping.apply(rows).arrays()
            damped: Any = (values, indices, indptr)
            return sp.csr_array(damped, shape=(len(indptr) - 1, self.width))
        matrix: Any = inputs if sp.issparse(inputs) else np.asarray(inputs, dtype=np.float32)
        return sp.csr_array(matrix)

    def texts_apart(self, inputs: Any) -> list[tuple[str, ...]]:
        """Nothing: rows have no texts."""
        return []

    def embed_names(self, names: Sequence[str], threads: int, progress: Stage | None) -> None:
        """None: there is no encoder."""

    def feature_name(self, column: int) -> int:
        """The number of the column."""
        return column

    def feature_names(self, inputs: Any, columns: npt.NDArray[np.int32]) -> list[str | int]:
        """The numbers of the columns."""
        return list(columns.tolist())

    def feature_field(self, column: int) -> str | None:
        """None: rows have no fields."""
        return None

    def to_file(self) -> tuple[dict[str, Any], dict[str, Any], Sections]:
        """The weights of features that are damped; the trees know how many features there are."""
        return {}, {}, {} if self.damping is None else {"damping": self.damping.weights}

    @classmethod
    def from_file(cls, width: int, sections: Mapping[str, npt.NDArray[Any]]) -> MatrixReader:
        """Take back what `to_file` gave, after checking it."""
        if "damping" not in sections:
            return cls(width)
        return cls(width, Damping.from_section(sections["damping"], width))


class TfidfReading(ABC):
    """Reads inputs as their tf-idf, whatever it is made of."""

    embedding_width = None

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of terms."""

    @abstractmethod
    def tfidf(self, inputs: Any, threads: int, wording: bool = False) -> Tfidf:
        """Features and, where asked for, wording of the inputs."""

    def read(
        self, inputs: Any, threads: int, *, wording: bool = False, progress: Progress | None = None
    ) -> Reading:
        """tf-idf of the inputs."""
        found = self.tfidf(inputs, threads, wording)
        return Reading(as_rows(found.features, columns=self.width, threads=threads), found.wording)

    def plain_features(self, inputs: Any, threads: int) -> sp.csr_array:
        """tf-idf of the inputs."""
        return self.tfidf(inputs, threads).features

    def embed_names(self, names: Sequence[str], threads: int, progress: Stage | None) -> None:
        """None: there is no encoder."""
        return None


@dataclass(frozen=True, eq=False)
class TextReader(TfidfReading):
    """Inputs are texts: tf-idf of words and pairs of words."""

    vectorizer: TfidfVectorizer
    kind = "text"
    text_fields = None
    knows_training = False

    @property
    def width(self) -> int:
        """Number of terms."""
        return len(self.vectorizer.idf_)

    @property
    def has_pairs(self) -> bool:
        """Whether pairs of words are among the terms."""
        return self.vectorizer.has_pairs

    def inputs(self, X: Any) -> tuple[str, ...]:
        """The texts, all of them strings."""
        return checked_texts(X)

    def check(self, inputs: Any, threads: int) -> None:
        """Nothing: `inputs` refuses what is not a text."""

    def hashes(self, inputs: Any, threads: int) -> Hashes:
        """Hashes of the texts."""
        return hash_texts(inputs)

    def texts(self, inputs: Any) -> tuple[str, ...]:
        """The texts as they are."""
        return tuple(inputs)

    def texts_apart(self, inputs: Any) -> list[tuple[str, ...]]:
        """The texts as they are."""
        return [tuple(inputs)]

    def tfidf(self, inputs: Any, threads: int, wording: bool = False) -> Tfidf:
        """Features and, where asked for, wording of the texts."""
        return self.vectorizer.read(inputs, wording=wording, threads=threads)

    def feature_name(self, column: int) -> str:
        """The term of a column."""
        return self.vectorizer.feature_name(column)

    def feature_names(self, inputs: Any, columns: npt.NDArray[np.int32]) -> list[str | int]:
        """The terms as the text writes them, not as stems."""
        written = self.vectorizer.written(inputs[0])
        return [written.get(column) or self.feature_name(column) for column in columns.tolist()]

    def feature_field(self, column: int) -> str | None:
        """None: a text has no fields."""
        return None

    def describe(self) -> dict[str, Any]:
        """How texts are read, for people and programs."""
        return {"analyzer": self.vectorizer.analyzer_.to_header() or {"name": "word"}}

    def to_file(self) -> tuple[dict[str, Any], dict[str, Any], Sections]:
        """The vocabulary, the parameters it was fitted with, and the analyzer unless it is the old one."""
        arrays = {f"text.{name}": array for name, array in self.vectorizer.to_arrays().items()}
        analyzer = self.vectorizer.analyzer_.to_header()
        header = {} if analyzer is None else {"analyzer": analyzer}
        return {"sublinear": self.vectorizer.sublinear}, header, arrays

    @classmethod
    def from_file(cls, header: Mapping[str, Any], sections: Mapping[str, npt.NDArray[Any]]) -> TextReader:
        """Take back what `to_file` gave."""
        prefix = "text."
        arrays = {name[len(prefix) :]: a for name, a in sections.items() if name.startswith(prefix)}
        analyzer = Analyzer.from_header(header.get("analyzer"))
        settings = vectorizer_settings(header["parameters"])
        return cls(TfidfVectorizer.from_arrays(settings, arrays, analyzer))


def vectorizer_settings(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a model file's parameters that are for the vectoriser."""
    settings = {name: parameters[name] for name in _NEEDED}
    return settings | {name: parameters[name] for name in _OPTIONAL if name in parameters}


def checked_texts(X: Any) -> tuple[str, ...]:
    """The texts of an iterable; TypeError where something is not a string."""
    texts = as_texts(X)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"text {row} is of type {type(text).__name__}, not str")
    return texts  # type: ignore[return-value]
