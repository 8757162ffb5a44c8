"""A process that stops without closing its connections (SIGSTOP, a paused virtual machine) stops no
other one for long, and does no harm when it continues.
"""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import uuid4

import httpx
import psycopg
import pytest

from hedgerow.lib.encryption import generate_encryption_key
from tests.fault.decide_requests import build_filters, create_flag
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.live import PROJECT_KEY, LiveServer, wait_for
from tests.support.postgres import PostgresTestServer

# Others continue within 10 s; a busy machine gets more.
TIMEOUT_S = 120
FLAGS = "/api/projects/1/feature_flags/"
EVENTS = "/api/projects/1/events/"
# How often a transaction of Hedgerow waits for a lock.
LOCK_WAITS: LiteralString = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Two processes that answer and work. `first` reaches ClickHouse through a proxy."""

    first: LiveServer
    second: LiveServer
    database_url: str
    proxy: FaultyProxy

    @contextmanager
    def freeze_first_in_transaction(
        self, lock: LiteralString, transactions: int = 1
    ) -> Iterator[None]:
        """Take a lock, wait until this number of transactions of the caller's work wait for it,
        freeze the first process, release the lock. The frozen process then has a transaction open,
        and the others get the lock in turns."""
        with (
            psycopg.connect(self.database_url) as holder,
            psycopg.connect(self.database_url, autocommit=True) as observer,
        ):
            holder.execute(lock)
            yield
            wait_for(
                lambda: _first(observer.execute(LOCK_WAITS)) >= transactions, at_most_s=TIMEOUT_S
            )
            self.first.process.send_signal(signal.SIGSTOP)
            holder.rollback()


def _first(cursor: psycopg.Cursor[Any]) -> int:
    row = cursor.fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: PostgresTestServer,
    clickhouse: ClickHouseTestServer,
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("frozen")
    database_url, clickhouse_url = postgres.create_database(), clickhouse.create_database()
    settings = {"database_url": database_url, "encryption_keys": generate_encryption_key()}
    with FaultyProxy(clickhouse_url) as proxy:
        proxied = f"{proxy.address}/{clickhouse_url.rpartition('/')[2]}"
        with (
            LiveServer(folder / "one", **settings, clickhouse_url=proxied) as first,
            LiveServer(folder / "two", **settings, clickhouse_url=clickhouse_url) as second,
        ):
            yield Installation(first=first, second=second, database_url=database_url, proxy=proxy)


@pytest.fixture(autouse=True)
def _continue_processes(installation: Installation) -> Iterator[None]:
    yield
    for server in (installation.first, installation.second):
        server.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("edits", [1, 4])
def test_frozen_requests_do_not_block_changes(installation: Installation, edits: int) -> None:
    first, second = installation.first, installation.second
    answers: list[httpx.Response] = []
    with first.client() as here, second.client() as there:
        path = f"{FLAGS}{create_flag(here, f'shared-{edits}', build_filters())}/"

        def rename(client: httpx.Client, name: str) -> httpx.Response:
            return client.patch(path, json={"name": name})

        def rename_first() -> None:
            answers.append(rename(here, "first"))

        editors = [threading.Thread(target=rename_first) for _ in range(edits)]
        lock: LiteralString = "SELECT 1 FROM generations WHERE topic = 'flags:1' FOR UPDATE"
        with installation.freeze_first_in_transaction(lock, transactions=edits):
            for editor in editors:
                editor.start()
        try:
            wait_for(lambda: rename(there, "second").status_code == 200, at_most_s=TIMEOUT_S)
        finally:
            first.process.send_signal(signal.SIGCONT)
            for editor in editors:
                editor.join(TIMEOUT_S)
        assert [answer.status_code for answer in answers] == [503] * edits
        assert all(answer.headers["retry-after"] for answer in answers)
        wait_for(lambda: here.get(path).json()["name"] == "second", at_most_s=TIMEOUT_S)
        assert rename(here, "third").status_code == 200
    assert "Traceback" not in first.errors


def _capture(client: httpx.Client, event: str, distinct_id: str) -> None:
    properties = {"$set": {"seen": event}}
    body = {
        "api_key": PROJECT_KEY,
        "batch": [
            {
                "uuid": str(uuid4()),
                "event": event,
                "distinct_id": distinct_id,
                "properties": properties,
            }
        ],
    }
    assert client.post("/batch", json=body).status_code == 200


def _is_stored(client: httpx.Client, event: str) -> bool:
    return len(client.get(EVENTS, params={"event": event}).json()["results"]) > 0


def test_another_process_takes_over_events_of_a_frozen_one(installation: Installation) -> None:
    first, second = installation.first, installation.second
    with first.client() as here, second.client() as there:
        second.process.send_signal(signal.SIGSTOP)
        lock: LiteralString = "LOCK TABLE ready_events IN EXCLUSIVE MODE"
        with installation.freeze_first_in_transaction(lock):
            _capture(here, "in transaction", "ann")
        try:
            second.process.send_signal(signal.SIGCONT)
            wait_for(lambda: _is_stored(there, "in transaction"), at_most_s=TIMEOUT_S)
        finally:
            first.process.send_signal(signal.SIGCONT)
        _capture(here, "afterwards", "ann")
        wait_for(lambda: _is_stored(there, "afterwards"), at_most_s=TIMEOUT_S)
        for client in (here, there):
            assert _count(client, "in transaction") == 1
            persons = client.get("/api/projects/1/persons/", params={"distinct_id": "ann"}).json()
            assert [each["properties"]["seen"] for each in persons["results"]] == ["afterwards"]
    assert "Traceback" not in first.errors + second.errors


def test_late_insert_of_a_frozen_process_stores_nothing_twice(installation: Installation) -> None:
    """The insert was on its way when the process froze, and arrives after another process has
    stored the same events."""
    first, second, proxy = installation.first, installation.second, installation.proxy
    with first.client() as here, second.client() as there:
        second.process.send_signal(signal.SIGSTOP)
        proxy.fail(Fault.DELAYS, containing="insert_deduplication_token")
        try:
            _capture(here, "late", "bob")
            proxy.wait_for_faults()
            first.process.send_signal(signal.SIGSTOP)
            second.process.send_signal(signal.SIGCONT)
            wait_for(lambda: _is_stored(there, "late"), at_most_s=TIMEOUT_S)
        finally:
            proxy.heal()
            proxy.wait_until_idle()
            first.process.send_signal(signal.SIGCONT)
        _capture(here, "after the late one", "bob")
        wait_for(lambda: _is_stored(there, "after the late one"), at_most_s=TIMEOUT_S)
        assert _count(there, "late") == 1
    assert "Traceback" not in first.errors + second.errors


def _count(client: httpx.Client, event: str) -> int:
    query = {"kind": "HogQLQuery", "query": f"select count() from events where event = '{event}'"}
    answer = client.post("/api/projects/1/query/", json={"query": query})
    return int(json.loads(answer.text)["results"][0][0])
