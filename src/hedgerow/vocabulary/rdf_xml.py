"""Reads RDF/XML in one pass: expat cuts it, rdflib says which triples it means."""

from __future__ import annotations

import codecs
from collections.abc import Set
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urljoin
from xml.parsers import expat
from xml.parsers.expat import errors

from rdflib import Graph, URIRef
from rdflib.plugins.parsers.rdfxml import RDFXMLHandler

from hedgerow.data.errors import DataError

from .files import read_bytes
from .literals import too_long
from .names import LONGEST

__all__ = ["read_triples"]

_NAMESPACES = 1000  # that are declared at one place; rdflib copies them all with each declaration
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_XML = "http://www.w3.org/XML/1998/namespace"
_PLAIN = {f"{_RDF} resource", f"{_RDF} datatype", f"{_XML} lang"}  # attributes that begin no description
_PARSE_TYPE = (f"{_RDF} parseType", "parseType")
_NO_LITERAL = (None, "Resource", "Collection")  # anything else is a literal with markup in it
_INVALID = errors.codes[errors.XML_ERROR_INVALID_TOKEN]
_NOT_UTF8 = (
    "; its bytes are not UTF-8, so name its encoding in the first line, such as"
    ' <?xml version="1.0" encoding="ISO-8859-1"?>'
)
_DOCTYPE = (
    "has a DOCTYPE, which can define entities that fill the memory or name other files; if you trust"
    " the file, remove it with xmllint --noent --dropdtd"
)


def read_triples(path: Path, graph: Graph, base: str, wanted: Set[str]) -> None:
    """Give the triples of an RDF/XML file to a graph; the file says in which encoding it is.

    Those of other predicates than are wanted may be missing, which saves time. What defines entities is
    refused before it can grow, and so is a literal that is too long.
    """
    _Reader(path, graph, base, wanted).read(read_bytes(path))


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_utf8_all_the_same(encoding: str, content: bytes) -> bool:
    """Whether a file is not in the encoding with one byte a character that it names.

    Text in such an encoding is no UTF-8 from the first character on that is not ASCII, but by rare accident.
    """
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        return False
    return not name.startswith("utf") and not content.isascii() and _is_utf8(content)


class _Handler(RDFXMLHandler):  # type: ignore[misc]
    """Makes URIs absolute once, not at each place where they stand."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._absolute: dict[tuple[str, str], URIRef] = {}

    def absolutize(self, uri: str) -> URIRef:
        """A URI of the file, which may be relative."""
        base = self.current.base
        found = self._absolute.get((base, uri))
        if found is None:
            joined = urljoin(base, uri)
            lost = uri.endswith("#") and not joined.endswith("#")
            found = self._absolute[base, uri] = URIRef(f"{joined}#" if lost else joined)
        return found


class _Reader:
    """Hands to rdflib what expat finds, and tells it where that stands."""

    def __init__(self, path: Path, graph: Graph, base: str, wanted: Set[str]) -> None:
        self._path = path
        self._base = base
        self._wanted = wanted
        self._names: dict[str, tuple[str | None, str]] = {}
        # A property that is not wanted waits: if nothing is in it but text, rdflib need not see it.
        self._waiting: tuple[str, dict[str, str]] | None = None
        self._length = self._namespaces = 0
        # How many elements are open from that on whose literal has markup: rdflib gets the text in it only,
        # because it would write out all again with each piece.
        self._markup = 0
        self._handler = _Handler(graph)
        self._handler.setDocumentLocator(self)
        parser = self._parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartNamespaceDeclHandler = self._declare
        parser.EndNamespaceDeclHandler = self._undeclare
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.EntityDeclHandler = self._refuse_doctype
        parser.ExternalEntityRefHandler = self._refuse_doctype
        self._declare("xml", _XML)

    def read(self, content: bytes) -> None:
        """Read a whole file."""

        def check(_: str, encoding: str | None, standalone: int) -> None:
            if encoding is not None and _is_utf8_all_the_same(encoding, content):
                self._refuse(
                    f"says that it is in {encoding}, but its bytes are UTF-8; correct the encoding in the"
                    " first line"
                )

        self._parser.XmlDeclHandler = check
        try:
            self._parser.Parse(content, True)
        except DataError:
            raise
        except expat.ExpatError as error:
            advice = "" if error.code != _INVALID or _is_utf8(content) else _NOT_UTF8
            raise DataError(self._path, f"is not valid XML: {error}{advice}", error.lineno) from error
        except (ValueError, LookupError) as error:  # an encoding that is not known
            what = f"is not XML in an encoding that can be read: {error}; save it in UTF-8"
            raise DataError(self._path, what, 1) from error

    # Called by rdflib, which takes this for the locator of SAX.
    def getPublicId(self) -> str:  # noqa: N802
        """The base of relative URIs."""
        return self._base

    getSystemId = getPublicId  # noqa: N815

    def getLineNumber(self) -> int:  # noqa: N802
        """The line that is read."""
        return self._parser.CurrentLineNumber

    def getColumnNumber(self) -> int:  # noqa: N802
        """The column that is read."""
        return self._parser.CurrentColumnNumber

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        for value in attributes.values():
            if len(value) > LONGEST:
                self._refuse(too_long())
        if self._markup:
            self._markup += 1
            return
        self._length = 0
        if any(attributes.get(of) not in _NO_LITERAL for of in _PARSE_TYPE):
            self._markup = 1
            attributes = {of: value for of, value in attributes.items() if of not in _PARSE_TYPE}
        if self._waiting is not None:
            self._give(*self._waiting)
            self._waiting = None
        if self._skips(name, attributes):
            self._waiting = name, attributes
        else:
            self._give(name, attributes)

    def _give(self, name: str, attributes: dict[str, str]) -> None:
        found = {self._pair(of): value for of, value in attributes.items()}
        self._handler.startElementNS(self._pair(name), None, found)

    def _skips(self, name: str, attributes: dict[str, str]) -> bool:
        """Whether an element is a property that is not wanted, unless another element is in it."""
        return (
            name.replace(" ", "", 1) not in self._wanted
            and not name.startswith(_RDF)
            and attributes.keys() <= _PLAIN
            and self._handler.next.start == self._handler.property_element_start
        )

    def _end(self, name: str) -> None:
        if self._markup:
            self._markup -= 1
            if self._markup:
                return
        self._length = 0
        if self._waiting is None:
            self._handler.endElementNS(self._pair(name), None)
        self._waiting = None

    def _characters(self, text: str) -> None:
        self._length += len(text)
        if self._length > LONGEST:
            self._refuse(too_long())
        if self._waiting is None:
            self._handler.characters(text)

    def _declare(self, prefix: str | None, namespace: str | None) -> None:
        self._namespaces += 1
        if self._namespaces > _NAMESPACES:
            self._refuse(f"declares more than {_NAMESPACES:,} namespaces at one place; is this a vocabulary?")
        self._handler.startPrefixMapping(prefix, namespace or "")

    def _undeclare(self, prefix: str | None) -> None:
        self._namespaces -= 1
        self._handler.endPrefixMapping(prefix)

    def _pair(self, name: str) -> tuple[str | None, str]:
        """A namespace and a name in it, as SAX has them."""
        found = self._names.get(name)
        if found is None:
            namespace, _, local = name.rpartition(" ")
            found = self._names[name] = (namespace or None, local)
        return found

    def _refuse_doctype(self, *_: Any) -> NoReturn:
        self._refuse(_DOCTYPE)

    def _refuse(self, message: str) -> NoReturn:
        raise DataError(self._path, message, self._parser.CurrentLineNumber)
