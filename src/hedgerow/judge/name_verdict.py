"""Why names change what is said of a label: where they stand, and what is said without them and with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from hedgerow.features.name_matcher import NameMatches
from hedgerow.judge.label_text import NEAR_EVIDENCE
from hedgerow.judge.name_vectors import NO_COSINE
from hedgerow.judge.names import NamedInputs, NameJudge, Said
from hedgerow.judge.verdict import percent
from hedgerow.vocabulary.vocabulary import Vocabulary

__all__ = ["NameFind", "NameVerdict", "NameVerdicts", "name_entry"]


@dataclass(frozen=True)
class NameFind:
    """Names of a label in one text of an input.

    Attributes
    ----------
    field : str or None
        The text, of a record with several.
    count : int
        How often names of the label stand there.
    outer : int
        How many of these are not within a longer name.
    same_case : int
        How many are written as in the vocabulary, upper and lower case included.
    exact : int
        The same in lower case: the words, and not only their stems, are equal.
    words : int
        Words of the longest name found.
    entries : int
        How many entries of the vocabulary share the name, this one included; the fewest of all names found.
    preferred : bool
        Whether a preferred name was found.
    shortened : bool
        Whether something is left out of all names found, such as a qualifier.
    """

    field: str | None
    count: int
    outer: int
    same_case: int
    exact: int
    words: int
    entries: int
    preferred: bool
    shortened: bool


@dataclass(frozen=True)
class NameVerdict:
    """What names say of one label of one input.

    Attributes
    ----------
    name : str or None
        What the vocabulary calls the label; the input may have another of its names. None where it has none.
    names : int
        How many names the label has.
    finds : tuple of NameFind
        The texts of the input that have names of it.
    examples : int
        How many training inputs have the label.
    before : float or None
        Its probability without names; None where nothing but its names can propose it.
    after : float or None
        Its probability with names, before calibration; None where it is not predicted.
    considered : bool
        Whether names were considered; they are for the best candidates of an input, and what names propose.
    cosine : float or None
        How near its name is to the input for the encoder; None where the model does not ask for that, or not
        of this label.
    best_cosine : float or None
        The highest one of all labels that names were considered for.
    """

    name: str | None
    names: int
    finds: tuple[NameFind, ...]
    examples: int
    before: float | None
    after: float | None
    considered: bool
    cosine: float | None = None
    best_cosine: float | None = None

    def sentences(self) -> list[str]:
        """The same in words."""
        return [*self._where(), *self._near(), *self._moved()]

    def _where(self) -> list[str]:
        if self.name is None:
            return ["The vocabulary has no name of this label."]
        if not self.finds:
            return ["No name of this label was found in the input."]
        which = "Its name" if self.names == 1 else "A name of"
        places = [f"{_times(one.count)} in the {one.field or 'text'}" for one in self.finds]
        *most, last = places
        said = [f'{which} "{self.name}" stands {", ".join(most) + " and " if most else ""}{last}.']
        if not any(one.outer for one in self.finds):
            said.append("It is always part of a longer name.")
        if (others := min(one.entries for one in self.finds) - 1) > 0:
            has = "1 other entry has" if others == 1 else f"{others:,} other entries have"
            said.append(f"{has} the same name.")
        return said

    def _near(self) -> list[str]:
        if self.cosine is None or self.best_cosine is None:
            return []
        if self.cosine == self.best_cosine:
            return [f"To the encoder, no name is nearer to the input: cosine {self.cosine:.2f}."]
        return [
            f"To the encoder, its name has a cosine of {self.cosine:.2f} with the input; the nearest name has"
            f" {self.best_cosine:.2f}."
        ]

    def _moved(self) -> list[str]:
        if self.after is None:
            why = (
                "Other names in the input say more"
                if self.finds
                else "No training text has this label either"
            )
            return [f"{why}, so it is not predicted."]
        if self.before is None:
            alone = "The search does not find this label for the input"
            if self.examples == 0:
                alone = "No training text has this label"
            return [f"{alone}: all that speaks for it is its name.", f"With it: {percent(self.after)}."]
        if not self.considered:
            return ["Names do not change its probability: they are considered for the best candidates only."]
        without, with_names = percent(self.before), percent(self.after)
        return [f"Without names the label would have {without}, with them {with_names}."]


def name_entry(verdict: NameVerdict) -> dict[str, Any]:
    """The same for programs, as JSON has it."""
    return asdict(verdict)


class NameVerdicts:
    """What names say of labels of some inputs.

    Parameters
    ----------
    judge : NameJudge
        It is only asked.
    vocabularies : sequence of Vocabulary
        Have the names to show; of a label, the first that has it.
    inputs : NamedInputs
        Their texts and embeddings.
    fields : tuple of str or None
        What these texts are called; None where an input is one text.
    said : Said
        What is said of candidates without names.
    threads : int
        0 is all processors.
    """

    def __init__(
        self,
        judge: NameJudge,
        vocabularies: Sequence[Vocabulary],
        inputs: NamedInputs,
        fields: tuple[str, ...] | None,
        said: Said,
        threads: int,
    ) -> None:
        self._judge, self._vocabularies, self._said = judge, vocabularies, said
        self._fields = (None,) * len(inputs.texts) if fields is None else fields
        self._found, self._log_odds = judge.propose(inputs, said, threads)
        self._matches = [judge.matcher.match(own, threads=threads) for own in inputs.texts]

    def of(self, row: int, label: int, id: Any) -> NameVerdict:
        """What they say of a label of an input, both by number; `id` is what the label is called."""
        begin, end = self._said.indptr[row : row + 2].tolist()
        heard = begin + np.flatnonzero(self._said.labels[begin:end] == label)
        judged = np.flatnonzero((self._found.rows == row) & (self._found.labels == label))
        before = float(expit(self._said.log_odds[heard[0]])) if heard.size else None
        vocabulary = next((one for one in self._vocabularies if id in one), None)
        return NameVerdict(
            None if vocabulary is None else vocabulary.name(id),
            0 if vocabulary is None else len(vocabulary.names(id)),
            self._finds(row, label),
            int(self._judge.record.frequency[label]),
            before,
            float(expit(self._log_odds[judged[0]])) if judged.size else before,
            bool(judged.size),
            *self._cosines(row, judged),
        )

    def _cosines(self, row: int, judged: npt.NDArray[np.int64]) -> tuple[float | None, float | None]:
        """How near the label of a candidate is by its name, and how near the nearest one."""
        if self._judge.label_text is None or not judged.size:
            return None, None
        place = len(NEAR_EVIDENCE) - NEAR_EVIDENCE.index("cosine")
        cosines = self._found.evidence[:, -place]
        own = float(cosines[judged[0]])
        return (None, None) if own == NO_COSINE else (own, float(cosines[self._found.rows == row].max()))

    def _finds(self, row: int, label: int) -> tuple[NameFind, ...]:
        entry = np.flatnonzero(self._judge.columns == label)
        if not entry.size:
            return ()
        return tuple(
            _find(field, found, place)
            for field, found in zip(self._fields, self._matches, strict=True)
            for place in _places(found, row, int(entry[0]))
        )


def _places(found: NameMatches, row: int, entry: int) -> list[int]:
    """Where an entry stands among those found in a text; none or one."""
    begin, end = found.indptr[row : row + 2].tolist()
    return [begin + place for place in np.flatnonzero(found.entries[begin:end] == entry).tolist()]


def _find(field: str | None, found: NameMatches, place: int) -> NameFind:
    return NameFind(
        field,
        int(found.count[place]),
        int(found.outer[place]),
        int(found.same_case[place]),
        int(found.exact[place]),
        int(found.words[place]),
        int(found.ambiguity[place]),
        bool(found.preferred[place]),
        bool(found.shortened[place]),
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
