"""A process that appends events in a loop and prints the UUIDs of each stored block."""

import asyncio
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from hedgerow.events.model import Event, PersonMode
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import EventStoreLocation, open_event_store

NOW = datetime(2026, 3, 29, tzinfo=UTC)


def build_events() -> list[Event]:
    """Events of a few months, so that a block becomes several parts of the table."""
    return [
        Event(
            project_id=ProjectId(1),
            uuid=str(uuid4()),
            event="$pageview",
            distinct_id="user",
            properties='{"path": "/"}',
            elements_chain="",
            timestamp=NOW - timedelta(days=random.randrange(100)),
            created_at=NOW,
            person_id=str(uuid4()),
            person_created_at=NOW,
            person_properties="{}",
            person_mode=PersonMode.FULL,
            historical_migration=False,
        )
        for _ in range(random.randrange(1, 200))
    ]


async def main(folder: Path) -> None:
    events = open_event_store(EventStoreLocation(url="", folder=folder, timeout_s=5))
    while True:
        block = build_events()
        # Repeat the append, as a worker does after a crash: nothing may be stored twice.
        await events.append(block[: len(block) // 2])
        await events.append(block)
        sys.stdout.write(" ".join(one.uuid for one in block) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
