"""kill -9 while deliveries are created: none is missing, and none is created twice. The space of
an event with many destinations.
"""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

from hedgerow.storage.deliveries.batches import decode_ids
from tests.acceptance.test_deliveries import capture, destination
from tests.support.live import LiveServer
from tests.support.receiver import PlannedResponse, ReceivedRequest, Receiver, wait_until
from tests.support.stored_events import wait_until_stored

DESTINATIONS = 20
ROUNDS = 3
REQUESTS = 4
EVENTS = 1000
# Nothing listens there: what was created stays.
CLOSED = "http://127.0.0.1:9/hook"


def read(data: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(data / "hedgerow.db", timeout=30)) as connection:
        return connection.execute(sql).fetchall()


def test_kill_9_creates_each_delivery_once(tmp_path: Path) -> None:
    sent: set[str] = set()
    for turn in range(ROUNDS):
        server = LiveServer(tmp_path, allow_private_destinations="true").wait_ready()
        with server.client() as client:
            if not turn:
                for _ in range(DESTINATIONS):
                    destination(client, CLOSED)
            before = read(tmp_path, "SELECT count(*) FROM delivery_events")
            for _ in range(REQUESTS):
                sent |= set(capture(client, *("seen" for _ in range(EVENTS))))
            wait_until(
                lambda seen=before: read(tmp_path, "SELECT count(*) FROM delivery_events") != seen  # type: ignore[misc]
            )
        server.kill()
    with LiveServer(tmp_path, allow_private_destinations="true") as server:
        wait_until_stored(server.data)
    uuids: dict[int, str] = dict(read(tmp_path, "SELECT id, uuid FROM delivery_events"))
    assert len(uuids) == len(sent)
    assert set(uuids.values()) == sent
    by_record: dict[int, list[int]] = {}
    for record_id, event_ids in read(tmp_path, "SELECT record_id, event_ids FROM delivery_batches"):
        by_record.setdefault(record_id, []).extend(decode_ids(event_ids))
    for record_id, event_id in read(tmp_path, "SELECT record_id, event_id FROM deliveries"):
        by_record.setdefault(record_id, []).append(event_id)
    assert len(by_record) == DESTINATIONS
    assert all(sorted(ids) == sorted(uuids) for ids in by_record.values())


def measure_used_bytes(data: Path) -> int:
    """Return the size of the pages of the database that hold something."""
    sql = (
        "SELECT (page_count - freelist_count) * page_size"
        " FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()"
    )
    ((size,),) = read(data, sql)
    return int(size)


def test_a_large_event_takes_its_space_once_and_gives_it_back(tmp_path: Path) -> None:
    number, size = 100, 400_000
    may_answer = threading.Event()

    def hold(_: ReceivedRequest) -> PlannedResponse:
        may_answer.wait(60)
        return PlannedResponse()

    with (
        Receiver(hold) as receiver,
        LiveServer(tmp_path, allow_private_destinations="true") as server,
        server.client() as client,
    ):
        for _ in range(number):
            destination(client, receiver.url)
        before = measure_used_bytes(tmp_path)
        (uuid,) = capture(client, "seen", text="x" * size)
        wait_until_stored(tmp_path)
        waiting = "SELECT count(*) FROM delivery_batches"
        wait_until(lambda: read(tmp_path, waiting) == [(number,)])
        grown = measure_used_bytes(tmp_path) - before
        # A little less: pages of finished work are used again.
        assert 0.9 * size < grown < 2 * size + 200 * number
        may_answer.set()
        receiver.wait_for(number)
        assert receiver.uuids == [uuid] * number
        wait_until(lambda: read(tmp_path, "SELECT count(*) FROM delivery_events") == [(0,)])
        assert read(tmp_path, "SELECT count(*) FROM deliveries") == [(0,)]
