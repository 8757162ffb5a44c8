import gzip
from collections.abc import Mapping
from importlib import import_module
from io import BytesIO
from typing import Any

import pytest

from hedgerow.pipelines.imports import rows
from hedgerow.pipelines.imports.file_rows import read_batches
from hedgerow.pipelines.imports.rows import (
    CSV,
    JSONL,
    PARQUET,
    FileBatch,
    detect_format,
)
from hedgerow.plugin.imports import JobError


def read(data: bytes, format: str, position: Mapping[str, int] | None = None) -> list[FileBatch]:
    return list(read_batches(BytesIO(data), format, "f", position))


def values(found: list[FileBatch]) -> list[Mapping[str, Any]]:
    return [row.values for portion in found for row in portion.rows]


def bad(found: list[FileBatch]) -> list[tuple[str, str]]:
    return [(row.location, row.reason) for portion in found for row in portion.bad]


@pytest.mark.parametrize("between", [",", ";", "\t", "|"])
def test_csv_delimiters_are_detected(between: str) -> None:
    data = "\ufeffa,b\r\n1,ü\r\n\r\n2,\r\n".replace(",", between).encode()
    assert values(read(data, CSV)) == [{"a": "1", "b": "ü"}, {"a": "2", "b": ""}]


def test_bad_rows_of_csv_are_reported_by_line() -> None:
    data = b'a,b\n1,2,3\n"x\ny",5\n\xff,6\n"7"8,9\n10,11\n'
    found = read(data, CSV)
    assert values(found) == [{"a": "x\ny", "b": "5"}, {"a": "10", "b": "11"}]
    assert [place for place, _ in bad(found)] == ["f line 2", "f line 5", "f line 6"]
    assert [row.location for portion in found for row in portion.rows] == ["f line 3", "f line 7"]


def test_json_lines_with_bad_rows() -> None:
    data = b'{"a": 1}\n\n[1]\n{"b": NaN}\n{"c": "\\ud83e\\udd94"}\n{"d": "\\ud800"}'
    found = read(data, JSONL)
    # A lone surrogate does not make a bad row: it is replaced when the event is accepted.
    assert values(found) == [{"a": 1}, {"c": "🦔"}, {"d": "\ud800"}]
    assert [place for place, _ in bad(found)] == ["f line 3", "f line 4"]


@pytest.mark.parametrize("format", [CSV, JSONL])
@pytest.mark.parametrize("packed", [False, True])
def test_reading_continues_from_any_position(
    format: str, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PAGE_ROWS", 3)
    lines = ["a,b"] if format == CSV else []
    lines += [f'{n},"x\n"' if format == CSV else f'{{"n": {n}}}' for n in range(10)]
    data = "\n".join(lines).encode()
    data = gzip.compress(data) if packed else data
    whole = read(data, format)
    assert len(whole) == 4
    for at, portion in enumerate(whole):
        rest = read(data, format, portion.position)
        after = [row for later in whole[at + 1 :] for row in later.rows]
        assert [row for later in rest for row in later.rows] == after
    identities = {row.identity for portion in whole for row in portion.rows}
    assert len(identities) == 10


def test_parquet_is_read_and_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PAGE_ROWS", 4)
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    file = BytesIO()
    table = arrow.table({"n": list(range(10)), "at": [None] * 9 + [b"\xff"]})
    parquet.write_table(table, file, row_group_size=5)
    whole = read(file.getvalue(), PARQUET)
    assert [row["n"] for row in values(whole)] == list(range(10))
    assert values(whole)[9]["at"] == "/w=="
    assert whole[0].total == 10
    assert [row["n"] for row in values(read(file.getvalue(), PARQUET, {"line": 7}))] == [7, 8, 9]


def test_endless_line_uses_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MAX_ROW_BYTES", 100)
    found = read(b'{"a": 1}\n' + b"x" * 1000 + b'\n{"b": 2}\n', JSONL)
    assert values(found) == [{"a": 1}, {"b": 2}]
    assert bad(found) == [("f line 2", "The line is longer than 100 bytes.")]


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (b"", CSV),
        (b"a,a\n1,2\n", CSV),
        (b"a,\n1,2\n", CSV),
        (gzip.compress(b"a,b\n1,2\n" * 100, mtime=0)[:-20], CSV),
        (b"no parquet", PARQUET),
        (b"PAR1" * 10, PARQUET),
    ],
)
def test_unreadable_file_is_an_error(data: bytes, format: str) -> None:
    with pytest.raises(JobError, match=r"^f"):
        read(data, format)


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("x.csv", CSV),
        ("X.CSV.gz", CSV),
        ("d.d/x.tsv", CSV),
        ("x.ndjson", JSONL),
        ("x.parquet", PARQUET),
        ("x.txt", None),
        ("csv", None),
        ("x.gz", None),
    ],
)
def test_format_is_detected_by_suffix(name: str, format: str | None) -> None:
    assert detect_format(name, "auto") == format
    assert detect_format(name, JSONL) == JSONL


def test_a_line_without_end_and_too_many_columns_fail_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "MAX_ROW_BYTES", 100)
    monkeypatch.setattr(rows, "MAX_LINE_BYTES", 1000)
    for format in (CSV, JSONL):
        with pytest.raises(JobError, match="Line 2 is longer than 1000 bytes"):
            read(b"a,b\n" + b"x" * 1200, format)
    monkeypatch.setattr(rows, "MAX_COLUMNS", 3)
    with pytest.raises(JobError, match="more than 3 columns"):
        read(b"a,b,c,d\n1,2,3,4\n", CSV)


def test_seeking_in_a_compressed_file_shows_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "SEEK_BYTES", 2000)
    monkeypatch.setattr(rows, "SEEK_CHUNK_BYTES", 500)
    lines = b"".join(b'{"n": %d}\n' % n for n in range(1000))
    position = {"line": 990, "offset": lines.index(b'{"n": 990}')}
    *seeking, last = read(gzip.compress(lines), JSONL, position)
    assert len(seeking) == position["offset"] // 2000
    assert all(each.position == position and not each.rows for each in seeking)
    assert [row.values["n"] for row in last.rows] == list(range(990, 1000))
