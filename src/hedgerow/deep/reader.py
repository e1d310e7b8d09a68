"""Reads texts for the ranker: tf-idf of the words, and behind it the embeddings of fine-tuned encoders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.deep.embedding_cache import EmbeddingCache
from hedgerow.deep.encoder import DropoutPass, Encoder
from hedgerow.deep.features import join_features, unit_rows
from hedgerow.deep.passes import PassEnsemble
from hedgerow.deep.team import join_team
from hedgerow.features.field_reader import FieldReader
from hedgerow.features.readers import Reading, Sections, TextReader
from hedgerow.inputs.matrices import as_rows
from hedgerow.inputs.parameters import check_real
from hedgerow.inputs.training_record import Hashes
from hedgerow.progress import Progress, Stage
from hedgerow.trees.forest import Ensemble


@dataclass(frozen=True)
class Passes:
    """With MC dropout: how often the encoder is asked, and the share of units left out (None: its own)."""

    count: int
    seed: int
    dropout: float | None


@dataclass(frozen=True, eq=False)
class TransformerReader:
    """Inputs are texts; members share one encoder, or have one each.

    `weight` is the length of an embedding beside that of tf-idf. `scale` makes rows of length 1 here: with an
    encoder for each member, a row holds the embeddings of all and a member sees its own alone, so the engine
    cannot. `knows_training` says whether members know inputs through their encoders that their own samples
    lack. With MC dropout, an input is as many rows as there are `passes`. `device` and `cache` are of this
    machine: where encoders run, and where embeddings are kept.
    """

    words: TextReader | FieldReader
    encoders: tuple[Encoder, ...]
    weight: float
    scale: bool
    knows_training: bool
    passes: Passes | None = None
    device: str = "auto"
    cache: str | os.PathLike[str] | None = None
    kind = "transformer"

    @property
    def width(self) -> int:
        """Terms, and the widths of all embeddings."""
        return self.words.width + sum(encoder.width for encoder in self.encoders)

    @property
    def has_pairs(self) -> bool:
        """Whether pairs of words are among the terms."""
        return self.words.has_pairs

    @property
    def embedding_width(self) -> int | None:
        """Width of the encoder; None where members have one each, or a pass of it."""
        return self.encoders[0].width if len(self.encoders) == 1 and self.passes is None else None

    @property
    def text_fields(self) -> tuple[str, ...] | None:
        """The texts of a record that are read; None where inputs have no fields."""
        return self.words.text_fields

    def inputs(self, X: Any) -> tuple[Any, ...]:
        """The texts or records, checked."""
        return self.words.inputs(X)

    def check(self, inputs: Any, threads: int) -> None:
        """Nothing: `inputs` refuses what is not a text."""

    def hashes(self, inputs: Any, threads: int) -> Hashes:
        """Hashes of the texts."""
        return self.words.hashes(inputs, threads)

    def read(
        self, inputs: Any, threads: int, *, wording: bool = False, progress: Progress | None = None
    ) -> Reading:
        """Words and embeddings; with MC dropout, all passes of a text one after the other."""
        read = self.words.tfidf(inputs, threads, wording)
        only = None
        if self.passes is None:
            embeddings = self.embeddings(inputs, threads, progress)
            features = self.joined(read.features, embeddings)
            only = embeddings[0] if self.embedding_width is not None else None
        else:
            features = self._in_passes(self.words.texts(inputs), read.features, threads, progress)
        return Reading(as_rows(features, columns=self.width, threads=threads), read.wording, only)

    def plain_features(self, inputs: Any, threads: int) -> sp.csr_array:
        """One row per text, without dropout."""
        return self.joined(self.words.plain_features(inputs, threads), self.embeddings(inputs, threads, None))

    def texts_apart(self, inputs: Any) -> list[tuple[str, ...]]:
        """All titles, say, and then all abstracts."""
        return self.words.texts_apart(inputs)

    def feature_name(self, column: int) -> str:
        """The term of a column, or the place in the embedding."""
        words = self.words.width
        return self.words.feature_name(column) if column < words else f"embedding[{column - words}]"

    def feature_names(self, inputs: Any, columns: npt.NDArray[np.int32]) -> list[str | int]:
        """Terms as the text writes them, and places in the embedding."""
        own = columns < self.words.width
        named = self.words.feature_names(inputs, columns[own])
        return [*named, *(self.feature_name(column) for column in columns[~own].tolist())]

    def feature_field(self, column: int) -> str | None:
        """The field of a term; an embedding is of the whole record."""
        return self.words.feature_field(column) if column < self.words.width else None

    def embeddings(self, inputs: Any, threads: int, progress: Progress | None) -> list[npt.NDArray[Any]]:
        """The embeddings of inputs by each encoder; it reads the fields of a record as one text."""
        return self.embed_texts(self.words.texts(inputs), threads, progress)

    def embed_texts(
        self, texts: Sequence[str], threads: int, progress: Progress | None
    ) -> list[npt.NDArray[Any]]:
        """The same of plain texts."""
        self._place()
        count = len(self.encoders)
        return [
            self._embed(encoder, texts, threads, _part(progress, number, count))
            for number, encoder in enumerate(self.encoders)
        ]

    def embed_names(
        self, names: Sequence[str], threads: int, progress: Stage | None
    ) -> npt.NDArray[Any] | None:
        """Names as the one encoder sees them; None where there are several."""
        if self.embedding_width is None:
            return None
        self._place()
        encoder = self.encoders[0]
        asked: dict[str, Any] = {"threads": threads, "progress": progress}
        if self.cache is None:
            return encoder.embed_together(names, **asked)
        return EmbeddingCache(self.cache).embed_together(encoder, names, **asked)

    def joined(
        self, tfidf: sp.csr_array, embeddings: Sequence[npt.NDArray[Any]], places: Sequence[int] | None = None
    ) -> sp.csr_array:
        """Features with embeddings behind them; by default those of all encoders."""
        count = len(self.encoders)
        own = range(count) if places is None else places
        if self.words.text_fields is not None:  # several rows of length 1 beside each other
            tfidf = unit_rows(tfidf)
        return join_features(tfidf, embeddings, list(own), count, self.weight, self.scale)

    def to_file(self) -> tuple[dict[str, Any], dict[str, Any], Sections]:
        """Parameters as they were fitted, entries of the header, and arrays."""
        parameters, header, sections = self.words.to_file()
        first = self.encoders[0]
        header |= {
            "encoder": {
                "max_length": first.max_length,
                "pooling": first.pooling,
                "knows_all": self.knows_training,
                "weight": self.weight,
                "dropout": None if self.passes is None else self.passes.dropout,
            }
        }
        if self.passes is not None:
            header["passes"] = {"count": self.passes.count, "seed": self.passes.seed}
        for name, text in first.to_bytes().items():
            sections[f"encoder.{name}"] = text
        for number, encoder in enumerate(self.encoders):
            for name, weights in encoder.weights().items():
                sections[f"encoder.{number}/{name}"] = weights
        return parameters, header, sections

    def _in_passes(
        self, texts: Sequence[str], tfidf: sp.csr_array, threads: int, progress: Progress | None
    ) -> sp.csr_array:
        passes = self.passes or Passes(1, 0, None)
        self._place()
        each = []
        for number in range(passes.count):
            dropout = DropoutPass(number, passes.seed, passes.dropout)
            part = _part(progress, number, passes.count)
            each.append(self.joined(tfidf, [self._embed(self.encoders[0], texts, threads, part, dropout)]))
        order = np.arange(passes.count * len(texts)).reshape(passes.count, len(texts)).T.ravel()
        return sp.csr_array(sp.vstack(each, format="csr")[order])

    def _embed(
        self,
        encoder: Encoder,
        texts: Sequence[str],
        threads: int,
        progress: Stage | None,
        dropout: DropoutPass | None = None,
    ) -> npt.NDArray[Any]:
        asked: dict[str, Any] = {"threads": threads, "progress": progress, "dropout": dropout}
        if self.cache is None:
            return encoder.embed(texts, **asked)
        return EmbeddingCache(self.cache).embed(encoder, texts, **asked)

    def _place(self) -> None:
        device = join_team(self.device).device
        for encoder in self.encoders:
            if encoder.device != device:
                encoder.model.to(device)


def expect_embeddings(forest: Ensemble, reader: TransformerReader, threads: int) -> None:
    """Let the engine find the columns of the embedding without a lookup: every row has them all.

    Of several encoders, a member has its own: it need not look at the columns of the others.
    """
    words, width = reader.words.width, reader.encoders[0].width
    for number, tree in enumerate(forest.trees):
        first = words + (width * number if len(reader.encoders) > 1 else 0)
        tree.native.expect(words, first, first + width, threads)


def open_reader(
    words: TextReader | FieldReader,
    forest: Ensemble,
    header: Mapping[str, Any],
    sections: Mapping[str, npt.NDArray[Any]],
) -> tuple[TransformerReader, Ensemble]:
    """Take back what `TransformerReader.to_file` gave, after checking it, with the forest that it needs."""
    about, parameters = header["encoder"], header["parameters"]
    if type(about["max_length"]) is not int or about["max_length"] < 3:
        raise ValueError(f"the encoder has the impossible length {about['max_length']!r}")
    # Where a file does not say what was fitted, it is what the parameters say.
    weight = about.get("weight", parameters["embedding_weight"])
    dropout = about.get("dropout", parameters["dropout"])
    check_real("embedding_weight", weight, above=0)
    if dropout is not None:
        check_real("dropout", dropout, above=0, below=1)
    encoders = []
    for number in range(parameters["encoders"]):
        prefix = f"encoder.{number}/"
        weights = {name[len(prefix) :]: a for name, a in sections.items() if name.startswith(prefix)}
        encoders.append(
            Encoder.from_bytes(
                sections["encoder.tokenizer"],
                sections["encoder.config"],
                weights,
                about["pooling"],
                about["max_length"],
            )
        )
    passes = None
    if parameters["method"] == "mc-dropout":
        stored = header["passes"]
        if type(stored["count"]) is not int or type(stored["seed"]) is not int or stored["count"] < 1:
            raise ValueError("the passes of the encoder are not numbers")
        passes = Passes(stored["count"], stored["seed"], dropout)
        forest = PassEnsemble(forest.trees, forest.labels, passes.count)
    scale = parameters["normalize"] and len(encoders) > 1
    knows_all = bool(about.get("knows_all", len(encoders) == 1))
    reader = TransformerReader(words, tuple(encoders), float(weight), scale, knows_all, passes)
    if reader.width != forest.features:
        raise ValueError("vocabulary, encoders and weights differ in their number of features")
    expect_embeddings(forest, reader, 0)
    return reader, forest


def _part(progress: Progress | None, number: int, count: int) -> Stage | None:
    if progress is None:
        return None
    return lambda share: progress((number + share) / count, "embedding")
