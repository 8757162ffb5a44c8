"""Deliveries under crashes, changes and failing components."""

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
from hedgerow.lib.encryption import generate_encryption_key
from hedgerow.pipelines.deliveries.deliverer import CONCURRENCY, DeliveryRound
from hedgerow.pipelines.deliveries.model import Delivery
from hedgerow.pipelines.deliveries.retry import NOT_PAUSED
from hedgerow.pipelines.destinations.attempt import OutboundClients
from hedgerow.plugin.delivery import DeliveryContext
from hedgerow.plugin.outcomes import Delivered, Outcome
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from tests.acceptance.test_deliveries import RECORDS, capture, destination
from tests.support.clickhouse_http import ClickHouseTestServer
from tests.support.live import LiveServer, LiveWorker
from tests.support.postgres import PostgresTestServer
from tests.support.receiver import (
    CUTS,
    DRIPS,
    DROPS,
    HANGS,
    POURS,
    Decide,
    PlannedResponse,
    ReceivedRequest,
    Receiver,
    wait_until,
)
from tests.support.records import delete_records_after
from tests.support.stored_events import wait_until_stored
from tests.unit.pipelines.deliveries.test_deliverer import make_destination
from tests.unit.pipelines.deliveries.test_router import event

# As many kills as HEDGEROW_TEST_KILLS requests.
ROUNDS = int(os.environ.get("HEDGEROW_TEST_KILLS", "0")) or 3
EVENTS_PER_ROUND = 300
TIMEOUT_S = 60


@pytest.mark.timeout(60 * max(15, ROUNDS))
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
                for _ in range(EVENTS_PER_ROUND // 50):
                    sent |= set(capture(client, *("seen" for _ in range(50))))
                receiver.wait_for(before + 1, timeout_s=TIMEOUT_S)
                time.sleep(moments.uniform(0, 0.2))
            server.kill()
        with (
            LiveServer(tmp_path, allow_private_destinations="true") as server,
            server.client() as client,
        ):
            wait_until_stored(server.data)
            wait_until(lambda: not left(server, number_of(path)), timeout_s=TIMEOUT_S + ROUNDS)
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
    with delete_records_after(server, RECORDS) as opened:
        yield opened


def test_destinations_can_change_during_delivery(client: httpx.Client) -> None:
    with Receiver() as receiver, Receiver() as other:
        path = destination(client, receiver.url)
        gone = destination(client, other.url)
        ids = [number_of(each) for each in (path, gone)]
        uuids = set(capture(client, *("seen" for _ in range(200))))
        for turn in range(3):
            set_enabled(client, path, enabled=False)
            orders = {str(ids[turn % 2]): 1, str(ids[1 - turn % 2]): 2}
            moved = client.patch(f"{RECORDS}rearrange/", json={"orders": orders})
            assert moved.status_code == 200, moved.text
            set_enabled(client, path, enabled=True)
        assert client.delete(gone).status_code == 204
        uuids |= set(capture(client, "last"))
        wait_until(lambda: set(receiver.uuids) >= uuids, timeout_s=TIMEOUT_S)
        assert set(receiver.uuids) == uuids


def test_nothing_is_sent_after_deletion(server: LiveServer, client: httpx.Client) -> None:
    held = threading.Event()

    def hold(_: ReceivedRequest) -> PlannedResponse:
        held.wait(TIMEOUT_S)
        return PlannedResponse()

    with Receiver(hold) as receiver, Receiver() as other:
        path = destination(client, receiver.url)
        destination(client, other.url, events=["last"])
        capture(client, *("seen" for _ in range(200)))
        receiver.wait_for(CONCURRENCY)
        assert client.delete(path).status_code == 204
        # Routing has seen the deletion by the time this event arrives.
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
        sql = (
            "SELECT count(*) + (SELECT coalesce(sum(number), 0) FROM delivery_batches"
            " WHERE record_id = ?1) FROM deliveries WHERE record_id = ?1"
        )
        return int(connection.execute(sql, (record_id,)).fetchone()[0])


def test_retry_uses_the_current_settings(client: httpx.Client) -> None:
    with Receiver(lambda _: PlannedResponse(status=500)) as receiver, Receiver() as other:
        path = destination(client, receiver.url)
        (uuid,) = capture(client, "seen")
        receiver.wait_for(1)
        changed = client.patch(f"{path}config/", json={"url": other.url, "method": "PUT"})
        assert changed.status_code == 200, changed.text
        other.wait_for(1)
        assert (other.uuids, other.received[0].method) == ([uuid], "PUT")


def test_failing_receivers_get_everything_eventually(
    client: httpx.Client,
) -> None:
    """Each receiver fails once, all at the same time."""
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

    def decide(_: ReceivedRequest) -> PlannedResponse:
        return PlannedResponse(
            status=way if next(tries) == 0 else 200, headers={"Retry-After": "1"}
        )

    return decide


def test_endless_response_counts_as_response(client: httpx.Client) -> None:
    with Receiver(lambda _: PlannedResponse(status=POURS)) as receiver:
        path = destination(client, receiver.url)
        uuids = capture(client, "seen", "seen")
        wait_until(lambda: client.get(f"{path}metrics/").json()["delivered"] == 2)
        assert sorted(receiver.uuids) == sorted(uuids)


def test_other_worker_continues_after_a_kill(
    tmp_path: Path, postgres: PostgresTestServer, clickhouse: ClickHouseTestServer
) -> None:
    settings = {
        "database_url": postgres.create_migrated_database(),
        "clickhouse_url": clickhouse.create_database(),
        "encryption_keys": generate_encryption_key(),
        "allow_private_destinations": "true",
    }
    held = threading.Event()

    def hold(_: ReceivedRequest) -> PlannedResponse:
        held.wait(TIMEOUT_S)
        return PlannedResponse()

    with (
        LiveServer(tmp_path / "server", "--no-worker", **settings) as server,
        server.client() as client,
        Receiver(hold) as receiver,
    ):
        destination(client, receiver.url)
        victim = LiveWorker(tmp_path / "victim", **settings).wait_ready()
        uuids = set(capture(client, *("seen" for _ in range(100))))
        receiver.wait_for(CONCURRENCY, timeout_s=TIMEOUT_S)
        place = DatabaseLocation(url=settings["database_url"], path=Path(), timeout_s=20)
        with create_sync_engine(place).begin() as sql:
            [dead] = sql.execute(text("SELECT holder FROM delivery_leases")).scalars()
        # Immediately: after 10 s it would give up the pending request and send the next.
        victim.kill()
        held.set()
        with LiveWorker(tmp_path / "lasting", **settings) as lasting:
            # The other worker does not touch the queue until the lease of the killed one expires.
            with create_sync_engine(place).begin() as sql:
                ended = "UPDATE delivery_leases SET expires_at = now() - interval '1 second'"
                sql.execute(text(f"{ended} WHERE holder = :dead"), {"dead": dead})
            wait_until(lambda: set(receiver.uuids) == uuids, timeout_s=TIMEOUT_S)
        assert "background task failed" not in lasting.errors
    # Only requests that were pending at the kill were sent twice.
    assert len(receiver.uuids) <= len(uuids) + CONCURRENCY


def set_enabled(client: httpx.Client, path: str, *, enabled: bool) -> None:
    assert client.patch(path, json={"enabled": enabled}).status_code == 200


async def _raises(events: Sequence[Event], settings: Any, ctx: DeliveryContext) -> list[Outcome]:
    raise settings["error"]


async def _too_few(events: Sequence[Event], settings: Any, ctx: DeliveryContext) -> list[Outcome]:
    return [Delivered()] * (len(events) - 1)


def turn(deliver: Any, **settings: Any) -> DeliveryRound:
    component = make_destination(deliver, **settings)
    http: Any = None
    keep_ms = int(timedelta(days=7).total_seconds() * 1000)
    return DeliveryRound(component, NOT_PAUSED, OutboundClients(http=http), utc_now, keep_ms)


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
async def test_any_exception_of_a_component_is_handled(error: BaseException) -> None:
    report = await turn(_raises, error=error).run(waiting(3))
    assert sorted(report.retried) == [0, 1, 2]
    assert "The component failed" in report.pause_state.error
    assert report.delivered == []


async def test_missing_outcomes_count_as_failure() -> None:
    report = await turn(_too_few, batch_size=3).run(waiting(3))
    assert sorted(report.retried) == [0, 1, 2]
