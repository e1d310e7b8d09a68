"""What a comparison of new inputs with the held-out ones says."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from hedgerow.shift.kept import KeptTest
from hedgerow.shift.martingale import ALARM

__all__ = ["Evidence", "ShiftReport"]


@dataclass(frozen=True)
class Evidence:
    """What one signal says: its highest martingale, and its mean over held-out and over new inputs."""

    name: str
    words: str
    log10: float
    held_out: float
    new: float

    @property
    def sentence(self) -> str:
        """The two means, in words."""
        return f"{self.words}: {self.held_out:.3g} on held-out inputs, {self.new:.3g} here"


@dataclass(frozen=True)
class ShiftReport:
    """Whether new inputs are like the held-out ones, and whether guarantees were kept.

    Attributes
    ----------
    inputs, held_out : int
        How many inputs were compared with how many.
    log10 : float
        The decimal logarithm of the highest test martingale; from 2 (a hundred) on it is an alarm, which
        without shift happens with a chance of at most 1 %, however many inputs are watched.
    now_log10 : float
        The martingale after the last input.
    evidence : tuple of Evidence
        The signals, the strongest first.
    kept : tuple of KeptTest
        The guarantees that were compared with the truth; empty where that is not known.
    untested : str or None
        Why shift could not be tested.
    """

    inputs: int
    held_out: int
    log10: float = 0.0
    now_log10: float = 0.0
    evidence: tuple[Evidence, ...] = ()
    kept: tuple[KeptTest, ...] = ()
    untested: str | None = None

    @property
    def shifted(self) -> bool:
        """Whether the inputs are not like the held-out ones."""
        return self.log10 >= math.log10(ALARM) - 1e-12

    @property
    def broken(self) -> bool:
        """Whether a guarantee was broken, or is not supported because the inputs have shifted."""
        return self.shifted or any(test.broken for test in self.kept)

    @property
    def words(self) -> str:
        """What was found, in sentences; a broken guarantee first, then an unsupported one."""
        said = []
        broken = [test for test in self.kept if test.broken]
        if broken:
            worst = min(broken, key=lambda test: test.p_value)
            more = f" ({len(broken) - 1} more are broken)" if len(broken) > 1 else ""
            said.append(f"A guarantee is broken: {worst.sentence}{more}.")
        if self.shifted:
            also = "The inputs have shifted" if broken else "Guarantees are not supported here"
            said.append(
                f"{also}: these {self.inputs:,} inputs are not like the {self.held_out:,} held-out ones"
                f" (test martingale {_power(self.log10)}; without shift it reaches {ALARM:g} with a chance of"
                " at most 1 %)."
            )
            if self.evidence:
                said.append(f"Most of all, {self.evidence[0].sentence}.")
        if self.broken:
            said.append("Calibrate again with inputs like these.")
        elif self.untested is not None:
            said.append(f"Shift is not tested: {self.untested}.")
        else:
            said.append(
                f"No shift found: nothing shows that these {self.inputs:,} inputs differ from the"
                f" {self.held_out:,} held-out ones (test martingale {_power(self.log10)}; {ALARM:g} would be"
                " an alarm)."
            )
        return " ".join(said)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for programs."""
        return {"broken": self.broken, "shifted": self.shifted, "words": self.words, **asdict(self)}


def _power(log10: float) -> str:
    """A number by its logarithm.

    Examples
    --------
    >>> _power(0.301), _power(12.5), _power(400.0)
    ('2', '3e+12', '1e+400')
    """
    if log10 < 6:
        return f"{10**log10:,.0f}" if log10 > 1 else f"{10**log10:.2g}"
    whole = math.floor(log10)
    lead = round(10 ** (log10 - whole))
    return f"1e{whole + 1:+d}" if lead == 10 else f"{lead}e{whole:+d}"
