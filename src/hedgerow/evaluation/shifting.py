"""Whether evaluated inputs are like the held-out ones, and whether the guarantees were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hedgerow.decisions.guarantees import KeptGuarantee
from hedgerow.decisions.policy import Policy
from hedgerow.shift.kept import Achieved, kept_tests
from hedgerow.shift.report import ShiftReport

__all__ = ["OTHER_SEARCH", "with_guarantees"]

OTHER_SEARCH = "the model searches otherwise than when it was calibrated"


def with_guarantees(
    report: ShiftReport, policy: Policy, decisions: Sequence[KeptGuarantee], labelled: int
) -> ShiftReport:
    """The report with a test of each guarantee; `labelled` is the number of inputs that have labels."""
    achieved = []
    for of in decisions:
        if of.outcome is None:
            continue
        missed, wrong, inputs = of.outcome.missed, of.outcome.wrong, of.outcome.inputs
        achieved.append(Achieved("an input's true labels", "rejected", of.risk, missed, labelled))
        achieved.append(Achieved("an input's accepted labels", "wrong", of.risk, wrong, inputs))
    return replace(report, kept=kept_tests(achieved, policy.rows))
