"""Appending events, against raw chDB inserts of the same rows.

    python -m benchmarks.event_store [STORED]

The reference is chDB itself, that already holds a block's lines in its hands and inserts them into
a table of the same shape without asking whether it has them. Ours encodes the events, looks for
duplicates and inserts. Then STORED rows are added (a million by default), to see what the look for
duplicates costs among so many: for events that are new, and for events that are there already.
"""

import json
import os
import random
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import chdb
import msgspec
import uvloop
from chdb.state.sqlitelike import Connection

from hedgerow.events.model import Event, PersonMode
from hedgerow.lib.clock import utc_now
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import EventStoreLocation, open_event_store
from hedgerow.storage.events.events import ClickHouseEventStore
from hedgerow.storage.events.schema import COLUMNS

BLOCKS = {100: 20, 1_000: 10, 5_000: 8}
ROUNDS_AMONG_MANY = 5
FILL = 250_000

chance = random.Random(20260329)
WORDS = [f"{chance.getrandbits(40):x}" for _ in range(2_000)]
encoder = msgspec.json.Encoder()


def some_uuid() -> str:
    return str(UUID(int=chance.getrandbits(128), version=4))


def properties() -> str:
    """About 500 bytes, of which a part repeats from event to event."""
    return json.dumps(
        {
            "$lib": "web",
            "$session_id": some_uuid(),
            "$current_url": f"https://example.com/{chance.choice(WORDS)}",
            "$browser": "Firefox",
            "$os": "Linux",
            "text": " ".join(chance.choices(WORDS, k=28)),
        }
    )


def block(size: int) -> list[Event]:
    now = utc_now()
    return [
        Event(
            project_id=ProjectId(1),
            uuid=some_uuid(),
            event=chance.choice(("$pageview", "$autocapture", "signed up")),
            distinct_id=f"user-{chance.randrange(50_000)}",
            properties=properties(),
            elements_chain="",
            timestamp=now - timedelta(seconds=chance.random() * 3_600),
            created_at=now,
            person_id=some_uuid(),
            person_created_at=now,
            person_properties='{"email": "somebody@example.com"}',
            person_mode=PersonMode.FULL,
            historical_migration=False,
        )
        for _ in range(size)
    ]


def raw_insert(connection: Connection, lines: bytes) -> None:
    insert = f"INSERT INTO raw ({', '.join(COLUMNS)})"
    with connection.send_insert(insert, "JSONCompactEachRow") as stream:
        stream.append(lines)
        stream.finish()


async def append_s(store: ClickHouseEventStore, events: list[Event]) -> float:
    started = time.perf_counter()
    await store.append(events)
    return time.perf_counter() - started


async def appends(store: ClickHouseEventStore, raw: Connection) -> None:
    print("rows/s, median of interleaved blocks")
    print(f"  {'block':>6} {'raw chDB':>10} {'hedgerow':>10} {'ratio':>6}")
    for size, rounds in BLOCKS.items():
        reference, ours = [], []
        for _ in range(rounds):
            events = block(size)
            lines = encoder.encode_lines(events)
            started = time.perf_counter()
            raw_insert(raw, lines)
            reference.append(time.perf_counter() - started)
            ours.append(await append_s(store, events))
        raw_s, our_s = statistics.median(reference), statistics.median(ours)
        print(f"  {size:>6} {size / raw_s:>10,.0f} {size / our_s:>10,.0f} {raw_s / our_s:>6.0%}")


def fill(raw: Connection, stored: int) -> None:
    for start in range(0, stored, FILL):
        # As if they had come in one a second.
        raw.query(f"""
            INSERT INTO events ({", ".join(COLUMNS)})
            SELECT 1, generateUUIDv4(), '$pageview', concat('user-', toString(number % 50000)),
                   '{{}}', '', now64(6) - toIntervalSecond({stored} - number), now64(6),
                    generateUUIDv4(number), now64(6), '{{}}', 'full', false
            FROM numbers({start}, {min(FILL, stored - start)})
        """)


async def among_many(store: ClickHouseEventStore, stored: int) -> None:
    print(f"among {stored:,} events, ms")
    print(
        f"  first append, which learns their uuids: {await append_s(store, block(1)) * 1000:,.0f}"
    )
    print(f"  {'block':>6} {'all new':>9} {'all there':>9}   median of {ROUNDS_AMONG_MANY}")
    for size in BLOCKS:
        new, there = [], []
        for _ in range(ROUNDS_AMONG_MANY):
            new.append(await append_s(store, block(size)))
            rows = await store.query(
                f"SELECT uuid FROM events ORDER BY rand() LIMIT {size}",
                {},
                max_rows=size,
                timeout_s=60,
            )
            known = zip(block(size), rows, strict=True)
            repeated = [msgspec.structs.replace(e, uuid=str(row["uuid"])) for e, row in known]
            there.append(await append_s(store, repeated))
        new_ms, there_ms = statistics.median(new) * 1000, statistics.median(there) * 1000
        print(f"  {size:>6} {new_ms:>9.1f} {there_ms:>9.1f}")


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure(folder: Path, stored: int) -> None:
    place = EventStoreLocation(url="", folder=folder, timeout_s=5)
    store = open_event_store(place)
    await store.prepare()
    raw = chdb.connect(str((folder / "chdb").resolve()))
    raw.query("USE hedgerow")
    raw.query("SET date_time_input_format = 'best_effort'")
    raw.query("CREATE TABLE raw AS events")
    await appends(store, raw)
    stored_parts = "SELECT sum(bytes_on_disk) / sum(rows) AS each FROM system.parts WHERE active"
    own = f"{stored_parts} AND database = currentDatabase() AND table = 'events'"
    (parts,) = await store.query(own, {}, max_rows=1, timeout_s=60)
    print(f"disk: {parts['each']:.0f} bytes for each event")
    fill(raw, stored)
    raw.close()
    await store.close()
    store = open_event_store(place)
    await among_many(store, stored)
    print(f"resident memory at the end: {resident_mb():.0f} MB")
    await store.close()


def main() -> None:
    stored = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=".") as folder:
        uvloop.run(measure(Path(folder) / "events", stored))


if __name__ == "__main__":
    main()
