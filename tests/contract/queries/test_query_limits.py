"""Limits of query results: bytes are checked before the service holds them, and values that Python
lacks are refused.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.live import PROJECT_KEY, LiveServer

EVENTS = "/api/projects/1/events/"
CURSOR = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("limits")) as server:
        yield server


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def _query(client: httpx.Client, query: dict[str, Any]) -> httpx.Response:
    return client.post("/api/projects/1/query/", json={"query": query, "refresh": True})


def _hogql(client: httpx.Client, text: str) -> httpx.Response:
    return _query(client, {"kind": "HogQLQuery", "query": text})


def _resident_mb(server: LiveServer) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.parametrize(
    "expression",
    [
        "arrayMap(x -> range(10000), range(3000))",
        "arrayMap(x -> repeat('x', 1000000), range(20))",
        "arrayMap(x -> toString(x), range(3000000))",
        # Few bytes in the engine, many as JSON.
        "arrayMap(x -> 250, range(12000000))",
    ],
)
def test_large_results_are_refused_cheaply(
    server: LiveServer, client: httpx.Client, expression: str
) -> None:
    assert _hogql(client, "select 1").status_code == 200
    before = _resident_mb(server)
    response = _hogql(client, f"select {expression}")
    assert (response.status_code, response.json()["code"]) == (400, "query_limit_exceeded")
    assert _resident_mb(server) < before + 100


def test_a_large_result_is_complete(client: httpx.Client) -> None:
    numbers = _hogql(client, "select range(400000), ['a', 'b']").json()["results"]
    assert numbers == [[list(range(400_000)), ["a", "b"]]]


def test_large_selected_columns_are_refused_or_complete(client: httpx.Client) -> None:
    event = {"api_key": PROJECT_KEY, "event": "seen", "distinct_id": "ann"}
    assert client.post("/capture/", json=event).is_success
    large = ["arrayMap(x -> range(10000), range(3000))", "count()"]
    response = _query(client, {"kind": "EventsQuery", "select": large})
    assert response.json()["code"] == "query_limit_exceeded"
    fitting = {"kind": "EventsQuery", "select": ["range(300000)", "count()"]}
    assert _query(client, fitting).json()["results"] == [[list(range(300_000)), 1]]
    parameters = {"select": '["range(300000)", "event"]', "format": "csv"}
    lines = client.get(EVENTS, params=parameters).text.splitlines()
    assert len(lines) == 2
    assert lines[1].endswith('299999]",seen')


@pytest.mark.parametrize(
    "expression",
    [
        "fromUnixTimestamp64Second(9223372036854775807)",
        "fromUnixTimestamp64Milli(-9223372036854775808)",
        "[fromUnixTimestamp64Milli(-9223372036854775808)]",
        "map('a', fromUnixTimestamp64Second(9223372036854775807))",
        "tuple(fromUnixTimestamp64Second(9223372036854775807), 1)",
    ],
)
def test_values_outside_of_python_are_refused(client: httpx.Client, expression: str) -> None:
    response = _hogql(client, f"select {expression}")
    assert (response.status_code, response.json()["code"]) == (400, "invalid_query")
    assert "toString" in response.json()["detail"]


@pytest.mark.parametrize(
    "cursor", [f"-99999999999999999_{CURSOR}", f"99999999999999999_{CURSOR}", "1_x", "-_"]
)
def test_an_impossible_cursor_is_refused(client: httpx.Client, cursor: str) -> None:
    response = client.get(EVENTS, params={"cursor": cursor})
    assert (response.status_code, response.json()["attr"]) == (400, "cursor")


def test_a_large_body_is_refused(client: httpx.Client) -> None:
    response = _query(
        client, {"kind": "HogQLQuery", "query": "select 1", "values": {"a": "x" * 140_000}}
    )
    assert response.status_code == 413


def test_long_queries_are_compiled_with_the_same_result(client: httpx.Client) -> None:
    """A long query is compiled by a worker process, errors with their position included."""
    conditions = " or ".join(f"event = 'event {number}'" for number in range(300))
    response = _hogql(client, f"select count() from events where {conditions}")
    assert response.json()["results"] == [[0]]
    response = _hogql(client, f"select count() from events where {conditions} or evnt = 'x'")
    assert (response.status_code, response.json()["code"]) == (400, "hogql_error")
    detail = response.json()["detail"]
    assert detail.startswith("Unknown field 'evnt' at line 1, column 6824. Did you mean 'event'")
    listed = client.get(EVENTS, params={"where": f'["{conditions} or evnt = 1"]'})
    assert (listed.status_code, listed.json()["attr"]) == (400, "where")
    selected = {"select": '["event"]', "where": f'["{conditions}"]'}
    assert client.get(EVENTS, params=selected).json()["results"] == []


def test_a_compilation_that_needs_too_much_is_refused(client: httpx.Client) -> None:
    response = _hogql(client, "select " + "+".join(["1"] * 16_000))
    assert (response.status_code, response.json()["type"]) == (400, "validation_error")
