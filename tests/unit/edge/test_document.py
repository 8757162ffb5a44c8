import msgspec
import pytest

from hedgerow.edge.copies import DocumentCopies, UnusableCopy
from hedgerow.edge.sources import build_sources
from hedgerow.flags.edge.document import InvalidDocument, decode_document


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", b'{"format": 1}', b'{"format": 2, "project": {}}', b"\xff", b"null"],
)
def test_other_bytes_are_no_document(body: bytes) -> None:
    with pytest.raises(InvalidDocument):
        decode_document(body)


def test_a_newer_format_says_what_to_do() -> None:
    with pytest.raises(InvalidDocument, match="format 2, expected 1: update the older process"):
        decode_document(msgspec.json.encode({"format": 2, "definitions": "new"}))


def test_each_source_has_a_copy_of_its_own() -> None:
    sources = build_sources("http://a", ("phs_one", "phs_two", "phx_three:3"))
    assert [each.project for each in sources] == ["@current", "@current", "3"]
    other = build_sources("http://b", ("phs_one",))
    assert len({each.file_name for each in (*sources, *other)}) == 4
    assert not any("phs" in each.file_name for each in sources)


def test_a_copy_that_cannot_be_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("edge")
    [source] = build_sources("http://a", ("phs_one",))
    copies = DocumentCopies(data)
    assert copies.load(source) is None
    copies.save(source, b'{"format": 9}', '"etag"', 5.0)
    with pytest.raises(UnusableCopy, match="format 9"):
        copies.load(source)
    assert [each.name for each in (data / "edge").iterdir()] == [source.file_name]
