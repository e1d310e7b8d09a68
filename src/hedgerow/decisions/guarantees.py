"""What a policy guarantees, next to what it achieves on labelled data."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hedgerow.decisions.goals import Goal, rule_for
from hedgerow.decisions.matched import Matched
from hedgerow.decisions.outcomes import Outcome, Tally
from hedgerow.decisions.policy import Policy
from hedgerow.decisions.rules import Rule
from hedgerow.inputs.search import SearchSettings
from hedgerow.votes.votes import Votes

__all__ = ["FALSE_ALARM", "RISKS", "GuaranteeTally", "KeptGuarantee"]

RISKS = (0.05, 0.1, 0.2)
FALSE_ALARM = 0.05


@dataclass(frozen=True)
class KeptGuarantee:
    """A guarantee at one risk, and what the decisions achieved.

    Where it cannot be guaranteed, `refused` says why. Otherwise `Outcome.missed` is at most the risk on
    average and, with a confidence of 90 %, so is `Outcome.wrong`. `accept_from` is None where nothing is
    accepted; `flagged` is the share of inputs flagged as OOD, at most 5 % of in-distribution inputs.
    """

    risk: float
    refused: str | None
    reject_below: float | None
    accept_from: float | None
    outcome: Outcome | None
    flagged: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers: what is guaranteed, and what is achieved."""
        found: dict[str, Any] = {"guaranteed": self.risk, "refused": self.refused}
        found |= {"reject_below": self.reject_below, "accept_from": self.accept_from, "flagged": self.flagged}
        names = ("missed", "wrong", "precision", "recall", "accepted", "reviewed", "rejected")
        achieved = {} if self.outcome is None else asdict(self.outcome)
        return found | {name: achieved.get(name) for name in names}


class GuaranteeTally:
    """Adds up what decisions at each of `RISKS` achieve, batch by batch.

    Without a policy, or with another search than that of the policy, nothing is guaranteed.
    """

    def __init__(
        self, policy: Policy | None, search: SearchSettings, counts: npt.NDArray[np.int64] | None
    ) -> None:
        self._rules: dict[float, Rule] = {}
        self._refused: dict[float, str] = {}
        if policy is None or policy.search.to_dict() != search.to_dict():
            self._tallies: dict[float, Tally] = {}
            return
        for risk in RISKS:
            try:
                self._rules[risk], _ = rule_for(Goal(risk=risk), policy, counts)
            except ValueError as error:
                self._refused[risk] = str(error)
        self._tallies = {risk: Tally(rule) for risk, rule in self._rules.items()}

    def add(self, votes: Votes, truth: sp.csr_array) -> None:
        """Add the next inputs."""
        if not self._tallies:
            return
        found = Matched(votes, truth, np.ones(truth.shape[1], dtype=bool))
        for tally in self._tallies.values():
            tally.add_matched(votes, found)

    def finish(self, p_values: npt.NDArray[np.floating[Any]] | None) -> list[KeptGuarantee]:
        """All guarantees, by risk; none where nothing is guaranteed."""
        flagged = None if p_values is None else float((p_values <= FALSE_ALARM).mean())
        found = []
        for risk in RISKS:
            if risk in self._rules:
                rule = self._rules[risk]
                accept = rule.accept_from if math.isfinite(rule.accept_from) else None
                outcome = self._tallies[risk].finish()
                found.append(
                    KeptGuarantee(risk, None, float(np.min(rule.reject_below)), accept, outcome, flagged)
                )
            elif risk in self._refused:
                found.append(KeptGuarantee(risk, self._refused[risk], None, None, None, flagged))
        return found
