"""What short vectors add to the language of tests/contract/api can tell wrong from right, too."""

from typing import Any

import httpx
import pytest

from tests.contract.short import faults, misplaced, request_of

BASE = "http://127.0.0.1:1"
RECORD = {"name": "N", "config": '{"a":1}', "error": None}


@pytest.mark.parametrize(
    "expect",
    [
        {"status": 200, "body": RECORD},
        {"status": 200, "body": RECORD, "ordered": True},
        {"status": 200, "has": {"name": "N"}},
        {"status": 200, "json": {"config": {"a": 1}}},
        {"status": 200, "lacks": ["no_such"]},
    ],
)
def test_what_is_as_expected_has_no_fault(expect: dict[str, Any]) -> None:
    assert list(faults(expect, httpx.Response(200, json=RECORD), BASE)) == []


@pytest.mark.parametrize(
    "expect",
    [
        {"status": 201, "body": RECORD},
        {"status": 200},
        {"status": 200, "body": dict(reversed(RECORD.items())), "ordered": True},
        {"status": 200, "has": {"name": "M"}},
        {"status": 200, "has": {"no_such": 1}},
        {"status": 200, "json": {"config": {"a": 2}}},
        {"status": 200, "json": {"no_such": {}}},
        {"status": 200, "lacks": ["no_such", "error"]},
        {"status": 200, "error": ["type", "code", "detail", None]},
        {"status": 200, "headers": {"Allow": "GET"}, "body": RECORD},
    ],
)
def test_what_is_not_as_expected_is_a_fault(expect: dict[str, Any]) -> None:
    assert list(faults(expect, httpx.Response(200, json=RECORD), BASE))


def test_fields_out_of_order_are_found_at_any_depth() -> None:
    expected, actual = [{"a": {"b": 1, "c": 2}}], [{"a": {"c": 2, "b": 1}}]
    assert list(misplaced(expected, actual)) == [
        "the fields of body.0.a stand in the order ['c', 'b']"
    ]


def test_the_bearer_is_the_administrators_unless_another_or_none_is_named() -> None:
    known = {"admin": "phx_a", "id": 5}
    ask = {"ask": "GET /api/{id}/"}
    assert request_of(ask, known) == {"method": "GET", "path": "/api/5/", "key": "phx_a"}
    assert request_of({**ask, "key": "phx_b"}, known)["key"] == "phx_b"
    assert "key" not in request_of({**ask, "key": None}, known)
