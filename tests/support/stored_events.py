"""What is really in an embedded event store, looked at after its server has ended.

    python -m tests.support.stored_events FOLDER SQL

In a process of its own, since the engine opens one folder in the life of a process.
"""

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events.events import ClickHouseEventStore
from tests.support.live import wait_for

ROOT = Path(__file__).parents[2]
PARTS = """
    SELECT sum(rows) AS rows, count() AS parts FROM system.parts
    WHERE active AND database = currentDatabase() AND table = 'events'
"""
EVERYTHING = "SELECT * FROM events ORDER BY created_at, timestamp, uuid"


def read_stored_events(data: Path, sql: str = EVERYTHING) -> list[dict[str, Any]]:
    """Return the rows of a SELECT on the events in a data directory; times and ids are text."""
    command = [sys.executable, "-m", "tests.support.stored_events", str(data / "events"), sql]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


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


async def _show(folder: Path, sql: str) -> None:
    events = open_event_store(EventStoreLocation(url="", folder=folder, timeout_s=5))
    for row in await events.query(sql, {}, max_rows=10_000_000, timeout_s=60):
        sys.stdout.write(json.dumps(row, default=str) + "\n")
    await events.close()


if __name__ == "__main__":
    asyncio.run(_show(Path(sys.argv[1]), sys.argv[2]))
