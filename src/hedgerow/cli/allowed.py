"""Which labels a command may answer: what its options say, as sets of labels of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .failures import ExitCode, Failure, failing_as

if TYPE_CHECKING:
    from hedgerow.estimators.features import HedgerowClassifier


@dataclass(frozen=True)
class LabelChoice:
    """What names labels: themselves, and schemes and entries of the vocabulary with all below them."""

    labels: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    subtrees: tuple[str, ...] = ()

    @classmethod
    def from_options(
        cls, labels: Sequence[str] | None, schemes: Sequence[str] | None, subtrees: Sequence[str] | None
    ) -> LabelChoice | None:
        """What options say, with the files that are named as @FILE; None if there are no such options."""
        if not (labels or schemes or subtrees):
            return None
        return cls(tuple(_read(labels or ())), tuple(schemes or ()), tuple(subtrees or ()))

    def labels_for(self, option: str, classifier: HedgerowClassifier) -> list[Any]:
        """All of them, as labels of a model."""
        numbers = classifier.classes_.dtype != object
        labels: list[Any] = [_number(option, one) for one in self.labels] if numbers else list(self.labels)
        if not (self.schemes or self.subtrees):
            return labels
        with failing_as(ExitCode.USAGE, ValueError):
            labels += classifier.source.labels_in(self.schemes, self.subtrees)
        if not labels and option == "only":
            options = " and ".join(
                f"--only-{name} {', '.join(of)}"
                for name, of in (("scheme", self.schemes), ("subtree", self.subtrees))
                if of
            )
            raise Failure(
                ExitCode.USAGE,
                f"{options}: no label of the model is among these entries, so nothing could be answered; name"
                " others",
            )
        return labels


@dataclass(frozen=True)
class Allowed:
    """Which labels options allow and exclude; None where there was no such option."""

    only: LabelChoice | None = None
    exclude: LabelChoice | None = None

    def labels_for(self, classifier: HedgerowClassifier) -> dict[str, Any]:
        """The arguments `only` and `exclude` of a model's methods; refuses what the model does not know.

        Whatever names labels, by themselves or together, becomes a set of labels of the model here.
        """
        labels = {
            name: None if of is None else of.labels_for(name, classifier) for name, of in vars(self).items()
        }
        try:
            classifier.source.subset(**labels)
        except ValueError as error:
            message = str(error)
            dashes = "--" if message.startswith(("only ", "exclude ")) else ""
            raise Failure(ExitCode.USAGE, dashes + message) from error
        return labels

    def most(self, classifier: HedgerowClassifier) -> int:
        """How many labels can be answered."""
        source = classifier.source
        return source.known_of(source.subset(**self.labels_for(classifier)))


def _read(values: Sequence[str]) -> list[str]:
    labels: list[str] = []
    for value in values:
        labels += _lines(Path(value[1:])) if value.startswith("@") else [value]
    return labels


def _lines(path: Path) -> list[str]:
    """A label from each line that is not empty."""
    with failing_as(ExitCode.DATA):
        content = path.read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failure(
            ExitCode.DATA, f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8, a label on each line"
        ) from error
    labels = [line.removesuffix("\r") for line in text.split("\n")]
    labels = [label for label in labels if label.strip()]
    if not labels:
        raise Failure(ExitCode.DATA, f"{path} has no labels; write one on each line")
    return labels


def _number(option: str, label: str) -> int:
    try:
        return int(label)
    except ValueError:
        raise Failure(
            ExitCode.USAGE, f"--{option} {label}: the labels of this model are numbers; give one"
        ) from None
