import pytest

from hedgerow.http.paging import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_OFFSET,
    Page,
    PageWindow,
    build_link,
    build_page,
    parse_window,
)
from hedgerow.http.parameters import parse_positive
from hedgerow.http.server.proxies import Origins
from tests.unit.http.asgi import http_scope, make_request

ORIGINS = Origins((), "https://f.example")
PATH = "/api/projects/1/things/"
BASE = f"https://f.example{PATH}"
MEANINGLESS = [None, "", " ", "0", "-1", "abc", "1.5", "1e3", "+5", "٣", "0x10", "5;5", "5\x00"]


def build(query: bytes, window: PageWindow, count: int) -> Page[int]:
    return build_page(make_request(http_scope(path=PATH, query=query)), ORIGINS, window, count, [])


@pytest.mark.parametrize("text", MEANINGLESS)
def test_invalid_number_is_none(text: str | None) -> None:
    assert parse_positive(text) is None
    assert parse_window(text, text) == PageWindow(limit=DEFAULT_LIMIT, offset=0)


@pytest.mark.parametrize("text", ["5", " 5 ", "005"])
def test_whole_number_is_parsed(text: str) -> None:
    assert parse_window(text, text) == PageWindow(limit=5, offset=5)


def test_default_window_is_the_first_hundred() -> None:
    assert parse_window() == PageWindow(limit=100, offset=0)


@pytest.mark.parametrize(("limit", "expected"), [("1000", 1000), ("1001", 1000), ("9" * 9, 1000)])
def test_limit_is_at_most_a_thousand(limit: str, expected: int) -> None:
    assert parse_window(limit).limit == expected


@pytest.mark.parametrize("digits", [25, 30, 31, 5000, 100_000])
def test_huge_offset_is_clamped(digits: int) -> None:
    window = parse_window("9" * digits, "9" * digits)
    assert window == PageWindow(limit=MAX_LIMIT, offset=MAX_OFFSET)
    assert window.offset + window.limit < 2**63


def test_window_slices_a_list() -> None:
    items = list(range(10))
    assert PageWindow(limit=3, offset=0).of(items) == [0, 1, 2]
    assert PageWindow(limit=3, offset=9).of(items) == [9]
    assert PageWindow(limit=3, offset=10).of(items) == []
    assert PageWindow(limit=3, offset=MAX_OFFSET).of(items) == []


@pytest.mark.parametrize(
    ("limit", "offset", "count", "next_link", "previous_link"),
    [
        (10, 0, 0, None, None),
        (10, 0, 10, None, None),
        (10, 0, 11, "?limit=10&offset=10", None),
        (10, 10, 30, "?limit=10&offset=20", "?limit=10"),
        (10, 5, 30, "?limit=10&offset=15", "?limit=10"),
        (10, 11, 30, "?limit=10&offset=21", "?limit=10&offset=1"),
        (10, 20, 30, None, "?limit=10&offset=10"),
        (10, 95, 30, None, "?limit=10&offset=85"),
        (1000, MAX_OFFSET, 30, None, f"?limit=1000&offset={MAX_OFFSET - 1000}"),
    ],
)
def test_links_point_to_adjacent_pages_without_zero_offset(
    limit: int, offset: int, count: int, next_link: str | None, previous_link: str | None
) -> None:
    found = build(b"", PageWindow(limit=limit, offset=offset), count)
    assert found.count == count
    assert found.next == (next_link and BASE + next_link)
    assert found.previous == (previous_link and BASE + previous_link)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"", "limit=2&offset=2"),
        (b"z=1&a=2", "a=2&limit=2&offset=2&z=1"),
        (b"offset=0&limit=7&limit=8", "limit=2&offset=2"),
        (b"b=2&b=1", "b=2&b=1&limit=2&offset=2"),
        (b"search=", "limit=2&offset=2&search="),
        (b"q=a%20b%26c&q=%C3%BC", "limit=2&offset=2&q=a+b%26c&q=%C3%BC"),
    ],
)
def test_link_keeps_other_parameters_sorted_by_name(query: bytes, expected: str) -> None:
    assert build(query, PageWindow(limit=2, offset=0), 9).next == f"{BASE}?{expected}"


def test_link_replaces_and_removes_parameters() -> None:
    request = make_request(http_scope(path=PATH, query=b"page=3&limit=5&after=x"))
    assert build_link(request, ORIGINS, {"page": 4, "after": None}) == f"{BASE}?limit=5&page=4"


def test_link_quotes_special_characters_in_the_path() -> None:
    request = make_request(http_scope(path="/api/a b/?/ü/@current/"))
    link = build_link(request, ORIGINS, {"limit": 1})
    assert link == "https://f.example/api/a%20b/%3F/%C3%BC/@current/?limit=1"
