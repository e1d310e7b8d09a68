"""Whether evaluated inputs are like the held-out ones, and whether the guarantees were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hedgerow.decisions.kept import KeptGuarantee
from hedgerow.decisions.policy import Policy
from hedgerow.shift.kept import Achieved, kept_tests
from hedgerow.shift.report import ShiftReport

__all__ = ["OTHER_SEARCH", "with_guarantees"]

OTHER_SEARCH = "the model searches otherwise than when it was calibrated"


def with_guarantees(report: ShiftReport, policy: Policy, decisions: Sequence[KeptGuarantee]) -> ShiftReport:
    """The report with a test of each guarantee that is a mean over inputs.

    A share of all accepted labels, or of those of answered inputs, is a ratio of two means, which these tests
    do not cover.
    """
    achieved = [one for one in map(_achieved, decisions) if one is not None]
    # Only held-out inputs with labels say something of missed ones; fewer are the careful side for the rest.
    return replace(report, kept=kept_tests(achieved, policy.missed.rows))


def _achieved(of: KeptGuarantee) -> Achieved | None:
    """The loss that was to be at most so much; None where it is not a mean over inputs, or is refused."""
    guarantee, share = of.guarantee, of.guarantee.promised
    if share is None or of.achieved is None:
        return None
    if guarantee.kind == "wrong" and guarantee.of == "inputs":
        labels = "an input's accepted labels (mean over all inputs)"
        return Achieved(labels, "wrong", share, of.achieved, of.inputs)
    labels = "an input's right labels that the model knows"
    if guarantee.kind == "missed":
        return Achieved(labels, "missed", share, of.achieved, of.inputs)
    if guarantee.kind == "review":
        fate = f"missing among its {guarantee.asked:g} best"
        return Achieved(labels, fate, 1 - share, 1 - of.achieved, of.inputs)
    return None
