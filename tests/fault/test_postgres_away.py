"""PostgreSQL goes away and comes back: 503 meanwhile, and no restart of ours afterwards."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.live import (
    LiveServer,
    error_of,
    free_port,
    seconds_until,
    side_by_side,
)
from tests.postgres import OwnPostgres

AT_MOST_S = 60
TERMINATE = """
    WITH ours AS MATERIALIZED
      (SELECT pid FROM pg_stat_activity WHERE application_name = 'hedgerow')
    SELECT pid FROM ours WHERE pg_terminate_backend(pid)
"""


@pytest.fixture(scope="module")
def mortal() -> Iterator[OwnPostgres]:
    """A PostgreSQL of our own that may be stopped, unlike the one that all tests share."""
    server = OwnPostgres()
    yield server
    server.start()
    server.close()


@pytest.fixture(scope="module")
def server(mortal: OwnPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    settings = {"database_url": mortal.new_database(), "database_timeout_s": "2"}
    with LiveServer(tmp_path_factory.mktemp("away"), **settings) as server:
        yield server


def _create(client: httpx.Client) -> httpx.Response:
    return client.post("/api/projects/", json={"name": "Anything"})


def test_a_server_waits_for_a_database_that_is_not_there_yet(
    mortal: OwnPostgres, tmp_path: Path
) -> None:
    url = mortal.new_database()
    mortal.stop()
    server = LiveServer(tmp_path, port=free_port(), database_url=url)
    try:
        seconds_until(lambda: server.answers("/_liveness") == 200, at_most_s=30)
        seconds_until(lambda: "No such file" in server.errors, at_most_s=30)
        waiting = httpx.get(f"{server.address}/_readiness", timeout=60)
        refused = httpx.get(f"{server.address}/api/projects/", timeout=60)
        mortal.start()
        seconds_until(lambda: server.answers("/_readiness") == 200, at_most_s=AT_MOST_S)
        with server.wait_ready().client() as client:
            assert _create(client).status_code == 201
    finally:
        mortal.start()
        server.stop()
    assert waiting.status_code == refused.status_code == 503
    assert "database" in waiting.json()["missing"][0]
    assert "database" in error_of(refused)["detail"]
    assert int(refused.headers["retry-after"]) >= 1
    assert "Traceback" not in server.errors


@pytest.mark.parametrize("end", [OwnPostgres.stop, OwnPostgres.kill])
def test_it_answers_what_it_can_meanwhile_and_recovers(
    mortal: OwnPostgres, server: LiveServer, end: Callable[[OwnPostgres], None]
) -> None:
    with server.client() as client:
        made = _create(client).json()["id"]
        end(mortal)
        try:
            _assert_away(server, client, made)
        finally:
            mortal.start()
        seconds_until(lambda: server.answers("/_readiness") == 200, at_most_s=AT_MOST_S)
        seconds_until(lambda: _create(client).status_code == 201, at_most_s=AT_MOST_S)
        assert client.get("/api/projects/1/activity_log/").status_code == 200
    assert "Traceback" not in server.errors


def _assert_away(server: LiveServer, client: httpx.Client, known_project: int) -> None:
    ready = client.get("/_readiness")
    assert ready.status_code == 503
    assert "database" in ready.json()["missing"][0]
    needing = [
        _create(client),
        client.get("/api/projects/1/activity_log/"),
        client.get("/api/projects/987654/"),
        client.get("/api/users/@me/", headers={"Authorization": "Bearer phx_unknown-to-memory"}),
    ]
    for answer in needing:
        assert answer.status_code == 503, answer.text
        assert error_of(answer)["detail"] == "The database does not answer."
        assert int(answer.headers["retry-after"]) >= 1
    for path in (f"/api/projects/{known_project}/", "/api/projects/", "/api/users/@me/"):
        assert client.get(path).status_code == 200, path
    assert server.answers("/_liveness") == 200
    assert server.answers("/metrics") == 200


def test_a_database_that_hangs_costs_503_in_time_and_nothing_else(
    mortal: OwnPostgres, server: LiveServer
) -> None:
    paths = ("/_readiness", "/api/projects/1/activity_log/", "/api/users/@me/", "/_liveness")
    with server.client() as client:
        assert [client.get(path).status_code for path in paths] == [200] * 4
        with mortal.frozen():
            answers = side_by_side([partial(client.get, path) for path in paths])
        assert [answer.status_code for answer in answers] == [503, 503, 200, 200]
        seconds_until(lambda: _create(client).status_code == 201, at_most_s=AT_MOST_S)


def test_it_stops_soon_although_its_database_hangs(mortal: OwnPostgres, tmp_path: Path) -> None:
    # Long enough that nobody who waits for it would come back before the test gives up.
    settings = {"database_url": mortal.new_database(), "database_timeout_s": "300"}
    with LiveServer(tmp_path, **settings) as server, mortal.frozen():
        time.sleep(1)  # it looks for changes twice a second, so by now it waits for an answer
        assert server.stop() == 0


def test_connections_that_are_cut_while_in_use_cost_a_503_at_most(
    mortal: OwnPostgres, server: LiveServer
) -> None:
    is_over = threading.Event()

    def write() -> list[httpx.Response]:
        answers = []
        with server.client() as client:
            while not is_over.is_set():
                answers.append(_create(client))
        return answers

    def cut() -> list[httpx.Response]:
        try:
            with server.client() as client:
                for _ in range(6):
                    seconds_until(lambda: _create(client).status_code == 201, at_most_s=AT_MOST_S)
                    assert mortal.numbers(TERMINATE)
        finally:
            is_over.set()
        return []

    answers = list(itertools.chain(*side_by_side([write, write, write, cut])))
    assert {answer.status_code for answer in answers} <= {201, 503}
    for answer in answers:
        if answer.status_code == 503:
            assert error_of(answer)["code"] == "service_unavailable"
    with server.client() as client:
        assert _create(client).status_code == 201
        made = [answer.json()["id"] for answer in answers if answer.status_code == 201]
        assert made
        found = side_by_side([partial(client.get, f"/api/projects/{id}/") for id in made[-20:]])
        assert {answer.status_code for answer in found} == {200}
    assert "Traceback" not in server.errors
