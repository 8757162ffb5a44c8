"""The vector runner detects wrong responses."""

from typing import Any

import httpx
import pytest

from tests.contract.vector_runner import build_request, find_faults, find_misordered_fields

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
def test_matching_response_has_no_fault(expect: dict[str, Any]) -> None:
    assert list(find_faults(expect, httpx.Response(200, json=RECORD), BASE)) == []


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
def test_different_response_is_a_fault(expect: dict[str, Any]) -> None:
    assert list(find_faults(expect, httpx.Response(200, json=RECORD), BASE))


def test_misordered_fields_are_found_at_any_depth() -> None:
    expected, actual = [{"a": {"b": 1, "c": 2}}], [{"a": {"c": 2, "b": 1}}]
    assert list(find_misordered_fields(expected, actual)) == [
        "the order of fields in body.0.a is ['c', 'b']"
    ]


def test_key_defaults_to_the_admin_key() -> None:
    variables = {"admin": "phx_a", "id": 5}
    ask = {"ask": "GET /api/{id}/"}
    assert build_request(ask, variables) == {"method": "GET", "path": "/api/5/", "key": "phx_a"}
    assert build_request({**ask, "key": "phx_b"}, variables)["key"] == "phx_b"
    assert "key" not in build_request({**ask, "key": None}, variables)
