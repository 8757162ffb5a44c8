"""While PostgreSQL is unavailable the service answers 503, and recovers without a restart."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from tests.support.live import (
    PROJECT_KEY,
    LiveServer,
    find_free_port,
    read_error,
    run_concurrently,
    wait_for,
)
from tests.support.postgres import PostgresTestServer

TIMEOUT_S = 60
EVENT = {"api_key": PROJECT_KEY, "event": "seen", "distinct_id": "ann"}
TERMINATE = """
    WITH ours AS MATERIALIZED
      (SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'hedgerow/%')
    SELECT pid FROM ours WHERE pg_terminate_backend(pid)
"""


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresTestServer]:
    """A PostgreSQL server that can be stopped, unlike the shared one."""
    server = PostgresTestServer()
    yield server
    server.start()
    server.close()


@pytest.fixture(scope="module")
def server(
    own_postgres: PostgresTestServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveServer]:
    settings = {"database_url": own_postgres.create_database(), "database_timeout_s": "2"}
    with LiveServer(tmp_path_factory.mktemp("away"), **settings) as server:
        yield server


def _create(client: httpx.Client) -> httpx.Response:
    return client.post("/api/projects/", json={"name": "Anything"})


def test_server_waits_for_an_unavailable_database(
    own_postgres: PostgresTestServer, tmp_path: Path
) -> None:
    url = own_postgres.create_database()
    own_postgres.stop()
    server = LiveServer(tmp_path, port=find_free_port(), database_url=url)
    try:
        wait_for(lambda: server.get_status("/_liveness") == 200, at_most_s=120)
        wait_for(lambda: "No such file" in server.errors, at_most_s=120)
        waiting = httpx.get(f"{server.address}/_readiness", timeout=60, verify=False)
        refused = httpx.get(f"{server.address}/api/projects/", timeout=60, verify=False)
        own_postgres.start()
        wait_for(lambda: server.get_status("/_readiness") == 200, at_most_s=TIMEOUT_S)
        with server.wait_ready().client() as client:
            assert _create(client).status_code == 201
    finally:
        own_postgres.start()
        server.stop()
    assert waiting.status_code == refused.status_code == 503
    assert "database" in waiting.json()["missing"][0]
    assert "database" in read_error(refused)["detail"]
    assert int(refused.headers["retry-after"]) >= 1
    assert "Traceback" not in server.errors


def test_server_starts_with_the_copies_of_its_flags(
    own_postgres: PostgresTestServer, tmp_path: Path
) -> None:
    """Flags that need no stored data are right, and the response says if one does."""
    settings = {"database_url": own_postgres.create_migrated_database(), "port": find_free_port()}
    filters = {"groups": [{"properties": [{"key": "plan", "value": "pro", "type": "person"}]}]}
    with LiveServer(tmp_path, **settings) as server, server.client() as client:
        for flag in (
            {"key": "all", "filters": {"groups": [{}]}},
            {"key": "pro", "filters": filters},
        ):
            path = "/api/projects/1/feature_flags/"
            assert client.post(path, json={"name": "", **flag}).status_code == 201
        wait_for(lambda: _decide(server, plan="pro").json()["featureFlags"]["pro"], TIMEOUT_S)
        wait_for(lambda: any((tmp_path / "flag-copies").glob("*.json")), TIMEOUT_S)
        [copy] = (tmp_path / "flag-copies").iterdir()
        wait_for(lambda: '"pro"' in copy.read_text(), TIMEOUT_S)
    own_postgres.stop()
    server = LiveServer(tmp_path, **settings)
    try:
        wait_for(lambda: "with the copies on disk" in server.errors, at_most_s=120)
        wait_for(lambda: _decide(server, plan="pro").status_code == 200, at_most_s=TIMEOUT_S)
        known = _decide(server, plan="pro").json()
        assert known["featureFlags"] == {"all": True, "pro": True}
        assert known["errorsWhileComputingFlags"] is False
        # The plan is stored, if at all.
        unknown = _decide(server).json()
        assert unknown["featureFlags"] == {"all": True}
        assert unknown["errorsWhileComputingFlags"] is True
        # A key may be newer than the copies.
        assert _decide(server, key="phc_newer-than-the-copies").status_code == 503
        assert server.get_status("/api/projects/") == 503
        ready = httpx.get(f"{server.address}/_readiness", timeout=60, verify=False)
        assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
        own_postgres.start()
        wait_for(lambda: server.get_status("/_readiness") == 200, at_most_s=TIMEOUT_S)
        found = _decide(server).json()
        assert found["featureFlags"] == {"all": True, "pro": False}
        assert found["errorsWhileComputingFlags"] is False
    finally:
        own_postgres.start()
        server.stop()
    assert "Traceback" not in server.errors


def _decide(server: LiveServer, key: str = PROJECT_KEY, **properties: str) -> httpx.Response:
    body = {"api_key": key, "distinct_id": "ann", "person_properties": properties}
    return httpx.post(f"{server.address}/decide?v=3", json=body, timeout=60, verify=False)


def test_starting_server_waits_for_a_locked_table(
    own_postgres: PostgresTestServer, tmp_path: Path
) -> None:
    url = own_postgres.create_migrated_database()
    with psycopg.connect(url) as maintenance:
        # No migration writes to this table: the last step of the first start does.
        maintenance.execute("LOCK TABLE sealing_check IN EXCLUSIVE MODE")
        server = LiveServer(tmp_path, database_url=url, database_timeout_s="1")
        try:
            wait_for(lambda: "waiting for the database" in server.errors, at_most_s=TIMEOUT_S)
            maintenance.rollback()
            with server.wait_ready().client() as client:
                assert _create(client).status_code == 201
        finally:
            server.stop()
    assert "locked by another process" in server.errors


@pytest.mark.parametrize("end", [PostgresTestServer.stop, PostgresTestServer.kill])
def test_server_answers_from_memory_and_recovers(
    own_postgres: PostgresTestServer, server: LiveServer, end: Callable[[PostgresTestServer], None]
) -> None:
    with server.client() as client:
        made = _create(client).json()["id"]
        end(own_postgres)
        try:
            _assert_unavailable(server, client, made)
        finally:
            own_postgres.start()
        wait_for(lambda: server.get_status("/_readiness") == 200, at_most_s=TIMEOUT_S)
        wait_for(lambda: _create(client).status_code == 201, at_most_s=TIMEOUT_S)
        assert client.get("/api/projects/1/activity_log/").status_code == 200
    assert "Traceback" not in server.errors


def _assert_unavailable(server: LiveServer, client: httpx.Client, known_project: int) -> None:
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
        assert read_error(answer)["detail"] == "The database does not answer."
        assert int(answer.headers["retry-after"]) >= 1
    for path in (f"/api/projects/{known_project}/", "/api/projects/", "/api/users/@me/"):
        assert client.get(path).status_code == 200, path
    assert server.get_status("/_liveness") == 200
    assert server.get_status("/metrics") == 200


def test_hanging_database_causes_503_within_the_timeout(
    own_postgres: PostgresTestServer, server: LiveServer
) -> None:
    paths = ("/_readiness", "/api/projects/1/activity_log/", "/api/users/@me/", "/_liveness")
    with server.client() as client:
        assert [client.get(path).status_code for path in paths] == [200] * 4
        with own_postgres.freeze():
            answers = run_concurrently([partial(client.get, path) for path in paths])
        assert [answer.status_code for answer in answers] == [503, 503, 200, 200]
        wait_for(lambda: _create(client).status_code == 201, at_most_s=TIMEOUT_S)


def test_server_stops_although_its_database_hangs(
    own_postgres: PostgresTestServer, tmp_path: Path
) -> None:
    # Long enough that the test would fail if the server waited for it.
    settings = {"database_url": own_postgres.create_database(), "database_timeout_s": "300"}
    with LiveServer(tmp_path, **settings) as server, own_postgres.freeze():
        time.sleep(1)  # it polls twice a second, so it waits for an answer by now
        assert server.stop() == 0


@contextmanager
def _read_only(postgres: PostgresTestServer, database_url: str) -> Iterator[None]:
    """New sessions accept no changes, as on a standby. Sessions keep the mode they began with."""
    name = urlsplit(database_url).path[1:]
    mode = f"ALTER DATABASE {name} SET default_transaction_read_only"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"{mode} = on".encode())
        connection.execute(TERMINATE)
        yield
        connection.execute(f"{mode} = off".encode())


def test_read_only_database_causes_503_and_its_sessions_are_replaced(
    own_postgres: PostgresTestServer, tmp_path: Path
) -> None:
    url = own_postgres.create_migrated_database()
    with LiveServer(tmp_path, database_url=url) as server, server.client() as client:
        capture = partial(client.post, "/capture/", json=EVENT)
        assert capture().status_code == 200
        with _read_only(own_postgres, url):
            wait_for(lambda: "read-only" in capture().text, at_most_s=TIMEOUT_S)
            refused = [capture(), _create(client), capture()]
            assert client.get("/api/projects/1/feature_flags/").status_code == 200
        wait_for(lambda: capture().status_code == 200, at_most_s=TIMEOUT_S)
        wait_for(lambda: _create(client).status_code == 201, at_most_s=TIMEOUT_S)
        assert {answer.status_code for answer in refused} == {503}
        assert {read_error(each)["detail"] for each in refused} == {"The database is read-only."}
        assert int(refused[0].headers["retry-after"]) >= 1
        assert "Traceback" not in server.errors


def test_cut_connections_cause_at_most_a_503(
    own_postgres: PostgresTestServer, server: LiveServer
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
                    wait_for(lambda: _create(client).status_code == 201, at_most_s=TIMEOUT_S)
                    assert own_postgres.query_numbers(TERMINATE)
        finally:
            is_over.set()
        return []

    answers = list(itertools.chain(*run_concurrently([write, write, write, cut])))
    assert {answer.status_code for answer in answers} <= {201, 503}
    for answer in answers:
        if answer.status_code == 503:
            assert read_error(answer)["code"] == "service_unavailable"
    with server.client() as client:
        assert _create(client).status_code == 201
        made = [answer.json()["id"] for answer in answers if answer.status_code == 201]
        assert made
        found = run_concurrently([partial(client.get, f"/api/projects/{id}/") for id in made[-20:]])
        assert {answer.status_code for answer in found} == {200}
    assert "Traceback" not in server.errors
