"""What is really in an embedded event store, looked at after its server has ended."""

import asyncio
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events.events import ClickHouseEventStore
from tests.support.live import wait_for

PARTS = """
    SELECT sum(rows) AS rows, count() AS parts FROM system.parts
    WHERE active AND database = currentDatabase() AND table = 'events'
"""
EVERYTHING = "SELECT * FROM events ORDER BY created_at, timestamp, uuid"


def read_stored_events(data: Path, sql: str = EVERYTHING) -> list[dict[str, Any]]:
    """Return the rows of a SELECT on the events in a data directory; times and ids are text."""
    rows = asyncio.run(_select(data / "events", sql))
    return [json.loads(json.dumps(row, default=str)) for row in rows]


async def _select(folder: Path, sql: str) -> Sequence[Mapping[str, Any]]:
    events = open_event_store(EventStoreLocation(url="", folder=folder, timeout_s=5))
    try:
        return await events.query(sql, {}, max_rows=10_000_000, timeout_s=60)
    finally:
        await events.close()


async def parts_of(events: ClickHouseEventStore) -> dict[str, int]:
    """Count the `rows` and `parts` of an open event store. Deleted rows count until merged."""
    (row,) = await events.query(PARTS, {}, max_rows=1, timeout_s=60)
    return row


def count_waiting_events(data: Path) -> int:
    """Count events that are accepted and not yet stored."""
    with closing(sqlite3.connect(data / "hedgerow.db", timeout=30)) as connection:
        counts = [
            connection.execute("SELECT sum(number) FROM inbox").fetchone()[0],
            connection.execute("SELECT sum(number) FROM ready_events").fetchone()[0],
        ]
    return sum(count or 0 for count in counts)


def count_waiting_persons(data: Path) -> int:
    """Count changes of persons, groups and cohorts that are not replicated yet."""
    with closing(sqlite3.connect(data / "hedgerow.db", timeout=30)) as connection:
        changes = "SELECT count(*) FROM mirror_queue WHERE kind <> 'mark'"
        return int(connection.execute(changes).fetchone()[0])


def wait_until_stored(data: Path, at_most_s: float = 60) -> float:
    return wait_for(lambda: not count_waiting_events(data), at_most_s)
