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
class Allowed:
    """The labels of --only and --exclude as they were written; None where there was no such option."""

    only: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None

    @classmethod
    def from_options(cls, only: Sequence[str] | None, exclude: Sequence[str] | None) -> Allowed:
        """Read the files that are named as @FILE."""
        return cls(*(tuple(_read(of)) if of else None for of in (only, exclude)))

    def labels_for(self, classifier: HedgerowClassifier) -> dict[str, Any]:
        """The arguments `only` and `exclude` of a model's methods; refuses what the model does not know.

        Whatever names labels, by themselves or together, becomes a set of labels of the model here.
        """
        numbers = classifier.classes_.dtype != object
        labels = {
            name: None if of is None else [_number(name, label) for label in of] if numbers else list(of)
            for name, of in vars(self).items()
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
