"""What is guaranteed, in numbers and in the one sentence that is printed everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

__all__ = [
    "KINDS",
    "SHARES_OF",
    "Guarantee",
    "Unseen",
    "about_missed",
    "about_review",
    "about_wrong",
    "limits",
    "tried",
]

KINDS = ("wrong", "missed", "review", "size", "coverage", "inputs")
SHARES_OF = ("labels", "answered", "inputs")  # what a share of wrong labels can be of
_NEXT_TO_NOTHING = 5e-4

_WRONG = {
    "labels": "wrong, of all accepted labels",
    "answered": "wrong, mean over answered inputs",
    "inputs": "wrong, mean over all inputs",
}
_OF = {
    "labels": "all accepted labels",
    "answered": "the labels of an input that is given any",
    "inputs": "an input's accepted labels",
}


@dataclass(frozen=True)
class Guarantee:
    """One thing that is guaranteed of decisions, or why it is not.

    Attributes
    ----------
    kind : {"wrong", "missed", "review", "size", "coverage", "inputs"}
        Wrong labels among those accepted; right labels that are neither accepted nor listed for review; right
        labels among the best few; the number of accepted labels; the share of labels, or of inputs, that are
        answered.
    of : {"labels", "answered", "inputs"} or None
        What the share is of, where the kind is "wrong".
    asked : float
        What was asked for: a share, or a number of labels.
    promised : float or None
        What is guaranteed: a share that is not exceeded or, for the best few labels, that is reached at
        least; None where nothing is.
    confidence : float or None
        The probability, over draws of the held-out inputs, that it is kept. None where it is kept on average
        over these draws.
    reached : float or None
        The same share on the held-out inputs; None where there is nothing to count.
    words : str
        What is guaranteed, or why it is not.
    refused : str or None
        Why it cannot be guaranteed, and what to do.
    """

    kind: str
    of: str | None
    asked: float
    promised: float | None
    confidence: float | None
    reached: float | None
    words: str
    refused: str | None = None

    @property
    def is_kept_above(self) -> bool:
        """Whether what is guaranteed is a least value: more is better."""
        return self.kind in ("review", "coverage")

    @property
    def title(self) -> str:
        """What it is about, in few words."""
        if self.kind == "wrong":
            return f"{_WRONG[self.of or 'labels']}, at {100 * self.asked:g} %"
        if self.kind == "missed":
            return f"right labels missed, at {100 * self.asked:g} %"
        if self.kind == "review":
            return f"right labels among the best {self.asked:g}"
        return f"{self.kind} {self.asked:g}"

    def keeps(self, achieved: float) -> bool:
        """Whether a share that was achieved is as guaranteed."""
        if self.promised is None:
            return False
        return achieved >= self.promised if self.is_kept_above else achieved <= self.promised

    def refuse(self, why: str) -> Guarantee:
        """The same, refused."""
        return replace(self, promised=None, words=f"Not guaranteed: {why}.", refused=why)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        return asdict(self)


def about_wrong(
    of: str, share: float, confidence: float, reached: float | None, what: str = "labels"
) -> Guarantee:
    """At most this share of the accepted labels is wrong; nothing is accepted where nothing was reached."""
    percent = f"{100 * share:g} %"
    surely = f"with a confidence of {100 * confidence:g} % (Learn then Test)"
    if of == "labels":
        kept = f"At most {percent} of all accepted {what} are wrong, {surely}"
    elif of == "answered":
        kept = (
            f"Of an input that is given any {what}, at most {percent} of these are wrong, mean over such"
            f" inputs, {surely}"
        )
    else:
        kept = (
            f"At most {percent} of an input's accepted {what} are wrong, mean over all inputs, where those"
            f" that are given none count as 0 %, {surely}"
        )
    if reached is None:
        words = (
            f"Nothing is accepted: no threshold shows that at most {percent} of {_OF[of]} would be wrong;"
            " calibrate with more inputs, or allow more wrong ones."
        )
    else:
        words = f"{kept}; {100 * reached:.1f} % of the held-out ones are."
    return Guarantee("wrong", of, share, share, confidence, reached, words)


@dataclass(frozen=True)
class Unseen:
    """Mean shares of an input's right labels that were never seen in training.

    `unknown` are those that the model does not know at all; `named` are found by their names, and count as
    known.
    """

    unknown: float
    named: float


def about_missed(share: float, reached: float, unseen: Unseen, what: str = "") -> Guarantee:
    """At most this share of an input's right labels is missed, of those that the model knows."""
    words = (
        f"Of an input's right labels{what} that the model knows, at most {100 * share:g} % are missed, mean"
        " over inputs (conformal risk control: neither accepted nor listed for review);"
        f" {100 * reached:.1f} % of the held-out ones are.{_besides(unseen)}"
    )
    return Guarantee("missed", None, share, share, None, reached, words)


def about_review(number: int, share: float, confidence: float, reached: float, unseen: Unseen) -> Guarantee:
    """The best labels of an input contain at least this share of its right labels that the model knows."""
    best = (
        "The best label of an input contains"
        if number == 1
        else f"The {number} best labels of an input contain"
    )
    words = (
        f"{best} at least {_down(share)} % of its right labels that the model knows, mean over inputs, with a"
        f" confidence of {100 * confidence:g} %; {100 * reached:.1f} % of the held-out ones."
        f"{_besides(unseen)}"
    )
    return Guarantee("review", None, float(number), share, confidence, reached, words)


def tried(asked: Guarantee, work: Callable[[Guarantee], Guarantee]) -> Guarantee:
    """The guarantee, or the reason why there is none."""
    try:
        return work(asked)
    except ValueError as error:
        return asked.refuse(str(error))


def limits(rows: int) -> str:
    """What no guarantee says."""
    return (
        f"This holds for inputs like the {rows:,} held-out ones: not for each single label or input, and not"
        " for out-of-distribution inputs."
    )


def _besides(unseen: Unseen) -> str:
    if max(unseen.unknown, unseen.named) < _NEXT_TO_NOTHING:
        return ""
    said = (
        f" Besides, about {100 * unseen.unknown:.2g} % of the right labels have never been seen in training"
    )
    if unseen.named < _NEXT_TO_NOTHING:
        return f"{said}."
    return (
        f"{said}, and names do not find them; {100 * unseen.named:.2g} % more are found by their names only."
    )


def _down(share: float) -> str:
    """In percent, rounded so that no more is said than holds."""
    return f"{int(1000 * share + 1e-9) / 10:.1f}"
