"""Pages of rows of a query: bounded, and continued where they ended."""

import pickle
from collections.abc import Sequence
from typing import Any

import pytest

from hedgerow.pipelines.imports.query_rows import (
    MAX_KNOWN_HASHES,
    QueryPage,
    read_raw_pages,
    read_row_pages,
)
from hedgerow.pipelines.imports.reading import QueryRequest
from hedgerow.pipelines.imports.rows import PAGE_BYTES, PAGE_ROWS
from hedgerow.plugin.imports import JobError

Values = tuple[str | None, dict[str, Any]]


def request(at: str | None = None, known: Sequence[str] = ()) -> QueryRequest:
    return QueryRequest(
        addresses=(),
        host="db",
        port=5432,
        user="u",
        password="",
        database="d",
        ssl_mode="prefer",
        text="SELECT 1",
        cursor_column="id",
        at=at,
        known=known,
    )


def read(values: Sequence[Values], at: str | None = None, known: Sequence[str] = ()) -> Any:
    return list(read_row_pages(values, request(at, known)))


def list_values(pages: Sequence[QueryPage]) -> list[Any]:
    return [row.values["n"] for page in pages for row in page.rows]


def test_pages_are_bounded_in_rows_and_bytes() -> None:
    pages = read([(str(n), {"n": n}) for n in range(2 * PAGE_ROWS + 1)])
    assert [len(page.rows) for page in pages] == [PAGE_ROWS, PAGE_ROWS, 1]
    text = "x" * (PAGE_BYTES // 4)
    pages = read([(str(n), {"n": n, "text": text}) for n in range(10)])
    assert [len(page.rows) for page in pages] == [4, 4, 2]
    assert [page.at for page in pages] == ["3", "7", "9"]


def test_each_page_continues_where_the_one_before_ended() -> None:
    values: list[Values] = [("1" if n < 1500 else "2", {"n": n}) for n in range(2500)]
    whole = read(values)
    assert list_values(whole) == list(range(2500))
    # Reading starts again at the same cursor value, of which some rows are known.
    first = whole[0]
    assert (first.at, len(first.known)) == ("1", MAX_KNOWN_HASHES)
    again = read(values, first.at, first.known)
    assert list_values(again) == list(range(1000, 2500))


def test_a_large_row_is_bad_and_the_others_are_read() -> None:
    pages = read([("1", {"n": 1}), ("2", {"n": 2, "text": "x" * 3_000_000}), ("3", {"n": 3})])
    assert list_values(pages) == [1, 3]
    assert [(bad.location, bad.reason) for page in pages for bad in page.bad] == [
        ("id 2", "The row is larger than 2097152 bytes.")
    ]


@pytest.mark.parametrize(("value", "reason"), [(None, "no value"), ("x" * 1001, "1000 charact")])
def test_a_cursor_value_that_cannot_be_stored_fails_the_job(value: str | None, reason: str) -> None:
    with pytest.raises(JobError, match=reason):
        read([(value, {"n": 1})])


def test_raw_pages_hold_the_values_of_python_in_bounded_pages() -> None:
    values: list[Values] = [(str(n), {"data": b"x" * 300_000}) for n in range(10)]
    pages = [pickle.loads(page) for page in read_raw_pages(values)]
    assert [each for page in pages for each in page] == values
    assert [len(page) for page in pages] == [4, 4, 2]
