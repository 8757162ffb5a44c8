"""Deliveries through crashes, changes and components that misbehave."""

import asyncio
import itertools
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from hedgerow.errors import Unavailable
from hedgerow.events.model import Event
from hedgerow.lib.clock import utc_now
from hedgerow.lib.sealing import new_sealing_key
from hedgerow.pipelines.deliver import CONCURRENCY, Turn
from hedgerow.pipelines.deliveries import Delivery
from hedgerow.pipelines.destinations import Destination
from hedgerow.pipelines.retry import HEALTHY
from hedgerow.pipelines.sending import Outcome, Sent, Surroundings, WaysOut
from hedgerow.storage.connect import Place, plain_engine
from tests.acceptance.test_deliveries import RECORDS, capture, destination
from tests.clickhouse_http import OwnClickHouse
from tests.live import LiveServer, LiveWorker
from tests.postgres import OwnPostgres
from tests.receiver import (
    CUTS,
    DRIPS,
    DROPS,
    HANGS,
    POURS,
    Answer,
    Decide,
    Received,
    Receiver,
    wait_until,
)
from tests.records import tidied
from tests.stored_events import wait_until_stored
from tests.unit.pipelines.test_route import event
from tests.unit.pipelines.world import RECORD

# As many as are asked for.
ROUNDS = int(os.environ.get("HEDGEROW_TEST_KILLS", "0")) or 3
IN_A_ROUND = 300
SOON_S = 60


@pytest.mark.timeout(60 * max(4, ROUNDS))
def test_kill_9_during_delivery_loses_nothing(tmp_path: Path, tell: Callable[[str], None]) -> None:
    sent: set[str] = set()
    moments = random.Random()
    with Receiver() as receiver:
        path = ""
        for _ in range(ROUNDS):
            server = LiveServer(tmp_path, allow_private_destinations="true").wait_ready()
            with server.client() as client:
                path = path or destination(client, receiver.url)
                before = len(receiver.received)
                for _ in range(IN_A_ROUND // 50):
                    sent |= set(capture(client, *("seen" for _ in range(50))))
                receiver.wait_for(before + 1, timeout_s=SOON_S)
                time.sleep(moments.uniform(0, 0.2))
            server.kill()
        with (
            LiveServer(tmp_path, allow_private_destinations="true") as server,
            server.client() as client,
        ):
            wait_until_stored(server.data)
            wait_until(lambda: not left(server, number_of(path)), timeout_s=SOON_S + ROUNDS)
            assert client.get(f"{path}deliveries/").json()["count"] == 0
        came = [each.headers["webhook-id"] for each in receiver.received]
        assert sent - set(came) == set()
        assert set(came) - sent == set()
        repeated = len(came) - len(sent)
        tell(f"deliveries: {ROUNDS} kills, {len(sent)} events, {repeated} of them sent again")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    data = tmp_path_factory.mktemp("faults")
    with LiveServer(data, allow_private_destinations="true") as running:
        yield running


@pytest.fixture
def client(server: LiveServer) -> Iterator[httpx.Client]:
    with tidied(server, RECORDS) as opened:
        yield opened


def test_switching_moving_and_deleting_while_delivering(client: httpx.Client) -> None:
    with Receiver() as receiver, Receiver() as other:
        path = destination(client, receiver.url)
        gone = destination(client, other.url)
        ids = [number_of(each) for each in (path, gone)]
        uuids = set(capture(client, *("seen" for _ in range(200))))
        for turn in range(3):
            switched(client, path, enabled=False)
            orders = {str(ids[turn % 2]): 1, str(ids[1 - turn % 2]): 2}
            moved = client.patch(f"{RECORDS}rearrange/", json={"orders": orders})
            assert moved.status_code == 200, moved.text
            switched(client, path, enabled=True)
        assert client.delete(gone).status_code == 204
        uuids |= set(capture(client, "last"))
        wait_until(lambda: set(receiver.uuids) >= uuids, timeout_s=SOON_S)
        assert set(receiver.uuids) == uuids


def test_nothing_is_sent_after_a_deletion(server: LiveServer, client: httpx.Client) -> None:
    held = threading.Event()

    def hold(_: Received) -> Answer:
        held.wait(SOON_S)
        return Answer()

    with Receiver(hold) as receiver, Receiver() as other:
        path = destination(client, receiver.url)
        destination(client, other.url, events=["last"])
        capture(client, *("seen" for _ in range(200)))
        receiver.wait_for(CONCURRENCY)
        assert client.delete(path).status_code == 204
        # Whoever routes has seen the deletion by the time that this one arrives.
        capture(client, "last")
        other.wait_for(1)
        held.set()
        wait_until(lambda: left(server, number_of(path)) == 200 - CONCURRENCY)
        capture(client, "last")
        other.wait_for(2)
        assert len(receiver.received) == CONCURRENCY


def number_of(path: str) -> int:
    return int(path.rstrip("/").rpartition("/")[2])


def left(server: LiveServer, record_id: int) -> int:
    with closing(sqlite3.connect(server.data / "hedgerow.db", timeout=30)) as connection:
        sql = "SELECT count(*) FROM deliveries WHERE record_id = ?"
        return int(connection.execute(sql, (record_id,)).fetchone()[0])


def test_a_retry_goes_by_the_settings_of_its_moment(client: httpx.Client) -> None:
    with Receiver(lambda _: Answer(status=500)) as receiver, Receiver() as other:
        path = destination(client, receiver.url)
        (uuid,) = capture(client, "seen")
        receiver.wait_for(1)
        changed = client.patch(f"{path}config/", json={"url": other.url, "method": "PUT"})
        assert changed.status_code == 200, changed.text
        other.wait_for(1)
        assert (other.uuids, other.received[0].method) == ([uuid], "PUT")


def test_bad_receivers_get_everything_in_the_end_and_good_ones_at_once(
    client: httpx.Client,
) -> None:
    """Each of them misbehaves once, all at the same time."""
    ways = (500, 429, 503, DROPS, CUTS, DRIPS, HANGS)
    with ExitStack() as stack:
        bad = [stack.enter_context(Receiver(_once(way))) for way in ways]
        good = stack.enter_context(Receiver())
        for receiver in (*bad, good):
            destination(client, receiver.url)
        uuids = set(capture(client, *("seen" for _ in range(3))))
        wait_until(lambda: set(good.uuids) == uuids)
        assert len(good.received) == 3
        for receiver in bad:
            wait_until(lambda each=receiver: set(each.uuids) == uuids and len(each.uuids) >= 4)  # type: ignore[misc]


def _once(way: int) -> Decide:
    tries = itertools.count()

    def decide(_: Received) -> Answer:
        return Answer(status=way if next(tries) == 0 else 200, headers={"Retry-After": "1"})

    return decide


def test_an_answer_without_end_is_an_answer(client: httpx.Client) -> None:
    with Receiver(lambda _: Answer(status=POURS)) as receiver:
        path = destination(client, receiver.url)
        uuids = capture(client, "seen", "seen")
        wait_until(lambda: client.get(f"{path}metrics/").json()["delivered"] == 2)
        assert sorted(receiver.uuids) == sorted(uuids)


def test_one_of_two_workers_is_killed_and_the_other_goes_on(
    tmp_path: Path, postgres: OwnPostgres, clickhouse: OwnClickHouse
) -> None:
    settings = {
        "database_url": postgres.new_database(),
        "clickhouse_url": clickhouse.new_database(),
        "sealing_keys": new_sealing_key(),
        "allow_private_destinations": "true",
    }
    held = threading.Event()

    def hold(_: Received) -> Answer:
        held.wait(SOON_S)
        return Answer()

    with (
        LiveServer(tmp_path / "server", "--no-worker", **settings) as server,
        server.client() as client,
        Receiver(hold) as receiver,
    ):
        destination(client, receiver.url)
        victim = LiveWorker(tmp_path / "victim", **settings).wait_ready()
        uuids = set(capture(client, *("seen" for _ in range(100))))
        receiver.wait_for(CONCURRENCY, timeout_s=SOON_S)
        place = Place(url=settings["database_url"], path=Path(), timeout_s=20)
        with plain_engine(place).begin() as sql:
            [dead] = sql.execute(text("SELECT holder FROM delivery_leases")).scalars()
        # At once: in 10 s it would give up what is held, and take the next.
        victim.kill()
        held.set()
        with LiveWorker(tmp_path / "lasting", **settings) as lasting:
            # The other leaves the lane alone for as long as the lease of the dead lasts.
            with plain_engine(place).begin() as sql:
                ended = "UPDATE delivery_leases SET expires_at = now() - interval '1 second'"
                sql.execute(text(f"{ended} WHERE holder = :dead"), {"dead": dead})
            wait_until(lambda: set(receiver.uuids) == uuids, timeout_s=SOON_S)
        assert "chore failed" not in lasting.errors
    # What the dead had under way is all that was sent twice.
    assert len(receiver.uuids) <= len(uuids) + CONCURRENCY


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
