"""Files of vocabularies: read, written back, and refused with a line where they are broken."""

from __future__ import annotations

import gzip
import json
import lzma
import resource
import sys
import warnings
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from rdflib import OWL, RDF, SKOS, Graph, Literal, URIRef
from vocabularies import vocabularies

from hedgerow import Name, Vocabulary, VocabularyWarning, read_vocabulary
from hedgerow.data import DataError
from hedgerow.vocabulary.files import read_bytes

SKOS_PREFIX = "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
CONCEPT_IN_XML = """<?xml version="1.0"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
         xmlns:skos="http://www.w3.org/2004/02/skos/core#"><skos:Concept rdf:about="t:1"/></rdf:RDF>"""
TURTLE = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix dcterms: <http://purl.org/dc/terms/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@base <http://t.org/> .
<scheme> a skos:ConceptScheme ; skos:prefLabel "Trees"@en ; skos:hasTopConcept <tree> .
<holly> a skos:Concept ; skos:prefLabel "Holly"@en, "Stechpalme"@de ; skos:altLabel "Ilex" ;
  skos:hiddenLabel "Hülse"@DE ; skos:notation "007"^^<http://t.org/mark> ; skos:inScheme <scheme> .
<tree> a skos:Concept ; skos:prefLabel "Tree"@en ; skos:narrower <holly>, <oak> .
<oak> a skos:Concept ; skos:prefLabel "Oak"@en ; skos:broader <tree> ; owl:deprecated true ;
  dcterms:isReplacedBy <quercus> .
"""


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(path: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        read_vocabulary(path)
    assert caught.value.path == str(path)
    return caught.value


def check_trees(vocabulary: Vocabulary) -> None:
    assert vocabulary.ids == ["http://t.org/holly", "http://t.org/tree", "http://t.org/oak"]
    assert vocabulary.names("http://t.org/holly") == [
        Name("Holly", "en", True),
        Name("Stechpalme", "de", True),
        Name("Hülse", "de", False),
        Name("Ilex", None, False),
    ]
    assert vocabulary.languages == ("en", "de")
    assert vocabulary.notation("http://t.org/holly") == "007"
    assert vocabulary.narrower("http://t.org/tree") == ["http://t.org/holly", "http://t.org/oak"]
    assert vocabulary.scheme("http://t.org/holly") == "http://t.org/scheme"
    assert vocabulary.scheme("http://t.org/tree") == "http://t.org/scheme"
    assert vocabulary.scheme("http://t.org/oak") is None
    assert vocabulary.deprecated("http://t.org/oak")
    assert not vocabulary.deprecated("http://t.org/tree")
    assert vocabulary.successor("http://t.org/oak") == "http://t.org/quercus"
    assert vocabulary.successor("http://t.org/tree") is None


def test_turtle_is_read(tmp_path: Path) -> None:
    check_trees(read_vocabulary(written(tmp_path, "trees.ttl", TURTLE)))


def test_rdf_xml_says_the_same_as_turtle(tmp_path: Path) -> None:
    graph = Graph().parse(data=TURTLE, format="turtle")
    xml = read_vocabulary(written(tmp_path, "trees.rdf", graph.serialize(format="xml")))
    turtle = read_vocabulary(written(tmp_path, "trees.ttl", TURTLE))
    assert {id: set(xml.names(id)) for id in xml.ids} == {id: set(turtle.names(id)) for id in turtle.ids}
    assert all(xml.ancestors(id) == turtle.ancestors(id) for id in turtle.ids)
    assert all(xml.notation(id) == turtle.notation(id) for id in turtle.ids)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zst"])
def test_packed_files_are_read_and_written(tmp_path: Path, ending: str) -> None:
    packed = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}[ending]
    vocabulary = read_vocabulary(written(tmp_path, f"trees.ttl{ending}", packed(TURTLE.encode())))
    check_trees(vocabulary)
    vocabulary.write(tmp_path / f"again.tsv{ending}")
    assert read_vocabulary(tmp_path / f"again.tsv{ending}") == vocabulary


@pytest.mark.parametrize("ending", [".ttl", ".json", ".csv", ".tsv"])
@given(vocabulary=vocabularies())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_what_was_written_is_read_again(tmp_path: Path, ending: str, vocabulary: Vocabulary) -> None:
    path = tmp_path / f"vocabulary{ending}"
    vocabulary.write(path, overwrite=True)
    assert read_vocabulary(path) == vocabulary


def test_written_turtle_means_to_rdflib_what_the_vocabulary_says(tmp_path: Path) -> None:
    vocabulary = read_vocabulary(written(tmp_path, "trees.ttl", TURTLE))
    vocabulary.write(tmp_path / "again.ttl")
    graph = Graph().parse(tmp_path / "again.ttl")
    oak = URIRef("http://t.org/oak")
    assert {str(concept) for concept in graph.subjects(RDF.type, SKOS.Concept)} == set(vocabulary.ids)
    assert (oak, SKOS.prefLabel, Literal("Oak", lang="en")) in graph
    assert (oak, OWL.deprecated, Literal(True)) in graph
    assert (oak, SKOS.broader, URIRef("http://t.org/tree")) in graph


def test_annif_tsv_is_read(tmp_path: Path) -> None:
    text = "<http://t.org/1>\tHolly\tA.1\n<http://t.org/2>\tOak\n\nhttp://t.org/3\n"
    vocabulary = read_vocabulary(written(tmp_path, "trees.tsv", text))
    assert vocabulary.ids == ["http://t.org/1", "http://t.org/2", "http://t.org/3"]
    assert vocabulary.name("http://t.org/1") == "Holly"
    assert vocabulary.notation("http://t.org/1") == "A.1"
    assert vocabulary.name("http://t.org/3") is None


def test_annif_csv_is_read(tmp_path: Path) -> None:
    text = 'uri,notation,label_en,label_de\r\n<http://t.org/1>,A,"Holly, common",Stechpalme\r\nt:2,,,\r\n'
    vocabulary = read_vocabulary(written(tmp_path, "trees.csv", b"\xef\xbb\xbf" + text.encode()))
    assert vocabulary.name("http://t.org/1", "en") == "Holly, common"
    assert vocabulary.name("http://t.org/1", "de") == "Stechpalme"
    assert vocabulary.notation("http://t.org/1") == "A"
    assert vocabulary.ids == ["http://t.org/1", "t:2"]


def test_table_may_have_several_columns_of_a_kind(tmp_path: Path) -> None:
    text = "id\tname_en\talt_en\talt_en\tbroader\tbroader\tdeprecated\na\tA\tB\tC\tb\tc\tyes\nb\nc\n"
    vocabulary = read_vocabulary(written(tmp_path, "x.tsv", text))
    assert [name.text for name in vocabulary.names("a")] == ["A", "B", "C"]
    assert vocabulary.broader("a") == ["b", "c"]
    assert vocabulary.deprecated("a")


def test_columns_that_are_not_known_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, "x.csv", "id;name;frequency\na;A;7\n")
    with pytest.warns(VocabularyWarning, match="'frequency' are not used"):
        vocabulary = read_vocabulary(path)
    assert vocabulary.name("a") == "A"


def test_json_is_entries_or_names_by_id(tmp_path: Path) -> None:
    entries = [
        {"id": "a", "names": {"de": ["A", "Ä"], "": "x"}, "alternatives": {"de": "B"}, "broader": "b"},
        {"id": "b", "names": "plain", "notation": "N", "scheme": "s", "replaced_by": "a", "deprecated": True},
    ]
    for content in (entries, {"entries": entries}):
        vocabulary = read_vocabulary(written(tmp_path, "x.json", json.dumps(content)))
        assert [name.text for name in vocabulary.names("a")] == ["A", "Ä", "x", "B"]
        assert vocabulary.broader("a") == ["b"]
        assert vocabulary.name("b") == "plain"
        assert vocabulary.successor("b") == "a"
    vocabulary = read_vocabulary(written(tmp_path, "x.json", '{"a": "A", "b": {"de": "B"}, "c": null}'))
    assert [vocabulary.name(id) for id in vocabulary.ids] == ["A", "B", None]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (TURTLE, "@prefix"),
        (CONCEPT_IN_XML, "xml"),
        ('  {"a": "A"}', "json"),
        ("id,label_en\na,A\n", "csv"),
        ("a\tA\n", "tsv"),
    ],
)  # fmt: skip
def test_format_is_found_by_content_where_the_name_says_nothing(
    tmp_path: Path, content: str, kind: str
) -> None:
    assert len(read_vocabulary(written(tmp_path, f"vocabulary-{kind[-3:]}", content))) > 0


def test_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    assert "not recognised" in refused(written(tmp_path, "letter.txt", "Dear all,\nhello\n")).message
    assert "cannot be read" in refused(tmp_path / "nowhere.ttl").message
    assert "cannot be read" in refused(tmp_path).message


@pytest.mark.parametrize(
    ("name", "content", "line", "message"),
    [
        ("x.tsv", "a\tA\nb\tB\na\tC\n", 3, "'a' occurs twice; line 1"),
        ("x.tsv", "id\tname\na\tA\n\tB\n", 3, "the id is missing"),
        ("x.tsv", "a\tA\n \tB\n", 2, "the id is missing"),
        ("x.tsv", "a\tA\nb\x00\tB\n", 2, "control character"),
        ("x.tsv", "a\tA\nb\tB\tC\tD\n", 2, "4 cells"),
        ("x.tsv", "id\tname\na\tA\tB\n", 2, "3 cells, but the header 2"),
        ("x.tsv", "id\tname_d!\na\tA\n", 1, "none"),
        ("x.tsv", "one\ntwo\n", None, "no line has a tab"),
        ("x.tsv", "", None, "no entry"),
        ("x.tsv", b"a\tA\nb\tf\xfcr\n", 2, "not UTF-8"),
        ("x.tsv", "id\tbroader\na\tb\nb\tc\nc\ta\n", 2, "leads back to the first: 'a' -> 'b' -> 'c' -> 'a'"),
        ("x.tsv", "id\tbroader\nx\t\na\ta\n", 3, "'a' -> 'a'"),
        ("x.tsv", "id\tdeprecated\na\tperhaps\n", 2, "write true or false"),
        ("x.csv", "id,label_en\na,A\n\"b,B\n", 3, "not valid CSV"),
        ("x.csv", "id,label_en\na,A\nb,B,C\n", 3, "3 cells"),
        ("x.csv", 'id,label_en\na,"A\nB"\na,C\n', 4, "'a' occurs twice; line 2"),
        ("x.csv", "label_en\nA\n", 1, "no column id or uri"),
        ("x.csv", "id,label_e_n\nA,\n", 1, "none"),
        ("x.csv", b"id,label_en\na,f\xfcr\n", 2, "not UTF-8"),
        ("x.csv", "id,name\na," + "x" * 200_000 + "\n", 2, "not valid CSV"),
        ("x.json", '{"a": "A",\n"a": "B"}', None, "'a' occurs twice"),
        ("x.json", '{"a": "A",\n', 2, "not valid JSON"),
        ("x.json", '[{"id": "a"}, {"names": {}}]', None, r"entries[1]: an entry is an object with an 'id'"),
        ("x.json", '[{"id": ""}]', None, "the id is missing"),
        ("x.json", '[{"id": 7}]', None, "ids are strings"),
        ("x.json", '[{"id": "a", "broader": 7}]', None, "broader of 'a' is 7"),
        ("x.json", '[{"id": "a", "names": {"de": [7]}}]', None, "a name of 'a'"),
        ("x.json", '[{"id": "a", "names": {"d e": "x"}}]', None, "not a language tag"),
        ("x.json", '[{"id": "a", "name": "x"}]', None, "'name' is not one of"),
        ("x.json", '[{"id": "a", "deprecated": "no"}]', None, "true or false"),
        ("x.json", '[{"id": "a", "notation": 7}]', None, "notation of 'a' is 7"),
        ("x.json", r'{"a": "\ud800"}', None, "half a character"),
        ("x.json", '"names"', None, "neither entries nor names"),
        ("x.json", "[" * 200_000, None, "nested too deeply"),
        ("x.json", b'{"a":\n"f\xfcr"}', 2, "not UTF-8"),
        ("x.ttl", SKOS_PREFIX + "<t:a> a skos:Concept\n ;;; }", 3, "Turtle"),
        ("x.ttl", b"# f\xfcr\n", 1, "not UTF-8"),
        ("x.ttl", "", None, "no skos:Concept"),
        ("x.ttl", SKOS_PREFIX + "<a> a skos:Concept .", None, "no base"),
        ("x.ttl", SKOS_PREFIX + "<urn:hedgerow:id:%ff> a skos:Concept .", None, "not UTF-8"),
        ("x.ttl", SKOS_PREFIX + "<urn:hedgerow:id:a%0Ab> a skos:Concept .", None, "control character"),
        ("x.ttl", "<t:a> <t:b> " + "[<t:c> " * 20_000, None, "deeply"),
        ("x.rdf", "<a>\n<broken\n</a>", 3, "not valid XML"),
        ("x.rdf", '<?xml version="1.0" encoding="klingon"?><a/>', 1, "XML"),
        ("x.rdf", b"<?xml version='1.0'?>\n<a>f\xfcr</a>", 2, "not UTF-8, so name its encoding"),
        ("x.rdf", "<?xml version='1.0' encoding='ISO-8859-1'?>\n<a>für</a>", 1, "but its bytes are UTF-8"),
        ("x.rdf", "<?xml version='1.0' encoding='UTF-16'?>\n<a>für</a>", 1, "encoding"),
        ("x.rdf", b"<?xml version='1.0' encoding='shift_jis'?>\n<a/>", 1, "save it in UTF-8"),
        ("x.rdf", CONCEPT_IN_XML.replace(' rdf:about="t:1"', ""), None, "URI of the skos:Concept is missing"),
        ("x.ttl", SKOS_PREFIX + "[] a skos:Concept; skos:prefLabel 'A' .", None, "skos:Concept 'A'"),
        ("x.ttl", f"{SKOS_PREFIX}<t:a> skos:prefLabel\n'''{'x' * 100_001}''' .", 3, "100,000 characters"),
        ("x.json", json.dumps({"a": "x" * 100_001}), None, "100,001 characters"),
    ],
)  # fmt: skip
def test_broken_files_are_refused_with_the_line(
    tmp_path: Path, name: str, content: str | bytes, line: int | None, message: str
) -> None:
    path = written(tmp_path, name, content)
    if message == "none":  # a column that is not known is no error
        with pytest.warns(VocabularyWarning, match="are not used"):
            assert len(read_vocabulary(path)) == 1
        return
    error = refused(path)
    assert message in error.message
    assert error.line == line


NAMED_IN_XML = CONCEPT_IN_XML.replace(
    "/></rdf", "><skos:prefLabel>Hülse, Baum</skos:prefLabel></skos:Concept></rdf"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-2", "windows-1250"])
def test_rdf_xml_is_read_in_the_encoding_that_it_names(tmp_path: Path, encoding: str) -> None:
    named = encoding.removesuffix("-sig")
    name = "Hülse, Żubr"
    text = NAMED_IN_XML.replace("?>", f" encoding='{named}'?>", 1).replace("Hülse, Baum", name)
    vocabulary = read_vocabulary(written(tmp_path, "x.rdf", text.encode(encoding)))
    assert vocabulary.name("t:1") == name


def test_literal_of_the_greatest_length_is_read_however_it_is_written(tmp_path: Path) -> None:
    plain, escaped = "x" * 100_000, r"\u0078" * 100_000
    for text in (f'"{plain}"', f'"{escaped}"', f"'''{escaped}'''"):
        path = written(tmp_path, "x.ttl", SKOS_PREFIX + f"<t:1> a skos:Concept ; skos:prefLabel {text} .")
        assert read_vocabulary(path).name("t:1") == plain
    path = written(tmp_path, "x.rdf", NAMED_IN_XML.replace("Hülse, Baum", "&#120;" * 100_000))
    assert read_vocabulary(path).name("t:1") == plain


@pytest.mark.parametrize(
    "text",
    [
        "<t:1> a skos:Concept . # it's",
        "<t:1#'> a skos:Concept .",
        '<t:1> a skos:Concept ; skos:prefLabel "" , "\\"", \'"\', """a "quoted\\"\n""".',
        "@prefix t: <t:> . t:a\\'b a skos:Concept .",
    ],
    ids=["comment", "URI", "quotes in literals", "local name"],
)
def test_quotes_that_begin_no_literal_make_none_too_long(tmp_path: Path, text: str) -> None:
    others = "".join(f"<t:o{number}> a skos:Concept .\n" for number in range(4000))
    path = written(tmp_path, "x.ttl", f"{SKOS_PREFIX}{text}\n{others}")
    assert path.stat().st_size > 100_000
    assert len(read_vocabulary(path)) == 4001


def test_nested_rdf_xml_means_what_rdflib_says(tmp_path: Path) -> None:
    """Properties that vocabularies do not have are passed over, but never what is described within them."""
    inner = """<x:part xml:lang="de">
        <skos:Concept rdf:about="t:2" skos:prefLabel="Zwei"><x:note>no <x:Thing rdf:about="t:4"/></x:note>
          <skos:broader><x:Kind rdf:about="t:3"/></skos:broader></skos:Concept>
      </x:part><x:also rdf:resource="t:9"/>
      <x:list rdf:parseType="Collection"><skos:Concept rdf:about="t:3"/></x:list>
      <x:all rdf:parseType="Resource"><x:a>b</x:a><skos:prefLabel>Not one</skos:prefLabel></x:all>
      <skos:prefLabel rdf:parseType="Literal">A &amp; <x:i><x:b/>B</x:i>!</skos:prefLabel>
      <x:note>B</x:note><skos:altLabel>C</skos:altLabel>"""
    text = CONCEPT_IN_XML.replace('"t:1"/>', f'"t:1" xmlns:x="http://x.org/">{inner}</skos:Concept>')
    with pytest.warns(VocabularyWarning, match="1 things have a skos:prefLabel, but neither"):
        vocabulary = read_vocabulary(written(tmp_path, "x.rdf", text))
    graph = Graph().parse(data=text, format="xml")
    assert set(vocabulary.ids) == {str(concept) for concept in graph.subjects(RDF.type, SKOS.Concept)}
    assert vocabulary.names("t:1") == [Name("A & B!", None, True), Name("C", None, False)]
    assert vocabulary.names("t:2") == [Name("Zwei", "de", True)]
    assert vocabulary.broader("t:2") == ["t:3"]


def test_several_preferred_names_in_a_language_are_kept_with_a_warning(tmp_path: Path) -> None:
    text = f'{SKOS_PREFIX}<t:1> a skos:Concept ; skos:prefLabel "Holly"@en .\n<t:1> skos:prefLabel "Ivy"@EN .'
    with pytest.warns(VocabularyWarning, match="such as <t:1> in 'en': 'Holly' and 'Ivy'"):
        vocabulary = read_vocabulary(written(tmp_path, "x.ttl", text))
    assert [name.text for name in vocabulary.names("t:1")] == ["Holly", "Ivy"]


def test_a_preferred_name_in_each_language_gives_no_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_vocabulary(written(tmp_path, "trees.ttl", TURTLE))


def test_cycle_in_skos_is_refused(tmp_path: Path) -> None:
    text = TURTLE + "<tree> skos:broader <oak> ."
    assert "leads back to the first" in refused(written(tmp_path, "x.ttl", text)).message


LAUGHS = '<!DOCTYPE a [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {new} "{f"&{old};" * 100}">' for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "xml",
    [
        f'<?xml version="1.0"?>\n{LAUGHS}]><a>&i;</a>',
        '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]><a>&f;</a>',
        '<?xml version="1.0"?>\n<!DOCTYPE a SYSTEM "http://localhost:1/x.dtd"><a/>',
        f'<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY b "{"x" * 1_000_000}">]><a>{"&b;" * 100}</a>',
    ],
    ids=["billion laughs", "external entity", "external DTD", "100 MB of a large entity"],
)  # fmt: skip
def test_xml_with_entities_is_refused_before_it_grows(tmp_path: Path, xml: str) -> None:
    path = written(tmp_path, "x.rdf", xml)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    error = refused(path)
    assert "DOCTYPE" in error.message
    assert error.line == 2
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert sys.platform != "linux" or grown < 50_000  # KiB


def test_file_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "x.json.xz", lzma.compress(bytes(5 << 20)))
    with pytest.raises(DataError, match="has more than 1,048,576 bytes"):
        read_bytes(path, 1 << 20)


def test_line_without_end_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "x.tsv.xz", lzma.compress(b"a\tA\n" + b"b" * (70 << 20)))
    assert refused(path).line == 2


def test_damaged_packing_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "x.ttl.gz", gzip.compress(TURTLE.encode())[:-20])
    assert "damaged" in refused(path).message


def test_file_that_exists_stays_as_it_was(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_names({"a": "A"})
    path = written(tmp_path, "x.tsv", "kept")
    with pytest.raises(FileExistsError):
        vocabulary.write(path)
    assert path.read_text() == "kept"
    with pytest.raises(DataError, match="no format to write"):
        vocabulary.write(tmp_path / "x.rdf")
    assert [file.name for file in tmp_path.iterdir()] == ["x.tsv"]
