"""Workers are killed at random times while others continue: every event is stored once, and in
order.
"""

import itertools
import json
import random
import threading
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from sqlalchemy import text

from hedgerow.lib.encryption import generate_encryption_key
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from tests.fault.capture_batches import COUNTED_FLAG, build_batches, get_uuids, send_batch
from tests.fault.decide_requests import build_filters, create_flag
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import LiveServer, LiveWorker, wait_for
from tests.support.postgres import PostgresTestServer

KILLS = 3
WRITERS = ("ann", "bob", "cleo")
TIMEOUT_S = 60


def test_work_of_a_killed_worker_is_done_once_by_another(
    tmp_path: Path, postgres: PostgresTestServer, clickhouse: ClickHouseTestServer
) -> None:
    settings = {
        "database_url": postgres.create_migrated_database(),
        "clickhouse_url": clickhouse.create_database(),
        "encryption_keys": generate_encryption_key(),
    }
    acknowledged: set[str] = set()
    calls: dict[str, int] = {}
    with LiveServer(tmp_path / "server", "--no-worker", **settings) as server:
        with server.client() as client:
            create_flag(client, COUNTED_FLAG, build_filters())
        stop = threading.Event()
        writers = [
            threading.Thread(target=_write, args=(server, name, acknowledged, calls, stop))
            for name in WRITERS
        ]
        for writer in writers:
            writer.start()
        moments = random.Random()
        with LiveWorker(tmp_path / "lasting", **settings) as lasting:
            wait_for(lambda: bool(_holders(settings)), at_most_s=TIMEOUT_S)
            [(alive,)] = _holders(settings)
            for number in range(KILLS):
                victim = LiveWorker(tmp_path / f"victim {number}", **settings).wait_ready()
                time.sleep(moments.uniform(0.1, 1.0))
                victim.kill()
                _end_leases(settings, alive)  # as if the leases of the killed worker had expired
            stop.set()
            for writer in writers:
                writer.join(TIMEOUT_S)
            wait_for(lambda: not _waiting(settings), at_most_s=TIMEOUT_S)
        assert "background task failed" not in lasting.errors
        with server.client() as client:
            listed = client.get("/api/projects/1/persons/?limit=1000").json()["results"]
    stored = _stored(clickhouse, settings)
    assert sorted(each["uuid"] for each in stored) == sorted(acknowledged)
    assert _rows(settings, "SELECT sum(calls) FROM flag_calls") == [(sum(calls.values()),)]
    last = {each["distinct_id"]: 0 for each in stored if each["event"] == "seen"}
    for each in stored:
        if each["event"] == "seen":
            number = json.loads(each["properties"])["number"]
            person = json.loads(each["person_properties"])
            assert (person["n"], person["first"]) == (number, 0)
            last[each["distinct_id"]] = max(last[each["distinct_id"]], number)
    assert {
        name: person["properties"]["n"]
        for person in listed
        for name in WRITERS
        if name in person["distinct_ids"]
    } == last


def _write(
    server: LiveServer,
    name: str,
    acknowledged: set[str],
    calls: dict[str, int],
    stop: threading.Event,
) -> None:
    with server.client(key=None) as client:
        for batch in itertools.takewhile(lambda _: not stop.is_set(), build_batches(name)):
            answer = send_batch(client, batch)
            assert answer.status_code == 200, answer.text
            acknowledged |= get_uuids(batch)
            calls[name] = calls.get(name, 0) + 1
            time.sleep(0.01)


def _rows(settings: dict[str, str], sql: str) -> list[Any]:
    place = DatabaseLocation(url=settings["database_url"], path=Path(), timeout_s=5)
    with create_sync_engine(place).begin() as connection:
        result = connection.execute(text(sql))
        return [tuple(row) for row in result] if result.returns_rows else []


def _waiting(settings: dict[str, str]) -> bool:
    return any(
        _rows(settings, f"SELECT count(*) FROM {table}") != [(0,)]
        for table in ("inbox", "ready_events")
    )


def _holders(settings: dict[str, str]) -> list[Any]:
    return _rows(settings, "SELECT DISTINCT holder FROM inbox_leases")


def _end_leases(settings: dict[str, str], alive: str) -> None:
    over = "UPDATE inbox_leases SET expires_at = clock_timestamp() - interval '1 second'"
    _rows(settings, f"{over} WHERE holder <> '{alive}'")


def _stored(clickhouse: ClickHouseTestServer, settings: dict[str, str]) -> list[dict[str, Any]]:
    database = settings["clickhouse_url"].rpartition("/")[2]
    sql = f"SELECT * FROM {database}.events FORMAT JSONEachRow"
    try:
        return [json.loads(line) for line in clickhouse.run(sql).splitlines()]
    except HTTPError:
        return []
