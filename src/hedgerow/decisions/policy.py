"""A model's mistakes on held-out inputs, and the thresholds that keep a guarantee."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.decisions.abstention import INPUT_MEASURES, LABEL_MEASURES, Abstention
from hedgerow.decisions.risk import RiskCurve, TooFewRows, Unreachable, as_share, rows_needed
from hedgerow.inputs.search import SearchSettings

__all__ = [
    "CAP",
    "NOT_GUARANTEED",
    "PREDICTED",
    "WITHHELD",
    "WRONG",
    "LabelGroup",
    "Policy",
    "conformal_rows",
]

Floats = npt.NDArray[np.float64]

CAP = 100  # labels in a set whose size is guaranteed
PREDICTED = 0.5  # the probability from which on measures of uncertainty may decide
WRONG, WITHHELD = "wrong.", "withheld."  # the beginnings of names of curves
_IN_FILES = {"ood": "unfamiliarity"}  # measures that model files call by another name
NOT_GUARANTEED = "This does not hold for each single label, nor for out-of-distribution inputs."
NOT_GUARANTEED = "This does not hold for each single label, nor for out-of-distribution inputs."


@dataclass(frozen=True, eq=False)
class LabelGroup:
    """Labels that occur about equally often in training, and how many of them are missed.

    The curve is over inputs that have such a label: the share of these labels below the threshold. `unknown`
    is the mean share of these labels that the model does not know.
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
        Over inputs that have labels: the share of the true labels whose probability is below the threshold,
        or that are not candidates.
    unknown : float
        The mean share of the true labels that never occur in training and that names do not find either.
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
    named : float
        The mean share of the true labels that never occur in training, but are found by their names.
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
    named: float = 0.0

    def reject_below(self, risk: float) -> float:
        """The probability below which labels are rejected, so that at most this share of true ones is.

        Parameters
        ----------
        risk : float
            The mean share of an input's true labels that may be rejected.

        Returns
        -------
        float
        """
        return _conformal(
            self.missed, as_share("risk", risk), (self.unknown, self.named), "true labels", self.proven
        )

    def reject_below_by_group(self, risk: float) -> list[float]:
        """The same for each group of labels, over the inputs that have labels of the group.

        Parameters
        ----------
        risk : float
            The mean share of an input's true labels of the group that may be rejected.

        Returns
        -------
        list of float
        """
        risk = as_share("risk", risk)
        if not self.groups:
            raise ValueError(
                "groups are not possible: the model does not know how often its labels occur in training"
            )
        return [
            _conformal(group.missed, risk, (group.unknown, 0.0), group.name, None) for group in self.groups
        ]

    def accept_from(self, risk: float, confidence: float = 0.9, by: str = "probability") -> float:
        """The certainty from which on labels are accepted, so that at most this share of them is wrong.

        Parameters
        ----------
        risk : float
            The mean share of an input's accepted labels that may be wrong; 0 if none is accepted.
        confidence : float
            The chance, over the held-out inputs, that the guarantee is kept.
        by : {"probability", "total", "data", "knowledge", "variance"}
            What certainty is measured by.

        Returns
        -------
        float
            Infinite if the guarantee can only be kept by accepting nothing.
        """
        risk, confidence = as_share("risk", risk), as_share("confidence", confidence)
        curve = self.wrong[_known_measure(by)]
        place = curve.tested(risk, confidence)
        if place is None:
            needed = rows_needed(risk, confidence)
            raise TooFewRows(
                f"{curve.rows} held-out inputs are too few for a risk of {risk:g} with a confidence of"
                f" {confidence:g}, which needs at least {needed}; learn the policy from more, or allow a"
                " higher risk"
            )
        return float(curve.thresholds[place])

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

    def lowest_risk(self) -> float:
        """The lowest share of rejected true labels that can be guaranteed."""
        return self.missed.ceiling

    def guarantee(self, risk: float, confidence: float = 0.9) -> str:
        """What `decide` guarantees at this risk, in words."""
        reject = self.reject_below(risk)
        accept = self.accept_from(risk, confidence)
        percent = f"{100 * risk:g} %"
        accepted = (
            f"Labels from {accept:.4g} on are accepted: with a confidence of {100 * confidence:g} %, at most"
            f" {percent} of an input's accepted labels are wrong (Learn then Test; 0 % if none is accepted)."
            if accept <= 1
            else f"No label is accepted: none could be with at most {percent} wrong."
        )
        return (
            f"On average over inputs like the {self.rows:,} held-out ones: labels with a probability below"
            f" {min(reject, accept):.3g} are rejected, and these are at most {percent} of an input's true"
            f" labels (conformal risk control). {accepted} {NOT_GUARANTEED}"
        )

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
            "lowest_risk": self.lowest_risk(),
            "unknown_labels": self.unknown,
            "unknown_but_named": self.named,
            "lost_by_the_beam": float(self.missed.losses[0]) - self.unknown,
            "search": ", ".join(f"{name} {value}" for name, value in self.search.to_dict().items()),
        }
        for risk in (0.05, 0.1, 0.2):
            try:
                found[f"at_{100 * risk:g}_%"] = self.guarantee(risk)
            except ValueError as error:
                found[f"at_{100 * risk:g}_%"] = f"not possible: {error}"
        for number, group in enumerate(self.groups):
            found[f"group_{number + 1}"] = (
                f"{group.name}: {group.missed.rows:,} inputs, lowest risk {group.missed.ceiling:.3g}"
            )
        for number, note in enumerate(self.notes):
            found[f"note_{number + 1}"] = note
        return found

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
        }
        sections: dict[str, npt.NDArray[Any]] = {
            "policy.thresholds": self.missed.thresholds,
            "policy.totals": np.stack([curve.totals for curve in curves.values()]),
        }
        if self.proven is not None:
            sections["policy.proven"] = self.proven
        for name, rule in self.inputs.items():
            sections[f"policy.inputs.{_IN_FILES.get(name, name)}"] = rule.to_arrays()
        return header, sections

    @classmethod
    def from_sections(cls, header: Any, sections: Mapping[str, npt.NDArray[Any]]) -> Policy:
        """Take back what `to_sections` gave, after checking it."""
        if not isinstance(header, dict):
            raise ValueError("the policy is not an object")
        thresholds, totals = sections["policy.thresholds"], sections["policy.totals"]
        _check_thresholds(thresholds)
        if totals.dtype != np.float64 or totals.shape != (len(header["curves"]), len(thresholds)):
            raise ValueError("the curves of the policy have the wrong type or number")
        curves: dict[str, RiskCurve] = {}
        for (name, rows, highest), losses in zip(header["curves"], totals, strict=True):
            curves[str(name)] = _checked_curve(name, thresholds, losses, rows, highest)
        groups = header["groups"]
        expected = {"missed", "size", *(f"{WRONG}{by}" for by in LABEL_MEASURES)}
        expected |= {f"{WITHHELD}{by}" for by in LABEL_MEASURES}
        expected |= {f"group.{number}" for number in range(len(groups))}
        if set(curves) != expected:
            raise ValueError("the policy has missing or unknown curves")
        if not all(_is_whole(low) and _is_whole(high) and low <= high for low, high, _ in groups) or not all(
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
            if not _is_whole(header[count]):
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
            float(header.get("named", 0.0)),
        )

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


def _conformal(
    curve: RiskCurve, risk: float, unknown: tuple[float, float], what: str, proven: Floats | None
) -> float:
    """The largest threshold that keeps the risk, or an error that says why there is none.

    `unknown` has the shares of labels that training lacks: those that names do not find, and those they do.
    """
    place = curve.largest(risk)
    if place is not None:
        return float(curve.thresholds[place])
    if risk * (curve.rows + 1) < 1:
        raise TooFewRows(
            f"{curve.rows} held-out inputs with {what} are too few to guarantee a risk of {risk:g}, which"
            f" needs at least {conformal_rows(risk)}; learn the policy from more, or allow a higher risk"
        )
    lost = float(curve.losses[0]) - unknown[0]
    never = f"{100 * sum(unknown):.2f} % of the {what} never occur in training"
    if unknown[1]:
        never += f" ({100 * unknown[1]:.2f} % are found by their names, {100 * unknown[0]:.2f} % are not)"
    certified = (
        ""
        if proven is None
        else f" (for {100 * proven[1]:.0f} % of the inputs the search is proven to have lost nothing)"
    )
    margin = curve.ceiling - float(curve.losses[0])
    raise Unreachable(
        f"{never} and {100 * lost:.2f} % are lost by the"
        f" beam, so a risk of {risk:g} cannot be guaranteed; allow a risk of at least"
        f" {_rounded_up(curve.ceiling)}, train on data that have these labels, or find more with a wider beam"
        f" or tolerance={certified}. The margin for chance with {curve.rows} inputs is {100 * margin:.2f} %,"
        f" at least 1/{curve.rows + 1}"
    )


def _rounded_up(risk: float) -> str:
    return f"{math.ceil(risk * 1000) / 1000:g}"


def _check_size(size: Any) -> None:
    if isinstance(size, bool) or not isinstance(size, Real) or not 0 < float(size) < math.inf:
        raise ValueError(f"size is {size!r}; it must be a positive number of labels")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_thresholds(thresholds: npt.NDArray[Any]) -> None:
    if thresholds.dtype != np.float32 or thresholds.ndim != 1 or not 2 < len(thresholds) <= 4096:
        raise ValueError("the thresholds of the policy are not a vector of floats")
    inner = thresholds[:-1]
    if thresholds[-1] != np.inf or inner[0] != 0 or not (inner <= 1).all() or not (np.diff(inner) > 0).all():
        raise ValueError("the thresholds of the policy do not ascend from 0")


def _checked_curve(
    name: Any, thresholds: npt.NDArray[np.float32], totals: npt.NDArray[Any], rows: Any, highest: Any
) -> RiskCurve:
    if not isinstance(name, str) or not _is_whole(rows) or highest != (CAP if name == "size" else 1):
        raise ValueError("the policy has a curve with an impossible name, size or maximum")
    # Rounding: sums of shares may be slightly off.
    slack = 1e-6 * max(1, rows)
    if not np.isfinite(totals).all() or totals.min() < -slack or totals.max() > rows * highest + slack:
        raise ValueError(f"the curve {name!r} of the policy has impossible losses")
    rising = name in ("missed",) or name.startswith(("group.", WITHHELD))
    steps = np.diff(totals)
    if (rising and steps.min() < -slack) or (name == "size" and steps.max() > slack):
        raise ValueError(f"the curve {name!r} of the policy is not monotone")
    return RiskCurve(thresholds, totals, rows, float(highest))
