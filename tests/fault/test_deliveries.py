"""Deliveries through crashes, changes and components that misbehave."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pyarrow.parquet as parquet  # type: ignore[import-untyped]
import pytest

from hedgerow.errors import Unavailable
from hedgerow.events.model import Event
from hedgerow.kit.clock import utc_now
from hedgerow.pipelines.deliver import Turn
from hedgerow.pipelines.deliveries import Delivery
from hedgerow.pipelines.destinations import Destination
from hedgerow.pipelines.retry import HEALTHY
from hedgerow.pipelines.sending import Outcome, Sent, Surroundings, WaysOut
from tests.acceptance.test_deliveries import capture, destination
from tests.acceptance.test_destinations import FILES, RECORDS, TABLE
from tests.acceptance.test_destinations import destination as configured
from tests.live import LiveServer, seconds_until
from tests.postgres import OwnPostgres
from tests.receiver import Receiver, wait_until
from tests.unit.pipelines.test_route import event
from tests.unit.pipelines.world import RECORD

ROUNDS = 3
IN_A_ROUND = 300


def test_kill_9_during_delivery_loses_nothing(tmp_path: Path, postgres: OwnPostgres) -> None:
    """Neither of what is received, nor of files, nor of rows; and files are whole."""
    sent: set[str] = set()
    database = postgres.new_database()
    with Receiver() as receiver, postgres.door() as port:
        made = False
        for round in range(ROUNDS):
            server = LiveServer(tmp_path, allow_private_destinations="true").wait_ready()
            with server.client() as client:
                if not made:
                    destination(client, receiver.url)
                    url = f"postgresql://postgres@127.0.0.1:{port}{urlsplit(database).path}"
                    configured(client, TABLE, url=url, batch_seconds=0)
                    for format in ("jsonl", "parquet"):
                        configured(client, FILES, folder=format, format=format, batch_seconds=0)
                    made = True
                for _ in range(IN_A_ROUND // 50):
                    sent |= set(capture(client, *("seen" for _ in range(50))))
                before = len(receiver.received)
                receiver.wait_for(before + 20 * round, timeout_s=60)
            server.kill()
        with (
            LiveServer(tmp_path, allow_private_destinations="true") as server,
            server.client() as client,
        ):
            wait_until(lambda: set(receiver.uuids) >= sent, timeout_s=60)
            for record in client.get(RECORDS).json()["results"]:
                seconds_until(partial(has_sent_all, client, record["id"]), at_most_s=60)
        assert set(receiver.uuids) == sent
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT uuid::text FROM hedgerow_events").fetchall()
    assert sorted(row[0] for row in rows) == sorted(sent)
    exports = tmp_path / "exports" / "project-1"
    texts = [file.read_text() for file in exports.glob("jsonl/events-*")]
    assert {json.loads(line)["uuid"] for text in texts for line in text.splitlines()} == sent
    tables = [parquet.read_table(file) for file in exports.glob("parquet/events-*")]
    assert {uuid for table in tables for uuid in table.column("uuid").to_pylist()} == sent
    assert [*exports.rglob(".*")] == []


def has_sent_all(client: httpx.Client, id: int) -> bool:
    return bool(client.get(f"{RECORDS}{id}/deliveries/").json()["count"] == 0)


def test_disabling_and_deleting_while_delivering(tmp_path: Path) -> None:
    with (
        Receiver() as receiver,
        Receiver() as other,
        LiveServer(tmp_path, allow_private_destinations="true") as server,
        server.client() as client,
    ):
        path = destination(client, receiver.url)
        gone = destination(client, other.url)
        uuids = set(capture(client, *("seen" for _ in range(200))))
        for _ in range(3):
            switched(client, path, enabled=False)
            switched(client, path, enabled=True)
        assert client.delete(gone).status_code == 204
        uuids |= set(capture(client, "last"))
        wait_until(lambda: set(receiver.uuids) >= uuids, timeout_s=60)
        assert set(receiver.uuids) == uuids


def switched(client: httpx.Client, path: str, *, enabled: bool) -> None:
    assert client.patch(path, json={"enabled": enabled}).status_code == 200


async def _raises(events: Sequence[Event], settings: Any, around: Surroundings) -> list[Outcome]:
    raise settings["error"]


async def _too_few(events: Sequence[Event], settings: Any, around: Surroundings) -> list[Outcome]:
    return [Sent()] * (len(events) - 1)


def turn(deliver: Any, **settings: Any) -> Turn:
    component = Destination(
        record=RECORD, name="Odd", deliver=deliver, settings=settings, problem=""
    )
    http: Any = None
    keep_ms = int(timedelta(days=7).total_seconds() * 1000)
    return Turn(component, HEALTHY, WaysOut(http=http), utc_now, keep_ms)


def waiting(number: int) -> list[Delivery]:
    now_ms = int(utc_now().timestamp() * 1000)
    return [
        Delivery(id=id, event=event(number=id), attempts=0, created_ms=now_ms)
        for id in range(number)
    ]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        SystemExit(1),
        asyncio.CancelledError(),
        RecursionError(),
        StopIteration(),
        Unavailable("not you"),
        BaseExceptionGroup("many", [SystemExit()]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_component_may_raise_anything(error: BaseException) -> None:
    report = await turn(_raises, error=error).taken(waiting(3))
    assert sorted(report.retried) == [0, 1, 2]
    assert "The component failed" in report.health.error
    assert report.delivered == []


async def test_a_component_that_forgets_an_event_has_delivered_none() -> None:
    report = await turn(_too_few, batch_size=3).taken(waiting(3))
    assert sorted(report.retried) == [0, 1, 2]
