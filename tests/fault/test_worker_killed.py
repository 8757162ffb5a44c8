"""Workers that are killed at any moment, beside others that go on: every event is stored once, and
persons are as if nothing had happened.
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

from hedgerow.lib.sealing import new_sealing_key
from hedgerow.storage.connect import Place, plain_engine
from tests.clickhouse_http import OwnClickHouse
from tests.fault.capturing import COUNTED, sent, story, uuids
from tests.fault.deciding import made, one
from tests.live import LiveServer, LiveWorker, seconds_until
from tests.postgres import OwnPostgres

KILLS = 3
WRITERS = ("ann", "bob", "cleo")
SOON_S = 60


def test_what_a_killed_worker_had_under_way_is_done_once_by_another(
    tmp_path: Path, postgres: OwnPostgres, clickhouse: OwnClickHouse
) -> None:
    settings = {
        "database_url": postgres.new_database(),
        "clickhouse_url": clickhouse.new_database(),
        "sealing_keys": new_sealing_key(),
    }
    acknowledged: set[str] = set()
    calls: dict[str, int] = {}
    with LiveServer(tmp_path / "server", "--no-worker", **settings) as server:
        with server.client() as client:
            made(client, COUNTED, one())
        stop = threading.Event()
        writers = [
            threading.Thread(target=_write, args=(server, name, acknowledged, calls, stop))
            for name in WRITERS
        ]
        for writer in writers:
            writer.start()
        moments = random.Random()
        with LiveWorker(tmp_path / "lasting", **settings) as lasting:
            seconds_until(lambda: bool(_holders(settings)), at_most_s=SOON_S)
            [(alive,)] = _holders(settings)
            for number in range(KILLS):
                victim = LiveWorker(tmp_path / f"victim {number}", **settings).wait_ready()
                time.sleep(moments.uniform(0.1, 1.0))
                victim.kill()
                _end_leases(settings, alive)  # as if the time of the dead were over
            stop.set()
            for writer in writers:
                writer.join(SOON_S)
            seconds_until(lambda: not _waiting(settings), at_most_s=SOON_S)
        assert "chore failed" not in lasting.errors
        with server.client() as client:
            listed = client.get("/api/projects/1/persons/?limit=1000").json()["results"]
    stored = _stored(clickhouse, settings)
    assert sorted(each["uuid"] for each in stored) == sorted(acknowledged)
    assert _rows(settings, "SELECT sum(calls) FROM flag_calls") == [(sum(calls.values()),)]
    last = {each["distinct_id"]: 0 for each in stored if each["event"] == "seen"}
    for each in stored:
        if each["event"] == "seen":
            told = json.loads(each["properties"])["number"]
            person = json.loads(each["person_properties"])
            assert (person["n"], person["first"]) == (told, 0)
            last[each["distinct_id"]] = max(last[each["distinct_id"]], told)
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
        for batch in itertools.takewhile(lambda _: not stop.is_set(), story(name)):
            answer = sent(client, batch)
            assert answer.status_code == 200, answer.text
            acknowledged |= uuids(batch)
            calls[name] = calls.get(name, 0) + 1
            time.sleep(0.01)


def _rows(settings: dict[str, str], sql: str) -> list[Any]:
    place = Place(url=settings["database_url"], path=Path(), timeout_s=5)
    with plain_engine(place).begin() as connection:
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


def _stored(clickhouse: OwnClickHouse, settings: dict[str, str]) -> list[dict[str, Any]]:
    database = settings["clickhouse_url"].rpartition("/")[2]
    sql = f"SELECT * FROM {database}.events FORMAT JSONEachRow"
    try:
        return [json.loads(line) for line in clickhouse.run(sql).splitlines()]
    except HTTPError:
        return []
