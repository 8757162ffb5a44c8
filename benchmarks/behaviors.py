"""What behavioral filters of cohorts cost per processed event, with 0, 10 and 100 of them in use:
on SQLite, in batches as they are processed, as a multiple of the time without any. Time of the
processor.

`same` filters are all on the event that is sent, with different conditions; of `other` filters one
is. Every event belongs to `matching` of them. `/decide` reads and evaluates all filters.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, insert

from benchmarks.person_changes import NOW, PAGE, PROJECT, nowhere
from hedgerow.ingestion.behavior_stage import BehaviorStage
from hedgerow.ingestion.model import CapturedEvent
from hedgerow.ingestion.persons.loaded_state import collect_references
from hedgerow.ingestion.persons.process import process_batch
from hedgerow.persons.behaviors.filters import parse_behavioral_filter
from hedgerow.persons.behaviors.matcher import build_definition
from hedgerow.persons.behaviors.membership import matches_behavior
from hedgerow.persons.behaviors.times import NEVER, unpack_occurrences
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine, open_database
from hedgerow.storage.flags.evaluation_context import SqlEvaluationDataStore
from hedgerow.storage.migrations.apply import prepare_database
from hedgerow.storage.persons.behaviors import TrackedBehaviors, save_occurrences
from hedgerow.storage.persons.changes import load_state, save_changes
from hedgerow.storage.tables import behaviors as table

EVENTS = 10_000
LATER = NOW + timedelta(days=1)
BATCH = 500
ROUNDS = 3
READS = 2_000


def build_filter(number: int, *, same: bool, matching: int) -> dict[str, Any]:
    """The first `matching` filters match every event."""
    path = "/pricing" if number < matching else f"/other/{number}"
    return {
        "type": "behavioral",
        "value": "performed_event_multiple",
        "event_type": "events",
        "key": "$pageview" if same or not number else f"event {number}",
        "operator": "gte",
        "operator_value": 3,
        "time_value": 30,
        "time_interval": "day",
        "event_filters": [
            {"key": "$pathname", "operator": "exact", "value": [path, f"/{number}"]},
        ],
    }


def build_event(number: int) -> CapturedEvent:
    return CapturedEvent(
        uuid=str(UUID(int=number + 1)),
        event="$pageview",
        distinct_id=f"id-{number % 2000}",
        properties=dict(PAGE),
        timestamp=NOW + timedelta(seconds=number),
        accepted_at=NOW,
        ip="192.0.2.1",
    )


def add_behaviors(connection: Connection, filters: Sequence[dict[str, Any]]) -> None:
    for filter in filters:
        event = parse_behavioral_filter(filter).event
        row = {
            "project_id": PROJECT,
            "reference": event.reference,
            "definition": build_definition(event, ()),
            "depth": event.depth,
            "state": "ready",
            "done": 1,
            "total": 1,
            "cursor": "",
            "created_at": NOW,
        }
        connection.execute(insert(table), row)


def process(connection: Connection) -> float:
    """Return the time per event in microseconds."""
    tracked, stage = TrackedBehaviors(), BehaviorStage()
    best = float("inf")
    for round in range(ROUNDS):
        events = [build_event(round * EVENTS + number) for number in range(EVENTS)]
        started = time.process_time()
        for first in range(0, len(events), BATCH):
            batch = events[first : first + BATCH]
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            state = load_state(connection, PROJECT, collect_references(batch), tracked.read)
            result = process_batch(PROJECT, state, batch, nowhere)
            save_changes(connection, PROJECT, result.changes, NOW)
            found = stage.find_occurrences(state.behaviors, result)
            save_occurrences(connection, PROJECT, found, state.behaviors, LATER)
            connection.exec_driver_sql("COMMIT")
        best = min(best, time.process_time() - started)
    return best / len(events) * 1e6


def measure(filters: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Return the time per processed event, and per `/decide` for what it reads in addition."""
    with TemporaryDirectory() as folder:
        place = DatabaseLocation(url="", path=Path(folder) / "hedgerow.db", timeout_s=5)
        keys = InitialKeys(project_key="phc_a-project-key-for-this", personal_key="phx_a-key")
        prepare_database(place, keys, lambda: NOW)
        with create_sync_engine(place).connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            add_behaviors(connection, filters)
            connection.exec_driver_sql("COMMIT")
            per_event = process(connection)
        return per_event, asyncio.run(measure_reads(place, filters))


async def measure_reads(place: DatabaseLocation, filters: Sequence[dict[str, Any]]) -> float:
    database = open_database(place)
    store = SqlEvaluationDataStore(database)
    parsed = [parse_behavioral_filter(each) for each in filters]
    now = datetime.now(UTC)
    spent = {}
    for is_read in (False, True):
        started = time.process_time()
        for number in range(READS):
            data = await store.load(
                PROJECT, f"id-{number % 2000}", {}, cohorts=False, hash_keys=False,
                behaviors=is_read,
            )  # fmt: skip
            if is_read:
                for id, filter in enumerate(parsed, 1):
                    times = unpack_occurrences((data.behaviors or {}).get(id, ()))
                    matches_behavior(filter, times, NEVER, now)
        spent[is_read] = time.process_time() - started
    await database.close()
    return (spent[True] - spent[False]) / READS * 1e6


def main() -> None:
    base, _ = measure([])
    print(f"no behavioral filter:                  {base:6.1f} us an event")
    for count in (10, 100):
        for same, matching in ((False, 1), (True, 1), (True, 10)):
            filters = [
                build_filter(number, same=same, matching=matching) for number in range(count)
            ]
            per_event, per_read = measure(filters)
            kind = "same" if same else "other"
            print(
                f"{count:3} on {kind:<5} events, {matching:2} matching:"
                f" {per_event:6.1f} us an event, "
                f"{per_event / base:4.2f} times; /decide {per_read:6.1f} us more"
            )


if __name__ == "__main__":
    main()
