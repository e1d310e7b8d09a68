"""Labels that a person may mean, by their names or by a part of what they are."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.vocabulary.naming import Naming

from .served_model import ServedModel

MOST = 1000  # labels that a search by names gives


@dataclass(frozen=True)
class FoundLabel:
    """A label, how many training inputs have it if that is known, its name, and the name that was found."""

    label: str | int
    count: int | None
    name: str | None = None
    matched: str | None = None


def find_labels(served: ServedModel, query: str, naming: Naming | None) -> list[FoundLabel]:
    """All labels that a query may mean, best first.

    With a vocabulary these are its best entries, labels of the model or not, by any name in any language and
    with typing mistakes, and then the labels without a name that hold the query. Without one, or for an empty
    query, they are the labels that hold the query, frequent ones first.
    """
    if naming is None or not query.strip():
        return [_known(served, column, naming) for column in served.search(query)]
    found = []
    for match in naming.vocabulary.search(query, naming.lang, MOST):
        column = served.columns_by_text.get(match.id)
        if column is None:
            new = served.as_label(match.id)
            found.append(FoundLabel(new, None if served.counts is None else 0, match.name, match.matched))
        else:
            found.append(FoundLabel(served.labels[column], _count(served, column), match.name, match.matched))
    wanted = query.casefold()
    nameless = [column for column in served.nameless if wanted in served.folded[column]]
    there = {one.label for one in found}
    found += [_known(served, column, naming) for column in nameless if served.labels[column] not in there]
    return found[:MOST]


def _known(served: ServedModel, column: int, naming: Naming | None) -> FoundLabel:
    label = served.labels[column]
    return FoundLabel(label, _count(served, column), None if naming is None else naming.of(label))


def _count(served: ServedModel, column: int) -> int | None:
    return None if served.counts is None else served.counts[column]
