"""The second judge: it knows which names an input has, and proposes labels by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtri

from hedgerow import _native
from hedgerow.features.name_matcher import NameMatcher
from hedgerow.judge.boosting import BoostedTrees
from hedgerow.judge.label_text import NEAR_EVIDENCE, LabelText, NoLabelText
from hedgerow.judge.name_matches import LabelRecord, Matched, find_names, number_names
from hedgerow.judge.name_vectors import NameVectors

__all__ = [
    "NAMED_EVIDENCE",
    "NameJudge",
    "NamedCandidates",
    "NamedInputs",
    "Said",
    "judged_log_odds",
    "named_candidates",
    "plain_log_odds",
]

# Candidates of an input that are judged again, its best ones, and labels that names propose besides.
_BEST, _PROPOSED = 100, 30
_LOG_ODDS = (-20.0, 13.5)
_UNHEARD = -14.0  # the log-odds where members, or names, say nothing
# What the judge sees of a candidate, before what `number_names` tells of its name.
NAMED_EVIDENCE = (
    "members",
    "name",
    "members to the best",
    "name to the best",
    "expected labels",
    "rank",
    "frequency",
)
# Of labels without an example, the judge learns from a few hundred right ones only, and is too sure of what
# it says: so much of their log-odds counts, and so much is added.
_NEW_SHARE, _NEW_MORE = 0.8, 0.15
# Members that have learned nothing of a label give it next to nothing, but not the same: so far apart are
# their log-odds, and less the more examples of the label they know.
_NOTHING, _APART = -58.0, 5.0


@dataclass(frozen=True, eq=False)
class Said:
    """What has been said of candidates, in CSR form with ascending labels: log-odds."""

    indptr: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    log_odds: npt.NDArray[np.float64]

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The input of each candidate."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


@dataclass(frozen=True, eq=False)
class NamedInputs:
    """What names are looked for in.

    Attributes
    ----------
    texts : sequence of tuple of str
        The texts of all inputs, such as the titles, and then the abstracts.
    embeddings : array, shape (inputs, width), or None
        What an encoder makes of each input, where there is one.
    """

    texts: Sequence[tuple[str, ...]]
    embeddings: npt.NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class NamedCandidates:
    """Candidates that are judged by their names: the best of those found, and those that names propose.

    Attributes
    ----------
    rows : int64 array, shape (entries,)
        Their inputs, ascending.
    labels : int32 array, shape (entries,)
        Ascending in each input.
    places : int64 array, shape (entries,)
        Where each stands among those found; -1 for what only its name proposes.
    evidence : float32 array, shape (entries, numbers)
        `NAMED_EVIDENCE`, then what `number_names` tells, and with vectors of names `NEAR_EVIDENCE`.
    """

    rows: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    places: npt.NDArray[np.int64]
    evidence: npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class NameJudge:
    """Judges candidates again, with the names that inputs have, and proposes labels that only names suggest.

    Attributes
    ----------
    matcher : NameMatcher
        Finds names of vocabulary entries.
    columns : int32 array
        The label of each entry.
    record : LabelRecord
        How labels and their names have done in training.
    lexical : BoostedTrees
        The log-odds of a label by how its name is found.
    judge : BoostedTrees
        The log-odds of a candidate.
    texts : int
        How many texts an input has.
    rows : int
        The number of inputs that the judge was learned from.
    before, after : float
        nDCG@5 without names and with them, on inputs that the judge was not learned from.
    label_text : LabelText or None
        Compares names and inputs by the encoder that reads the inputs; None without.
    no_label_text : NoLabelText or None
        What was measured where that was tried and left out.
    """

    matcher: NameMatcher
    columns: npt.NDArray[np.int32]
    record: LabelRecord
    lexical: BoostedTrees
    judge: BoostedTrees
    texts: int
    rows: int
    before: float
    after: float
    label_text: LabelText | None = None
    no_label_text: NoLabelText | None = None

    @cached_property
    def _log_frequency(self) -> npt.NDArray[np.float32]:
        return np.log1p(self.record.frequency).astype(np.float32)

    @cached_property
    def named(self) -> npt.NDArray[np.bool_]:
        """Which labels have a name that is looked for."""
        named = np.zeros(len(self.record.frequency), dtype=bool)
        named[self.columns[self.matcher.entries]] = True
        return named

    def propose(
        self, inputs: NamedInputs, said: Said, threads: int
    ) -> tuple[NamedCandidates, npt.NDArray[np.float64]]:
        """The candidates that names are considered for, and their log-odds."""
        found = self.candidates(inputs, said, threads)
        return found, judged_log_odds(self.judge, found, self.record.frequency, threads)

    def candidates(self, inputs: NamedInputs, said: Said, threads: int) -> NamedCandidates:
        """The candidates that names are considered for."""
        matched = find_names(self.matcher, self.columns, inputs.texts, threads)
        described = np.hstack([matched.numbers, self.record.describe(matched.labels)])
        lexical = self.lexical.log_odds(described, threads)
        if self.label_text is None or inputs.embeddings is None:
            return named_candidates(said, matched, lexical, described, self._log_frequency)
        queries = self.label_text.map.apply(inputs.embeddings)
        near = self.label_text.proposed(queries, threads)
        found = named_candidates(said, matched, lexical, described, self._log_frequency, near)
        more = self.label_text.evidence(queries, found.rows, found.labels)
        return replace(found, evidence=np.hstack([found.evidence, more]))

    def apply(
        self,
        inputs: NamedInputs,
        indptr: npt.NDArray[np.int64],
        labels: npt.NDArray[np.int32],
        probs: npt.NDArray[np.float32],
        threads: int,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Votes on candidates, in CSR form, with those that names propose."""
        means = probs.astype(np.float64).mean(axis=1)
        found, log_odds = self.propose(inputs, Said(indptr, labels, plain_log_odds(means)), threads)
        known = found.places >= 0
        votes = np.empty((len(found.labels), probs.shape[1]), dtype=np.float32)
        votes[known] = probs[found.places[known]]
        votes[~known] = self._unheard(found.labels[~known], probs.shape[1])
        moved = _native.move_members(np.clip(log_odds, *_LOG_ODDS), votes, threads)
        probs = probs.copy()
        probs[found.places[known]] = moved[known]
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        keys = np.concatenate([rows << 32 | labels, found.rows[~known] << 32 | found.labels[~known]])
        order = np.argsort(keys, kind="stable")
        added = np.bincount(found.rows[~known], minlength=len(indptr) - 1)
        return (
            indptr + np.concatenate([[0], np.cumsum(added)]),
            np.concatenate([labels, found.labels[~known]])[order],
            np.concatenate([probs, moved[~known]])[order],
        )

    def _unheard(self, labels: npt.NDArray[np.int32], members: int) -> npt.NDArray[np.float32]:
        """Votes of members on labels that they did not find: what they lack is knowledge, so they differ.

        Who is above the others changes from label to label.
        """
        places = (np.arange(members) + labels[:, None]) % members
        apart = _APART / np.sqrt(1.0 + self.record.frequency[labels])
        logs = _NOTHING + apart[:, None] * ndtri((places + 0.5) / members)
        votes: npt.NDArray[np.float32] = np.exp(logs).astype(np.float32)
        return votes

    def describe(self) -> dict[str, Any]:
        """What it is, for people and programs."""
        return {
            "entries": len(self.columns),
            "never_seen": int((self.record.frequency[self.columns] == 0).sum()),
            "rows": self.rows,
            "ndcg_before": round(self.before, 4),
            "ndcg": round(self.after, 4),
            "label_text": None if self.label_text is None else self.label_text.describe(),
            "no_label_text": None if self.no_label_text is None else self.no_label_text.describe(),
        }

    def with_vocabulary(
        self,
        matcher: NameMatcher,
        columns: npt.NDArray[np.int32],
        labels: int,
        vectors: NameVectors | None = None,
    ) -> NameJudge:
        """The same with other names; of labels that are new nothing is known."""
        more = labels - len(self.record.frequency)
        record = LabelRecord(
            *(
                np.pad(counts, (0, more))
                for counts in (self.record.frequency, self.record.found, self.record.right)
            )
        )
        text = self.label_text
        if text is not None and vectors is not None:
            text = replace(text, vectors=vectors, columns=columns, labels=labels)
        return replace(self, matcher=matcher, columns=columns, record=record, label_text=text)

    def to_header(self) -> dict[str, Any]:
        """Entries of a model file's header."""
        about = {"texts": self.texts, "rows": self.rows, "before": self.before, "after": self.after}
        parts = {"label_text": self.label_text, "no_label_text": self.no_label_text}
        return about | {name: part.to_header() for name, part in parts.items() if part is not None}

    def to_sections(self) -> dict[str, npt.NDArray[Any]]:
        """Arrays for a model file; the frequencies of labels are there already."""
        return (
            {f"names.matcher.{name}": array for name, array in self.matcher.to_arrays().items()}
            | {
                "names.columns": self.columns,
                "names.found": self.record.found,
                "names.right": self.record.right,
            }
            | self.lexical.to_sections("names.lexical")
            | self.judge.to_sections("names.judge")
            | ({} if self.label_text is None else self.label_text.to_sections())
        )

    @classmethod
    def from_sections(
        cls,
        header: Mapping[str, Any],
        sections: Mapping[str, npt.NDArray[Any]],
        label_counts: npt.NDArray[np.int64] | None,
        texts: int,
        width: int | None = None,
    ) -> NameJudge:
        """Take back what `to_header` and `to_sections` gave, after checking it.

        Inputs have so many texts, and an embedding of this width where there is an encoder.
        """
        if label_counts is None:
            raise ValueError("the judge of names needs the frequencies of the labels")
        if header["texts"] != texts or type(header["rows"]) is not int:
            raise ValueError("the judge of names does not fit the texts")
        if any(type(header[name]) is not float for name in ("before", "after")):
            raise ValueError("the judge of names does not say how good it is")
        prefix = "names.matcher."
        matcher = NameMatcher.from_arrays(
            {name[len(prefix) :]: array for name, array in sections.items() if name.startswith(prefix)}
        )
        columns = sections["names.columns"]
        if columns.dtype != np.int32 or columns.ndim != 1 or len(columns) < matcher.n_entries:
            raise ValueError("the names have the wrong labels")
        if columns.size and not 0 <= columns.min() <= columns.max() < len(label_counts):
            raise ValueError("a name is of no label")
        if len(np.unique(columns)) < len(columns):
            raise ValueError("two entries are the same label")
        counts = [np.asarray(sections[f"names.{name}"]) for name in ("found", "right")]
        for one in counts:
            if one.dtype != np.int64 or one.shape != label_counts.shape or (one < 0).any():
                raise ValueError("the names have the wrong counts")
        record = LabelRecord(label_counts, counts[0], counts[1])
        numbers, label_text = len(number_names(texts)), None
        if "label_text" in header:
            label_text = LabelText.from_file(
                header["label_text"], sections, columns, len(label_counts), width
            )
        seen = len(NAMED_EVIDENCE) + numbers + (0 if label_text is None else len(NEAR_EVIDENCE))
        return cls(
            matcher,
            np.asarray(columns),
            record,
            BoostedTrees.from_sections("names.lexical", sections, numbers),
            BoostedTrees.from_sections("names.judge", sections, seen),
            texts,
            header["rows"],
            header["before"],
            header["after"],
            label_text,
            NoLabelText.from_header(header["no_label_text"]) if "no_label_text" in header else None,
        )


def plain_log_odds(probability: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Log-odds, as far as floats can tell them from certainty."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(probability) - np.log1p(-probability), *_LOG_ODDS))


def judged_log_odds(
    judge: BoostedTrees, found: NamedCandidates, frequency: npt.NDArray[np.int64], threads: int
) -> npt.NDArray[np.float64]:
    """What the judge says of candidates, more cautious about labels without an example."""
    said = judge.log_odds(np.ascontiguousarray(found.evidence), threads)
    return np.where(frequency[found.labels] == 0, _NEW_SHARE * said + _NEW_MORE, said)


def named_candidates(
    said: Said,
    matched: Matched,
    lexical: npt.NDArray[np.float64],
    described: npt.NDArray[np.float32],
    log_frequency: npt.NDArray[np.float32],
    near: npt.NDArray[np.int64] | None = None,
) -> NamedCandidates:
    """Bring together the best candidates of inputs and the labels whose names they have, or are near to.

    Parameters
    ----------
    said : Said
        What was found without names.
    matched : Matched
        Labels by their names.
    lexical : float64 array
        The log-odds of each of these.
    described : float32 array
        All that is known of each of these.
    log_frequency : float32 array, shape (n_labels,)
        Logarithm of one plus the number of examples of each label.
    near : int64 array, optional
        Further candidates: the input in the upper half of the bits, the label in the lower one.
    """
    inputs = len(said.indptr) - 1
    of_said, of_matched = said.rows, matched.rows
    rank = _ranks(-said.log_odds, of_said, said.indptr)
    best = rank < _BEST
    proposed = _ranks(-lexical, of_matched, matched.indptr) < _PROPOSED
    found, names = of_said << 32 | said.labels, of_matched << 32 | matched.labels
    keys = np.unique(np.concatenate([found[best], names[proposed], *(() if near is None else (near,))]))
    rows = keys >> 32
    labels = (keys & 0xFFFFFFFF).astype(np.int32)
    places, name_places = _places(found, keys), _places(names, keys)
    heard, named = places >= 0, name_places >= 0
    members, name = np.full(len(keys), _UNHEARD), np.full(len(keys), _UNHEARD)
    members[heard] = said.log_odds[places[heard]]
    name[named] = lexical[name_places[named]]
    expected = np.bincount(of_said[best], weights=expit(said.log_odds[best]), minlength=inputs)
    own_rank = np.diff(said.indptr)[rows]
    own_rank[heard] = rank[places[heard]]
    evidence = np.zeros((len(keys), len(NAMED_EVIDENCE) + described.shape[1]), dtype=np.float32)
    evidence[:, : len(NAMED_EVIDENCE)] = np.column_stack(
        [
            members,
            name,
            members - _highest(members, rows, inputs)[rows],
            name - _highest(name, rows, inputs)[rows],
            expected[rows],
            np.log1p(np.minimum(own_rank, _BEST)),
            log_frequency[labels],
        ]
    )
    evidence[named, len(NAMED_EVIDENCE) :] = described[name_places[named]]
    return NamedCandidates(rows, labels, places, evidence)


def _ranks(
    values: npt.NDArray[np.float64], rows: npt.NDArray[np.int64], indptr: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The place of each value among those of its row, lowest first; of equal ones the earlier."""
    order = np.lexsort((values, rows))
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.arange(len(values)) - indptr[rows]
    return ranks


def _places(found: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where keys are in ascending ones; -1 where they are not."""
    if not len(found):
        return np.full(len(keys), -1)
    at = np.minimum(np.searchsorted(found, keys), len(found) - 1)
    return np.where(found[at] == keys, at, -1)


def _highest(
    values: npt.NDArray[np.float64], rows: npt.NDArray[np.int64], inputs: int
) -> npt.NDArray[np.float64]:
    """The highest value of each row."""
    highest = np.full(inputs, _UNHEARD)
    np.maximum.at(highest, rows, values)
    return highest
