"""A model's mistakes on held-out inputs, and the thresholds that keep a guarantee."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.abstention import INPUT_MEASURES, LABEL_MEASURES, Abstention
from hedgerow.decisions.given import Given
from hedgerow.decisions.guarantees import (
    SHARES_OF,
    Guarantee,
    Unseen,
    about_missed,
    about_review,
    about_wrong,
    limits,
    tried,
)
from hedgerow.decisions.policy_checks import (
    BEST,
    CAP,
    RANKS,
    WITHHELD,
    check_thresholds,
    checked_curve,
    checked_ranks,
    is_whole,
)
from hedgerow.decisions.risk import RiskCurve, TooFewRows, Unreachable, as_share, least_risk, rows_needed
from hedgerow.inputs.search import SearchSettings

__all__ = [
    "BEST",
    "CAP",
    "NUMBERS",
    "PREDICTED",
    "RANKS",
    "SHARES",
    "WITHHELD",
    "WRONG",
    "LabelGroup",
    "Policy",
    "check_number",
    "conformal_rows",
]

Floats = npt.NDArray[np.float64]

SHARES = (0.05, 0.1, 0.2)  # at which guarantees are shown
NUMBERS = (5, 10, 20, 50)
_OLD = (
    "the policy is of an older release, which did not count what this takes: run hedgerow calibrate again, or"
    " limit only wrong labels with wrong_of='inputs'"
)

PREDICTED = 0.5  # the probability from which on measures of uncertainty may decide
WRONG = "wrong."  # the beginning of names of curves, as WITHHELD
_IN_FILES = {"ood": "unfamiliarity"}  # measures that model files call by another name


@dataclass(frozen=True, eq=False)
class LabelGroup:
    """Labels that occur about equally often in training, and how many of them are missed.

    The curve is over inputs that have such a label: the share of these labels below the threshold. Labels
    that the model does not know do not count; `unknown` is their mean share.
    """

    lowest: int
    highest: int
    missed: RiskCurve
    unknown: float

    @property
    def name(self) -> str:
        """The group in words."""
        if self.lowest == self.highest:
            return f"labels that occur {self.lowest} times in training"
        return f"labels that occur {self.lowest} to {self.highest} times in training"


@dataclass(frozen=True, eq=False)
class Policy:
    """Curves of mistakes on held-out inputs, from which every guarantee is read.

    Guarantees hold on average over further inputs like the held-out ones and over draws of the held-out
    ones. They do not hold for a single label, nor for out-of-distribution inputs.

    Attributes
    ----------
    missed : RiskCurve
        Over inputs that have labels that the model knows: the share of these whose probability is below the
        threshold, or that are not candidates.
    unknown : float
        The mean share of the true labels that never occur in training and that names do not find either, over
        inputs that have labels.
    wrong : dict of str to RiskCurve
        By measure of certainty, over all inputs: the share of wrong ones among the labels that reach the
        threshold; 0 where none does. Measures other than the probability look only at labels with a
        probability of at least one half.
    withheld : dict of str to RiskCurve
        By measure: the share of the labels with a probability of at least one half that do not reach the
        threshold; 0 where there is none.
    size : RiskCurve
        How many labels, at most 100, reach the threshold.
    proven : float64 array, shape (knots,), or None
        The share of inputs for which a search through all labels would find no further label at the
        threshold, by the certificates of the search.
    groups : tuple of LabelGroup
        By frequency in training, rarest first; empty where the model does not know it.
    inputs : dict of str to Abstention
        By uncertainty of whole inputs; an answer is wrong if the most probable label is.
    rows : int
        Number of held-out inputs.
    left_out : int
        Further inputs that were not used because the model was trained on them.
    fingerprint : str
        Of the held-out inputs and their labels.
    search : SearchSettings
        How the model searched: guarantees hold for this search only.
    notes : tuple of str
        Remarks, such as groups of labels that were merged.
    given : Given or None
        How many labels inputs are given at each threshold, and how many of those are wrong.
    ranks : RiskCurve or None
        For the best 1 to 100 labels, over the inputs of `missed`: the share of the true labels that the model
        knows and that are not among them.
    named : float
        The mean share of the true labels that never occur in training, but are found by their names. These
        count as labels that the model knows.

    Policies of old files lack `given` and `ranks`; `missed` counts labels that the model does not know there.
    """

    missed: RiskCurve
    unknown: float
    wrong: dict[str, RiskCurve]
    withheld: dict[str, RiskCurve]
    size: RiskCurve
    proven: Floats | None
    groups: tuple[LabelGroup, ...]
    inputs: dict[str, Abstention]
    rows: int
    left_out: int
    fingerprint: str
    search: SearchSettings
    notes: tuple[str, ...]
    given: Given | None = None
    ranks: RiskCurve | None = None
    named: float = 0.0

    def reject_below(self, missed_at_most: float) -> float:
        """The probability below which labels are rejected, so that at most this share of right ones is.

        Parameters
        ----------
        missed_at_most : float
            The mean share of an input's true labels that may be rejected, of those that the model knows.

        Returns
        -------
        float
        """
        share = as_share("missed_at_most", missed_at_most)
        self._known_ranks()
        return _conformal(self.missed, share, "right labels that the model knows", self.proven)

    def reject_below_by_group(self, missed_at_most: float) -> list[float]:
        """The same for each group of labels, over the inputs that have labels of the group.

        Parameters
        ----------
        missed_at_most : float
            The mean share of an input's true labels of the group that may be rejected.

        Returns
        -------
        list of float
        """
        share = as_share("missed_at_most", missed_at_most)
        self._known_ranks()
        if not self.groups:
            raise ValueError(
                "groups are not possible: the model does not know how often its labels occur in training"
            )
        return [_conformal(group.missed, share, group.name, None) for group in self.groups]

    def best_for(self, missed_at_most: float) -> int:
        """How many of the best labels of an input it takes to miss at most this share of the right ones.

        Parameters
        ----------
        missed_at_most : float
            The mean share of an input's true labels that may be missed, of those that the model knows.

        Returns
        -------
        int
        """
        share = as_share("missed_at_most", missed_at_most)
        ranks = self._known_ranks()
        place = ranks.smallest(share)
        if place is None:
            raise Unreachable(
                f"the {BEST} best labels of an input miss {100 * float(ranks.losses[-1]):.1f} % of its right"
                f" labels, so missed_at_most={share:g} cannot be guaranteed with so few"
            )
        return place + 1

    def share_of_best(self, number: int, confidence: float = 0.9) -> float:
        """The share of an input's right labels that its best labels contain at least, mean over inputs.

        Parameters
        ----------
        number : int
            How many of the best labels, 1 to 100.
        confidence : float
            The probability, over the held-out inputs, that it is kept.

        Returns
        -------
        float
            Of the labels that the model knows.
        """
        ranks = self._known_ranks()
        check_number(number)
        lost = float(ranks.losses[number - 1])
        return 1 - least_risk(lost, ranks.rows, 1 - as_share("confidence", confidence))

    def accept_from(
        self, wrong_at_most: float, confidence: float = 0.9, of: str = "labels", by: str = "probability"
    ) -> float:
        """The certainty from which on labels are accepted, so that at most this share of them is wrong.

        Parameters
        ----------
        wrong_at_most : float
            The share of accepted labels that may be wrong.
        confidence : float
            The chance, over the held-out inputs, that the guarantee is kept.
        of : {"labels", "answered", "inputs"}
            What the share is of: all accepted labels; or of an input's accepted labels, mean over the inputs
            that are given any, or over all inputs, with 0 for one that is given none.
        by : {"probability", "total", "data", "knowledge", "variance"}
            What certainty is measured by; other measures than the probability need of="inputs".

        Returns
        -------
        float
            Infinite if the guarantee can only be kept by accepting nothing.
        """
        share, confidence = as_share("wrong_at_most", wrong_at_most), as_share("confidence", confidence)
        if of not in SHARES_OF:
            raise ValueError(f"wrong_of is {of!r}; it must be one of {', '.join(SHARES_OF)}")
        curve = self.wrong[_known_measure(by)]
        if of != "inputs":
            if by != "probability":
                raise ValueError(
                    f"wrong_of={of!r} is known for probabilities only; with by={by!r} use wrong_of='inputs'"
                )
            return self._known_given().accept_from(of, share, confidence)
        place = curve.tested(share, confidence)
        if place is None:
            raise TooFewRows(
                f"{curve.rows} held-out inputs are too few for wrong_at_most={share:g} with a confidence of"
                f" {confidence:g}, which needs at least {rows_needed(share, confidence)}; calibrate with"
                " more, or allow more wrong labels"
            )
        return float(curve.thresholds[place])

    # --- the same in words ---

    def wrong_guarantee(
        self, share: float, confidence: float = 0.9, of: str = "labels", by: str = "probability"
    ) -> tuple[float, Guarantee]:
        """The threshold of `accept_from`, and what it guarantees."""
        accept = self.accept_from(share, confidence, of, by)
        reached = None
        if math.isfinite(accept):
            if of == "inputs":
                curve = self.wrong[by]
                reached = float(curve.losses[np.searchsorted(curve.thresholds, np.float32(accept))])
            else:
                reached = self._known_given().reached(of, accept)
        return accept, about_wrong(of, float(share), float(confidence), reached)

    def missed_guarantee(self, share: float) -> tuple[float, Guarantee]:
        """The threshold of `reject_below`, and what it guarantees."""
        reject = self.reject_below(share)
        place = np.searchsorted(self.missed.thresholds, np.float32(reject))
        return reject, about_missed(float(share), float(self.missed.losses[place]), self.unseen)

    def few_missed_guarantee(self, share: float) -> tuple[int, Guarantee]:
        """The number of `best_for`, and what it guarantees."""
        number = self.best_for(share)
        reached = float(self._known_ranks().losses[number - 1])
        return number, about_missed(float(share), reached, self.unseen)

    def review_guarantee(self, number: int, confidence: float = 0.9) -> Guarantee:
        """What the best labels of an input contain."""
        share = self.share_of_best(number, confidence)
        reached = 1 - float(self._known_ranks().losses[number - 1])
        return about_review(number, share, float(confidence), reached, self.unseen)

    @property
    def unseen(self) -> Unseen:
        """The right labels that were never seen in training."""
        return Unseen(self.unknown, self.named)

    def limits(self) -> str:
        """What no guarantee says."""
        return limits(self.rows)

    def accept_share(self, coverage: float, by: str = "probability") -> float:
        """The certainty from which on labels are accepted, so that this share of the predicted ones is.

        Parameters
        ----------
        coverage : float
            The mean share, over inputs, of the labels with a probability of at least one half.
        by : {"probability", "total", "data", "knowledge", "variance"}
            What certainty is measured by.

        Returns
        -------
        float
        """
        curve = self.withheld[_known_measure(by)]
        risk = 1 - as_share("coverage", coverage)
        place = curve.largest(risk)
        if place is None:
            raise TooFewRows(
                f"{curve.rows} held-out inputs are too few for a coverage of {coverage:g}, which needs at"
                f" least {conformal_rows(risk)}; learn the policy from more, or ask for less coverage"
            )
        return float(curve.thresholds[place])

    def shortlist_from(self, size: float) -> float:
        """The probability from which on labels are listed, so that on average at most `size` are.

        Parameters
        ----------
        size : float
            The mean number of labels per input; no input gets more than 100.

        Returns
        -------
        float
        """
        _check_size(size)
        place = self.size.smallest(float(size))
        if place is None:
            raise TooFewRows(
                f"{self.size.rows} held-out inputs are too few for a size of {float(size):g}, which needs at"
                f" least {math.ceil(CAP / float(size)) - 1}; learn the policy from more, or allow more labels"
            )
        return float(self.size.thresholds[place])

    def proven_at(self, threshold: float) -> float | None:
        """The share of inputs for which no label at or above the threshold can have been lost by the beam."""
        if self.proven is None:
            return None
        # The last that is not above: what is proven there is proven here.
        below = np.searchsorted(self.missed.thresholds, np.float32(threshold), side="right") - 1
        return float(self.proven[max(0, int(below))])

    def lowest_missed(self) -> float:
        """The lowest share of missed labels that can be guaranteed."""
        return self.missed.ceiling

    def without_ood(self) -> Policy:
        """The same without OOD scores, which change when the OOD detector is learned again."""
        kept = {name: rule for name, rule in self.inputs.items() if name != "ood"}
        return replace(self, inputs=kept)

    def describe(self) -> dict[str, Any]:
        """What it was learned from and what it can guarantee, for people and programs."""
        found: dict[str, Any] = {
            "inputs": self.rows,
            "inputs_with_labels": self.missed.rows,
            "left_out_as_seen_in_training": self.left_out,
            "fingerprint": self.fingerprint,
            "lowest_missed": self.lowest_missed(),
            "unknown_labels": self.unknown,
            "unknown_but_named": self.named,
            "lost_by_the_beam": self.lost(),
            "search": ", ".join(f"{name} {value}" for name, value in self.search.to_dict().items()),
            "guarantees": [of.to_dict() for of in self.standard()],
        }
        for number, group in enumerate(self.groups):
            found[f"group_{number + 1}"] = (
                f"{group.name}: {group.missed.rows:,} inputs, at least"
                f" {100 * group.missed.ceiling:.3g} % missed"
            )
        for number, note in enumerate(self.notes):
            found[f"note_{number + 1}"] = note
        return found

    def standard(self) -> tuple[Guarantee, ...]:
        """What can be guaranteed of each kind, at usual shares and numbers; refused ones with reasons."""
        found = []
        for share, of in itertools.product(SHARES, SHARES_OF):
            asked = Guarantee("wrong", of, share, None, 0.9, None, "")
            found.append(tried(asked, lambda one: self.wrong_guarantee(one.asked, of=one.of or "labels")[1]))
        for share in SHARES:
            asked = Guarantee("missed", None, share, None, None, None, "")
            found.append(tried(asked, lambda one: self.missed_guarantee(one.asked)[1]))
        for number in NUMBERS:
            asked = Guarantee("review", None, number, None, 0.9, None, "")
            found.append(tried(asked, lambda one: self.review_guarantee(int(one.asked))))
        return tuple(found)

    def lost(self) -> float:
        """The share of the right labels that the search does not find, though the model knows them."""
        return float(self.missed.losses[0]) - (self.unknown if self.ranks is None else 0.0)

    def to_sections(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Header and arrays for a model file."""
        curves = self._curves()
        header = {
            "curves": [[name, curve.rows, float(curve.highest)] for name, curve in curves.items()],
            "groups": [[group.lowest, group.highest, group.unknown] for group in self.groups],
            "inputs": [_IN_FILES.get(name, name) for name in self.inputs],
            "unknown": self.unknown,
            **({"named": self.named} if self.named else {}),
            "rows": self.rows,
            "left_out": self.left_out,
            "fingerprint": self.fingerprint,
            "search": self.search.to_dict(),
            "notes": list(self.notes),
            "most": None if self.given is None else self.given.most,
        }
        sections: dict[str, npt.NDArray[Any]] = {
            "policy.thresholds": self.missed.thresholds,
            "policy.totals": np.stack([curve.totals for curve in curves.values()]),
        }
        if self.proven is not None:
            sections["policy.proven"] = self.proven
        if self.given is not None:
            sections["policy.given"] = self.given.to_arrays()
        if self.ranks is not None:
            sections["policy.ranks"] = self.ranks.totals
        for name, rule in self.inputs.items():
            sections[f"policy.inputs.{_IN_FILES.get(name, name)}"] = rule.to_arrays()
        return header, sections

    @classmethod
    def from_sections(cls, header: Any, sections: Mapping[str, npt.NDArray[Any]]) -> Policy:
        """Take back what `to_sections` gave, after checking it."""
        if not isinstance(header, dict):
            raise ValueError("the policy is not an object")
        thresholds, totals = sections["policy.thresholds"], sections["policy.totals"]
        check_thresholds(thresholds)
        if totals.dtype != np.float64 or totals.shape != (len(header["curves"]), len(thresholds)):
            raise ValueError("the curves of the policy have the wrong type or number")
        curves: dict[str, RiskCurve] = {}
        for (name, rows, highest), losses in zip(header["curves"], totals, strict=True):
            curves[str(name)] = checked_curve(name, thresholds, losses, rows, highest)
        groups = header["groups"]
        expected = {"missed", "size", *(f"{WRONG}{by}" for by in LABEL_MEASURES)}
        expected |= {f"{WITHHELD}{by}" for by in LABEL_MEASURES}
        expected |= {f"group.{number}" for number in range(len(groups))}
        if set(curves) != expected:
            raise ValueError("the policy has missing or unknown curves")
        if not all(is_whole(low) and is_whole(high) and low <= high for low, high, _ in groups) or not all(
            before[1] < after[0] for before, after in itertools.pairwise(groups)
        ):
            raise ValueError("the groups of labels of the policy do not ascend")
        stored = {_IN_FILES.get(name, name): name for name in INPUT_MEASURES}
        names = header["inputs"]
        if not isinstance(names, list) or not set(names) <= set(stored):
            raise ValueError("the policy has unknown measures of inputs")
        fingerprint, search, notes = header["fingerprint"], header["search"], header["notes"]
        if not isinstance(fingerprint, str) or not re.fullmatch("[0-9a-f]{32}", fingerprint):
            raise ValueError("the fingerprint of the policy is not 32 hexadecimal digits")
        if not isinstance(search, dict) or set(search) - {"floor"} != {
            *("beam", "candidates", "missing", "tolerance")
        }:
            raise ValueError("the search settings of the policy are missing or incomplete")
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            raise ValueError("the notes of the policy are not strings")
        for count in ("rows", "left_out"):
            if not is_whole(header[count]):
                raise ValueError(f"the policy has {header[count]!r} as {count}")
        for share in (header["unknown"], header.get("named", 0.0), *(group[2] for group in groups)):
            if isinstance(share, bool) or not isinstance(share, float | int) or not 0 <= share <= 1:
                raise ValueError(f"the policy has {share!r} as a share of unknown labels")
        proven = sections.get("policy.proven")
        if proven is not None:
            if proven.dtype != np.float64 or proven.shape != thresholds.shape:
                raise ValueError("the certificates of the policy have the wrong type or number")
            if not ((proven >= 0) & (proven <= 1)).all():
                raise ValueError("the certificates of the policy are not between 0 and 1")
        most, given, ranks = header.get("most"), None, None
        if most is not None:
            given = Given.from_arrays(sections["policy.given"], most)
            ranks = checked_ranks(sections["policy.ranks"], curves["missed"].rows)
            if given.rows != header["rows"]:
                raise ValueError("the numbers of given labels of the policy are of other inputs")
        return cls(
            curves["missed"],
            float(header["unknown"]),
            {by: curves[f"{WRONG}{by}"] for by in LABEL_MEASURES},
            {by: curves[f"{WITHHELD}{by}"] for by in LABEL_MEASURES},
            curves["size"],
            proven,
            tuple(
                LabelGroup(low, high, curves[f"group.{number}"], float(unknown))
                for number, (low, high, unknown) in enumerate(groups)
            ),
            {stored[name]: Abstention.from_arrays(sections[f"policy.inputs.{name}"]) for name in names},
            header["rows"],
            header["left_out"],
            fingerprint,
            SearchSettings(**search),
            tuple(notes),
            given,
            ranks,
            float(header.get("named", 0.0)),
        )

    def _known_given(self) -> Given:
        if self.given is None:
            raise Unreachable(_OLD)
        return self.given

    def _known_ranks(self) -> RiskCurve:
        if self.ranks is None:
            raise Unreachable(_OLD)
        return self.ranks

    def _curves(self) -> dict[str, RiskCurve]:
        return {
            "missed": self.missed,
            "size": self.size,
            **{f"{WRONG}{by}": curve for by, curve in self.wrong.items()},
            **{f"{WITHHELD}{by}": curve for by, curve in self.withheld.items()},
            **{f"group.{number}": group.missed for number, group in enumerate(self.groups)},
        }


def conformal_rows(risk: float) -> int:
    """How many inputs without any loss it takes to guarantee this risk."""
    return max(1, math.ceil(1 / risk - 1e-9) - 1)


def _known_measure(by: str) -> str:
    if by not in LABEL_MEASURES:
        raise ValueError(f"by is {by!r}; it must be one of {', '.join(LABEL_MEASURES)}")
    return by


def _conformal(curve: RiskCurve, share: float, what: str, proven: Floats | None) -> float:
    """The largest threshold that keeps the share, or an error that says why there is none."""
    place = curve.largest(share)
    if place is not None:
        return float(curve.thresholds[place])
    if share * (curve.rows + 1) < 1:
        raise TooFewRows(
            f"{curve.rows} held-out inputs with {what} are too few for missed_at_most={share:g}, which needs"
            f" at least {conformal_rows(share)}; calibrate with more, or allow more missed labels"
        )
    certified = (
        ""
        if proven is None
        else f" (for {100 * proven[1]:.0f} % of the inputs the search is proven to have lost nothing)"
    )
    margin = curve.ceiling - float(curve.losses[0])
    raise Unreachable(
        f"the search does not find {100 * float(curve.losses[0]):.2f} % of the {what}, so"
        f" missed_at_most={share:g} cannot be guaranteed; allow at least {_rounded_up(curve.ceiling)}, or"
        f" calibrate again with a wider beam{certified}. The margin for chance with {curve.rows}"
        f" inputs is {100 * margin:.2f} %, at least 1/{curve.rows + 1}"
    )


def check_number(number: Any) -> None:
    """Refuse what is no number of labels to review."""
    if isinstance(number, bool) or not isinstance(number, Integral) or not 1 <= int(number) <= BEST:
        raise ValueError(f"review_at_most is {number!r}; it must be a whole number from 1 to {BEST}")


def _rounded_up(risk: float) -> str:
    return f"{math.ceil(risk * 1000) / 1000:g}"


def _check_size(size: Any) -> None:
    if isinstance(size, bool) or not isinstance(size, Real) or not 0 < float(size) < math.inf:
        raise ValueError(f"size is {size!r}; it must be a positive number of labels")
