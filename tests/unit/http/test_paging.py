import pytest

from hedgerow.http.origin import Origins
from hedgerow.http.paging import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_OFFSET,
    Page,
    Window,
    link_with,
    page,
    positive,
    window,
)
from tests.unit.http.asgi import a_request, http_scope

ORIGINS = Origins((), "https://f.example")
PATH = "/api/projects/1/things/"
BASE = f"https://f.example{PATH}"
MEANINGLESS = [None, "", " ", "0", "-1", "abc", "1.5", "1e3", "+5", "٣", "0x10", "5;5", "5\x00"]


def paged(query: bytes, asked: Window, count: int) -> Page[int]:
    return page(a_request(http_scope(path=PATH, query=query)), ORIGINS, asked, count, [])


@pytest.mark.parametrize("text", MEANINGLESS)
def test_a_value_without_meaning_is_as_none(text: str | None) -> None:
    assert positive(text) is None
    assert window(text, text) == Window(limit=DEFAULT_LIMIT, offset=0)


@pytest.mark.parametrize("text", ["5", " 5 ", "005"])
def test_a_whole_number_is_taken(text: str) -> None:
    assert window(text, text) == Window(limit=5, offset=5)


def test_without_parameters_a_page_is_the_first_hundred() -> None:
    assert window() == Window(limit=100, offset=0)


@pytest.mark.parametrize(("limit", "expected"), [("1000", 1000), ("1001", 1000), ("9" * 9, 1000)])
def test_a_page_holds_a_thousand_at_most(limit: str, expected: int) -> None:
    assert window(limit).limit == expected


@pytest.mark.parametrize("digits", [25, 30, 31, 5000, 100_000])
def test_huge_numbers_are_cut_to_what_a_database_takes(digits: int) -> None:
    asked = window("9" * digits, "9" * digits)
    assert asked == Window(limit=MAX_LIMIT, offset=MAX_OFFSET)
    assert asked.offset + asked.limit < 2**63


def test_a_window_shows_its_part_of_a_list() -> None:
    items = list(range(10))
    assert Window(limit=3, offset=0).of(items) == [0, 1, 2]
    assert Window(limit=3, offset=9).of(items) == [9]
    assert Window(limit=3, offset=10).of(items) == []
    assert Window(limit=3, offset=MAX_OFFSET).of(items) == []


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
def test_links_lead_to_the_pages_beside_and_drop_a_zero_offset(
    limit: int, offset: int, count: int, next_link: str | None, previous_link: str | None
) -> None:
    found = paged(b"", Window(limit=limit, offset=offset), count)
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
def test_a_link_keeps_the_other_parameters_sorted_by_name(query: bytes, expected: str) -> None:
    assert paged(query, Window(limit=2, offset=0), 9).next == f"{BASE}?{expected}"


def test_a_parameter_is_dropped_by_none_and_replaced_by_a_value() -> None:
    request = a_request(http_scope(path=PATH, query=b"page=3&limit=5&after=x"))
    assert link_with(request, ORIGINS, {"page": 4, "after": None}) == f"{BASE}?limit=5&page=4"


def test_a_path_with_odd_characters_stays_one_path() -> None:
    request = a_request(http_scope(path="/api/a b/?/ü/@current/"))
    link = link_with(request, ORIGINS, {"limit": 1})
    assert link == "https://f.example/api/a%20b/%3F/%C3%BC/@current/?limit=1"
