"""SKOS vocabularies in Turtle and RDF/XML, read by rdflib as a stream of triples: no graph is kept."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import rdflib
from rdflib.namespace import DCTERMS, OWL, RDF, RDFS, SKOS
from rdflib.plugins.parsers.notation3 import BadSyntax
from rdflib.store import Store

from hedgerow.data.errors import DataError

from .building import Builder, EntryError
from .columns import Columns
from .files import read_text
from .literals import refuse_long_literals
from .names import NO_URI, VocabularyWarning
from .rdf_xml import read_triples

__all__ = ["read_rdf_xml", "read_turtle"]

_NOWHERE = "http://relative.invalid/"  # no file can name this host by accident


class _Triples(Store):  # type: ignore[misc]
    """Takes the triples that say something about concepts, and forgets the others."""

    def __init__(self) -> None:
        super().__init__()
        self.concepts: dict[Any, None] = {}
        self.typed: set[Any] = set()
        self.names: defaultdict[Any, list[tuple[Any, bool]]] = defaultdict(list)
        self.labels: defaultdict[Any, list[Any]] = defaultdict(list)
        self.broader: defaultdict[Any, list[Any]] = defaultdict(list)
        self.notations: dict[Any, Any] = {}
        self.schemes: dict[Any, Any] = {}
        self.tops: dict[Any, Any] = {}
        self.successors: dict[Any, Any] = {}
        self.deprecated: set[Any] = set()
        self._adds = {
            RDF.type: self._type,
            SKOS.prefLabel: lambda of, name: self.names[of].append((name, True)),
            SKOS.altLabel: lambda of, name: self.names[of].append((name, False)),
            SKOS.hiddenLabel: lambda of, name: self.names[of].append((name, False)),
            RDFS.label: lambda of, name: self.labels[of].append(name),
            SKOS.notation: self.notations.setdefault,
            SKOS.broader: lambda of, above: self.broader[of].append(above),
            SKOS.narrower: lambda of, below: self.broader[below].append(of),
            SKOS.inScheme: self.schemes.setdefault,
            SKOS.topConceptOf: self.tops.setdefault,
            SKOS.hasTopConcept: lambda scheme, of: self.tops.setdefault(of, scheme),
            DCTERMS.isReplacedBy: self.successors.setdefault,
            OWL.deprecated: self._deprecate,
        }

    @property
    def wanted(self) -> Set[str]:
        """The predicates that say something."""
        return {str(predicate) for predicate in self._adds}

    def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
        """Called by the parsers."""
        subject, predicate, value = triple
        if (add := self._adds.get(predicate)) is not None:
            add(subject, value)

    # What parsers tell about prefixes is not needed.
    def bind(self, prefix: str, namespace: Any, override: bool = True) -> None:
        """A prefix."""

    def namespace(self, prefix: str) -> None:
        """The URI of a prefix."""

    def prefix(self, namespace: Any) -> None:
        """The prefix of a URI."""

    def namespaces(self) -> Iterator[Any]:
        """All prefixes."""
        return iter(())

    def _type(self, subject: Any, kind: Any) -> None:
        self.typed.add(subject)
        if kind == SKOS.Concept:
            self.concepts[subject] = None

    def _deprecate(self, subject: Any, value: Any) -> None:
        if str(value).lower() in ("true", "1"):
            self.deprecated.add(subject)

    def _refuse_without_uri(self, concept: Any) -> None:
        """Refuse what the file calls a concept and gives no id; the error names it as well as it can."""
        if concept in self.typed:
            names = [str(name) for name, _ in self.names[concept]]
            which = f" {names[0]!r}" if names else ""
            raise EntryError(f"the URI of the skos:Concept{which} is missing; give every concept one")

    def _several(self, concept: Any) -> str:
        """What to say of a concept with more than one preferred name in a language; nothing of others."""
        found: dict[str | None, str] = {}
        for name, preferred in self.names.get(concept, ()):
            if preferred and isinstance(name, rdflib.Literal):
                language = name.language and name.language.lower()
                if found.setdefault(language, text := " ".join(name.split())) != text:
                    which = "without a language" if language is None else f"in {language!r}"
                    return (
                        f"concepts have several preferred names in one language, such as <{concept}> {which}:"
                        f" {found[language]!r} and {text!r}; all are kept and the first is shown. Perhaps two"
                        " concepts have the same URI by mistake"
                    )
        return ""

    def vocabulary(self) -> Columns:
        """The concepts, in the order in which the file introduces them."""
        # What has a preferred name and no type at all is taken for a concept whose type was forgotten.
        for subject, names in self.names.items():
            if subject not in self.typed and any(preferred for _, preferred in names):
                self.concepts[subject] = None
        builder = Builder()
        unnamed = odd = 0
        several = ""
        for concept in self.concepts:
            if not isinstance(concept, rdflib.URIRef):
                self._refuse_without_uri(concept)
                unnamed += 1
                continue
            builder.entry(_id(concept))
            names = self.names.get(concept, [])
            if not any(preferred for _, preferred in names):
                names = [*names, *((label, True) for label in self.labels.get(concept, ()))]
            several = several or self._several(concept)
            for name, preferred in names:
                if isinstance(name, rdflib.Literal):
                    builder.name(str(name), name.language, preferred)
                else:
                    odd += 1
            if (notation := self.notations.get(concept)) is not None:
                builder.notation(str(notation))
            for above in self.broader.get(concept, ()):
                if isinstance(above, rdflib.URIRef):
                    builder.broader(_id(above))
                else:
                    odd += 1
            if isinstance(scheme := self.schemes.get(concept, self.tops.get(concept)), rdflib.URIRef):
                builder.scheme(_id(scheme))
            if isinstance(successor := self.successors.get(concept), rdflib.URIRef):
                builder.successor(_id(successor))
            if concept in self.deprecated:
                builder.deprecate()
        left_out = (
            (unnamed, "things have a skos:prefLabel, but neither a type nor a URI,"),
            (odd, "names are no literals, or broader ones no URIs,"),
        )
        for count, what in left_out:
            if count:
                warnings.warn(f"{count:,} {what} and were left out", VocabularyWarning, stacklevel=4)
        if several:
            warnings.warn(several, VocabularyWarning, stacklevel=4)
        if not len(builder):
            raise EntryError("there is no skos:Concept with a URI")
        return builder.finish()


def read_turtle(path: Path) -> Columns:
    """SKOS as Turtle."""
    text = read_text(path)
    refuse_long_literals(path, text)
    return _read(
        path, lambda triples: rdflib.Graph(triples).parse(data=text, format="turtle", publicID=_NOWHERE)
    )


def read_rdf_xml(path: Path) -> Columns:
    """SKOS as RDF/XML."""
    return _read(path, lambda triples: read_triples(path, rdflib.Graph(triples), _NOWHERE, triples.wanted))


def _read(path: Path, parse: Callable[[_Triples], object]) -> Columns:
    triples = _Triples()
    try:
        with _verbatim():
            parse(triples)
    except BadSyntax as error:
        found = re.search(r"Bad syntax \((.*)\) at \^ in:\n(.*)", str(error), re.DOTALL)
        what = f"{found[1]} at ^ in {found[2]}" if found else str(error)
        raise DataError(path, f"is not valid Turtle: {what}", error.lines + 1) from error
    except RecursionError:
        raise DataError(path, "is nested too deeply for a vocabulary") from None
    except (DataError, MemoryError, OSError):
        raise
    except Exception as error:  # whatever rdflib raises for what it did not expect
        line = _line_of(error)
        raise DataError(path, f"cannot be read as SKOS: {error or type(error).__name__}", line) from error
    return triples.vocabulary()


def _line_of(error: Exception) -> int | None:
    found = re.search(r":(\d+):\d+: ", str(error))
    return int(found[1]) if found else None


@contextlib.contextmanager
def _verbatim() -> Iterator[None]:
    """Keep literals as they are written: 007 is a notation, not 7. Values that make no sense are no news."""
    before, log = rdflib.NORMALIZE_LITERALS, logging.getLogger("rdflib.term")
    disabled = log.disabled
    rdflib.NORMALIZE_LITERALS, log.disabled = False, True
    try:
        yield
    finally:
        rdflib.NORMALIZE_LITERALS, log.disabled = before, disabled


def _id(uri: Any) -> str:
    text = str(uri)
    if text.startswith(_NOWHERE):
        raise EntryError(
            f"the URI <{text.removeprefix(_NOWHERE)}> is relative, but the file has no base; add @base"
            " or in RDF/XML xml:base"
        )
    if not text.startswith(NO_URI):
        return text
    try:
        return unquote(text.removeprefix(NO_URI), errors="strict")
    except UnicodeDecodeError:
        raise EntryError(f"the URI <{text}> holds bytes that are not UTF-8 in percent-encoding") from None
