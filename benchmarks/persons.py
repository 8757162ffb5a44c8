"""Persons by property, a cohort and the blast radius, against SQL typed by hand into SQLite.

    python -m benchmarks.persons [PERSONS]

So many persons (200,000 by default) are stored, with a dozen properties each. A scan goes through a
worker process, as for a request. The reference is one SELECT with json_extract in this process,
which compares as SQLite does and not as flags do. Rounds alternate. The ratio is what our scan
takes by what theirs takes. Then pages of the list from the first to the last, by cursor.
"""

import asyncio
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from hedgerow.flags.evaluation.blast_radius import compile_condition
from hedgerow.flags.evaluation.snapshot import build_snapshot
from hedgerow.flags.model import FlagDefinitions
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.persons.model import PersonId
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import DatabaseLocation, open_database
from hedgerow.storage.migrations.apply import prepare_database
from hedgerow.storage.persons.person_scanner import WORKER_LIMITS, SqlPersonScanner
from hedgerow.storage.persons.persons import SqlPersonStore

PERSONS = 200_000
ROUNDS = 7
SEED = 7
NOW = datetime(2026, 1, 31, tzinfo=UTC)
PROJECT = ProjectId(1)
KEYS = InitialKeys(project_key="phc_benchmark", personal_key="phx_benchmark")
# A name, the filters, and the same condition by hand.
CASES: tuple[tuple[str, list[dict[str, Any]], str], ...] = (
    (
        "exact",
        [{"key": "plan", "value": "pro"}],
        "json_extract(properties, '$.plan') = 'pro'",
    ),
    (
        "exact and gt",
        [{"key": "plan", "value": "pro"}, {"key": "age", "value": 30, "operator": "gt"}],
        "json_extract(properties, '$.plan') = 'pro' AND json_extract(properties, '$.age') > 30",
    ),
    (
        "icontains",
        [{"key": "email", "value": "USER1", "operator": "icontains"}],
        "json_extract(properties, '$.email') LIKE '%user1%'",
    ),
    (
        "is_date_after",
        [{"key": "signed_up", "value": "2025-07-01", "operator": "is_date_after"}],
        "json_extract(properties, '$.signed_up') > '2025-07-01'",
    ),
)


def build_properties(n: int, source: random.Random) -> str:
    return json.dumps(
        {
            "email": f"user{n}@example{n % 50}.com",
            "name": f"Name {n}",
            "plan": source.choice(["free", "pro", "team"]),
            "age": source.randrange(18, 90),
            "signed_up": f"2025-{1 + n % 12:02}-{1 + n % 28:02}T10:00:00Z",
            "$geoip_city_name": "Berlin",
            "$geoip_country_code": "DE",
            "$os": "Mac OS X",
            "$browser": "Chrome",
            "$browser_version": source.randrange(90, 130),
            "$initial_referrer": "https://www.example.com/",
            "$initial_current_url": "https://example.com/landing/page?utm_source=x",
        }
    )


def fill(path: Path, count: int) -> None:
    source = random.Random(SEED)
    with sqlite3.connect(path) as database:
        database.executemany(
            "INSERT INTO persons (id, project_id, uuid, properties, is_identified, created_at,"
            " updated_at) VALUES (?, 1, ?, ?, false, '2026-01-01', '2026-01-01')",
            (
                (n, str(UUID(int=source.getrandbits(128))), build_properties(n, source))
                for n in range(1, count + 1)
            ),
        )
        database.execute(
            "INSERT INTO person_distinct_ids (project_id, distinct_id, person_id)"
            " SELECT 1, 'user-' || id, id FROM persons"
        )


async def measure(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def compare(scanner: SqlPersonScanner, raw: sqlite3.Connection) -> None:
    definitions = FlagDefinitions(
        generation=1, flags=(), cohorts=(), group_types={}, timezone="UTC"
    )
    query = PersonQuery(project_id=PROJECT)
    for name, filters, condition in CASES:
        compiled = compile_condition(
            build_snapshot(definitions), {"properties": filters}, None, NOW
        )
        by_hand = f"SELECT count(*) FROM persons WHERE project_id = 1 AND {condition}"
        ours, theirs = [], []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            [expected] = raw.execute(by_hand).fetchone()
            theirs.append(time.perf_counter() - started)
            started = time.perf_counter()
            found = await scanner.scan_persons(query, compiled)
            ours.append(time.perf_counter() - started)
            assert found.matching == expected, (name, found.matching, expected)
        our_s, their_s = statistics.median(ours), statistics.median(theirs)
        print(
            f"{name:14} {our_s * 1000:7.0f} ms, by hand {their_s * 1000:7.0f} ms,"
            f" ratio {our_s / their_s:.2f}"
        )


async def walk(persons: SqlPersonStore, count: int) -> None:
    for page in (0, count // 200, count // 100 - 1):
        position = PersonId(count - page * 100 + 1)
        query = PersonQuery(project_id=PROJECT, limit=101, older_than=position, count=count)
        taken = [await measure(lambda: persons.persons(query)) for _ in range(ROUNDS)]  # noqa: B023
        print(f"page {page + 1:5} {statistics.median(taken) * 1000:7.1f} ms")


async def run(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = DatabaseLocation(url="", path=Path(folder) / "hedgerow.db", timeout_s=20)
        prepare_database(place, KEYS, lambda: NOW)
        fill(place.path, count)
        workers = FunctionPool(WORKER_LIMITS)
        database = open_database(place)
        try:
            await compare(SqlPersonScanner(place, workers), sqlite3.connect(place.path))
            await walk(SqlPersonStore(database), count)
        finally:
            workers.close()
            await database.close()


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1]) if len(sys.argv) > 1 else PERSONS))
