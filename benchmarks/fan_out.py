"""Events of one project with many destinations: what creating and ending their deliveries takes.

    python -m benchmarks.fan_out [--destinations 100] [--events 2000] [--bytes 700]

Creates the deliveries as the worker does, in parts, then takes all of them from the queues as
delivered, and deletes the events. Prints the seconds of the database's writer, the longest
transaction, for which other writers wait, and the size of the database. Compare with the size of
the events: a destination should add no more than 200 bytes to each event.
"""

import argparse
import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, text

from benchmarks.deliver import build_event
from hedgerow.events.model import Event
from hedgerow.ingestion.store import FAN_OUT_BYTES, FAN_OUT_EVENTS
from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.deliveries.model import DeliveryReport, NewDelivery
from hedgerow.pipelines.deliveries.retry import NOT_PAUSED
from hedgerow.pipelines.model import RecordId
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.storage.connect import DatabaseLocation, open_database
from hedgerow.storage.deliveries.new_deliveries import add_deliveries
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.engine.database import Database
from hedgerow.storage.migrations.apply import prepare_database

ROUND_SIZE = 200
T = TypeVar("T")
_ADD_RECORD = text(
    "INSERT INTO pipeline_records (id, project_id, family, component_id, component_version,"
    ' enabled, "order", name, description, deleted, config, web_token, created_at, updated_at)'
    " VALUES (:id, 1, 'destination', 1, '1', TRUE, :id, '', '', FALSE, '{}', '',"
    " '2026-01-02 03:04:05', '2026-01-02 03:04:05')"
)


@dataclass(slots=True)
class Writer:
    """Measures transactions."""

    database: Database
    seconds: list[float] = field(default_factory=list)

    async def write(self, change: Callable[[Connection], T]) -> T:
        def measure(connection: Connection) -> T:
            began = time.perf_counter()
            try:
                return change(connection)
            finally:
                self.seconds.append(time.perf_counter() - began)

        return await self.database.write(measure)

    def report(self, name: str) -> None:
        print(
            f"  {name:<10} {sum(self.seconds):>8.2f} s in {len(self.seconds):>6,} transactions,"
            f" the longest {max(self.seconds) * 1000:>8.1f} ms"
        )
        self.seconds.clear()


def build_events(number: int, size: int) -> list[Event]:
    padding = "x" * max(0, size - len(build_event(0).properties))
    return [
        msgspec.structs.replace(each, properties=each.properties[:-1] + f', "text": "{padding}"}}')
        for each in map(build_event, range(number))
    ]


def split(events: Sequence[Event], size: int) -> list[Sequence[Event]]:
    step = max(1, min(FAN_OUT_EVENTS, FAN_OUT_BYTES // size))
    return [events[start : start + step] for start in range(0, len(events), step)]


async def measure(data: Path, destinations: int, number: int, size: int) -> None:
    place = DatabaseLocation(url="", path=data / "hedgerow.db", timeout_s=20)
    keys = InitialKeys(project_key="phc_benchmark", personal_key="phx_benchmark")
    prepare_database(place, keys, utc_now)
    database = open_database(place)
    ids = [RecordId(id) for id in range(1, destinations + 1)]
    await database.write(lambda c: [c.execute(_ADD_RECORD, {"id": id}) for id in ids] and None)
    before = measure_size(data)
    events = build_events(number, size)
    writer = Writer(database)
    for part in split(events, size):
        made = [NewDelivery(event=event, record_ids=ids) for event in part]
        await writer.write(lambda c, made=made: add_deliveries(c, made, utc_now()))  # type: ignore[misc]
    print(f"{number:,} events of {size:,} bytes, {destinations} destinations")
    writer.report("created")
    bytes_of_events = sum(len(each.properties) for each in events)
    grown = measure_size(data) - before
    each = (grown - bytes_of_events) / (number * destinations)
    print(f"  {grown / 1e6:,.1f} MB for {bytes_of_events / 1e6:,.1f} MB of events;")
    print(f"  {each:.1f} bytes for each delivery besides the event")
    await deliver(database, writer, ids)
    writer.report("ended")
    await database.close()


async def deliver(database: Database, writer: Writer, ids: Sequence[RecordId]) -> None:
    measured: Any = MeasuredDatabase(database, writer)
    store = SqlDeliveryStore(measured)
    for id in ids:
        while due := await store.due(id, ROUND_SIZE, 2**60):
            report = DeliveryReport(record_id=id, pause_state=NOT_PAUSED)
            report.delivered += [each.id for each in due]
            await store.save_report(report, utc_now())
    await store.delete_delivered()


class MeasuredDatabase:
    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self.write = writer.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


def measure_size(data: Path) -> int:
    """Return the size of the database with what the write-ahead log still holds."""
    with closing(sqlite3.connect(data / "hedgerow.db")) as connection:
        pages, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "page_size")
        )
    return int(pages * size)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.fan_out")
    parser.add_argument("--destinations", type=int, default=100)
    parser.add_argument("--events", type=int, default=2_000)
    parser.add_argument("--bytes", type=int, default=700)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as data:
        asyncio.run(measure(Path(data), given.destinations, given.events, given.bytes))


if __name__ == "__main__":
    main()
