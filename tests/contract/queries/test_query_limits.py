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
