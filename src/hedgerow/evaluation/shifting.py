"""Whether evaluated inputs are like the held-out ones, and whether the guarantees were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hedgerow.decisions.kept import KeptGuarantee
from hedgerow.decisions.policy import Policy
from hedgerow.shift.kept import Achieved, kept_tests
from hedgerow.shift.report import ShiftReport

__all__ = ["OTHER_SEARCH", "with_guarantees"]

_WRONG = {
    "labels": "all accepted labels",
    "answered": "an input's accepted labels (mean over the inputs that are given any)",
    "inputs": "an input's accepted labels (mean over all inputs)",
}
OTHER_SEARCH = "the model searches otherwise than when it was calibrated"


def with_guarantees(report: ShiftReport, policy: Policy, decisions: Sequence[KeptGuarantee]) -> ShiftReport:
    """The report with a test of each guarantee of a share: wrong labels, missed ones, and the best few."""
    achieved = [one for one in map(_achieved, decisions) if one is not None]
    # Only held-out inputs with labels say something of missed ones; fewer are the careful side for the rest.
    return replace(report, kept=kept_tests(achieved, policy.missed.rows))


def _achieved(of: KeptGuarantee) -> Achieved | None:
    """The loss that was to be at most so much; None where it is refused, or there is nothing to count."""
    guarantee, share = of.guarantee, of.guarantee.promised
    if share is None or of.achieved is None:
        return None
    if guarantee.kind == "wrong":
        labels = _WRONG[guarantee.of or "labels"]
        return Achieved(labels, "wrong", share, of.achieved, of.inputs, of.p_value)
    labels = "an input's right labels that the model knows"
    if guarantee.kind == "missed":
        return Achieved(labels, "missed", share, of.achieved, of.inputs)
    if guarantee.kind == "review":
        fate = f"missing among its {guarantee.asked:g} best"
        return Achieved(labels, fate, 1 - share, 1 - of.achieved, of.inputs)
    return None
