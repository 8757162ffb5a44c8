"""The NATS server, the service and the worker are killed in turn while clients send events: what
was acknowledged is stored once, and its persons are as if nothing had happened.
"""

import itertools
import json
import os
import random
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from hedgerow.lib.encryption import generate_encryption_key
from tests.fault.capture_batches import (
    COUNTED_FLAG,
    build_batches,
    build_event,
    get_uuids,
    send_batch,
)
from tests.fault.decide_requests import build_filters, create_flag
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import (
    PROJECT_KEY,
    LiveServer,
    LiveWorker,
    find_free_port,
    run_in_process,
    wait_for,
)
from tests.support.nats import NatsTestServer, needs_nats
from tests.support.postgres import PostgresTestServer

# How often each is killed.
ROUNDS = int(os.environ.get("HEDGEROW_TEST_KILLS", "1"))
WRITERS = ("ann", "bob", "cleo")
TIMEOUT_S = 120


class _Writer(threading.Thread):
    """Sends batches one after the other. A batch that was not acknowledged is sent again."""

    def __init__(self, address: str, name: str, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._name = name
        self._stop_writing = stop
        self.acknowledged: set[str] = set()
        self.refused = 0
        self.failures: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self._address, timeout=30, verify=False) as client:
            for batch in build_batches(self._name):
                while not self._send(client, batch):
                    if self._stop_writing.is_set():
                        return
                    time.sleep(0.05)
                if self._stop_writing.is_set():
                    return

    def _send(self, client: httpx.Client, batch: Any) -> bool:
        try:
            answer = send_batch(client, batch)
        except httpx.TransportError:
            self.refused += 1
            return False
        if answer.status_code == 200:
            self.acknowledged |= get_uuids(batch)
            return True
        self.refused += 1
        if answer.status_code != 503 or "Retry-After" not in answer.headers:
            self.failures.append(f"{answer.status_code} {answer.text}")
        return False


@needs_nats
@pytest.mark.timeout(300 * (ROUNDS + 1))
def test_nothing_acknowledged_is_lost_or_stored_twice(
    tmp_path: Path,
    postgres: PostgresTestServer,
    clickhouse: ClickHouseTestServer,
    tell: Callable[[str], None],
) -> None:
    nats = NatsTestServer(tmp_path / "nats").start()
    settings = {
        "database_url": postgres.create_migrated_database(),
        "clickhouse_url": clickhouse.create_database(),
        "encryption_keys": generate_encryption_key(),
        "inbox_url": nats.url,
    }
    port = str(find_free_port())

    def serve() -> LiveServer:
        return LiveServer(tmp_path / "server", "--no-worker", port=port, **settings).wait_ready()

    def work() -> LiveWorker:
        return LiveWorker(tmp_path / "worker", **settings).wait_ready()

    moments, stop = random.Random(), threading.Event()
    server, worker = serve(), work()
    writers = [_Writer(server.address, name, stop) for name in WRITERS]
    try:
        with server.client() as client:
            create_flag(client, COUNTED_FLAG, build_filters())
            _read_own_writes(client)
        for writer in writers:
            writer.start()
        for victim in itertools.chain(*[("nats", "server", "worker")] * ROUNDS):
            time.sleep(moments.uniform(0.3, 1.0))
            if victim == "nats":
                nats.kill()
                time.sleep(moments.uniform(0.0, 0.5))
                nats.start()
            elif victim == "server":
                server.kill()
                server = serve()
            else:
                worker.kill()
                worker = work()
        time.sleep(0.5)
        stop.set()
        for writer in writers:
            writer.join(TIMEOUT_S)
        acknowledged = set().union(*(writer.acknowledged for writer in writers))
        wait_for(
            lambda: acknowledged <= {each["uuid"] for each in _read(clickhouse, settings)},
            at_most_s=TIMEOUT_S,
        )
        wait_for(lambda: not _count_ready(settings), at_most_s=TIMEOUT_S)
        checked = run_in_process("doctor", data=tmp_path / "server", **settings)
        with server.client() as client:
            persons = client.get("/api/projects/1/persons/?limit=1000").json()["results"]
    finally:
        stop.set()
        worker.kill()
        server.kill()
        nats.kill()
    assert [failure for writer in writers for failure in writer.failures] == []
    assert acknowledged
    assert re.search(r"ok +inbox stream: NATS 2\.\S+, 0 of 1024 MB used", checked.stdout)
    assert sum(writer.refused for writer in writers)
    stored = _read(clickhouse, settings)
    uuids = [each["uuid"] for each in stored]
    assert len(uuids) == len(set(uuids))
    calls = sum(each["event"] == "$feature_flag_called" for each in stored)
    assert _fetch(settings, "SELECT sum(calls) FROM flag_calls") == calls
    last: dict[str, int] = dict.fromkeys(WRITERS, 0)
    for each in stored:
        if each["event"] == "seen":
            number = json.loads(each["properties"])["number"]
            person = json.loads(each["person_properties"])
            assert (person["n"], person["first"]) == (number, 0)
            last[each["distinct_id"]] = max(last[each["distinct_id"]], number)
    found = {
        name: person["properties"]["n"]
        for person in persons
        for name in WRITERS
        if name in person["distinct_ids"]
    }
    assert found == last
    tell(
        f"NATS inbox: {3 * ROUNDS} kills, {len(acknowledged)} acknowledged events, {len(stored)}"
        f" stored, {sum(writer.refused for writer in writers)} requests refused"
    )


def _read_own_writes(client: httpx.Client) -> None:
    """Evaluate a flag for the person that the event before it changed: in the worker's process, and
    under another distinct id."""
    paid = {"key": "plan", "value": "paid", "type": "person", "operator": "exact"}
    create_flag(client, "paid", {"groups": [{"properties": [paid]}]})
    anonymous = {"$anon_distinct_id": "dan before"}
    send_batch(client, [build_event("$identify", "dan", **anonymous)])
    for plan, name in itertools.product(("paid", "free", "paid"), ("dan", "dan before")):
        answer = send_batch(
            client, [build_event("bought", "dan before", **{"$set": {"plan": plan}})]
        )
        assert answer.status_code == 200, answer.text
        user = {"api_key": PROJECT_KEY, "distinct_id": name}
        answer = client.post("/decide?v=3", json=user)
        assert answer.status_code == 200, answer.text
        flags = answer.json()
        assert flags["featureFlags"]["paid"] is (plan == "paid")
        assert not flags["errorsWhileComputingFlags"]


def _fetch(settings: dict[str, str], sql: Any) -> int:
    with psycopg.connect(settings["database_url"]) as connection:
        row = connection.execute(sql).fetchone()
        return int(row[0] or 0) if row else 0


def _count_ready(settings: dict[str, str]) -> int:
    return _fetch(settings, "SELECT count(*) FROM ready_events")


def _read(clickhouse: ClickHouseTestServer, settings: dict[str, str]) -> list[dict[str, Any]]:
    database = settings["clickhouse_url"].rpartition("/")[2]
    lines = clickhouse.run(f"SELECT * FROM {database}.events FORMAT JSONEachRow").splitlines()
    return [json.loads(line) for line in lines]
