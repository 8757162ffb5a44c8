"""The inbox: captured events wait here for processing, processed events for the event store."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import (
    Connection,
    Integer,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    text,
    update,
)

from hedgerow.errors import Unavailable
from hedgerow.events.model import Event, EventKey
from hedgerow.ingestion.model import (
    CapturedEvent,
    InboxRow,
    IngestionWarning,
    PackedRow,
    ProcessedRow,
)
from hedgerow.ingestion.persons.loaded_state import collect_references
from hedgerow.ingestion.store import (
    PROCESS_BATCH_BYTES,
    PROCESS_BATCH_EVENTS,
    STORE_BATCH_BYTES,
    STORE_BATCH_EVENTS,
    InboxBacklog,
    InboxPositions,
    InboxStore,
    InboxWork,
    PendingQuery,
    ProcessRows,
)
from hedgerow.lib.text import describe_error
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.deliveries.model import NewDeliveries
from hedgerow.pipelines.transformations.chain import TransformationCounts
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries.new_deliveries import add_deliveries
from hedgerow.storage.engine import bulk, generations
from hedgerow.storage.engine.database import Database, PreparedInsert, PreparedQuery
from hedgerow.storage.flags import calls
from hedgerow.storage.ingestion import (
    dead_letters,
    inbox_state,
    ingestion_warnings,
    unprocessed_ids,
)
from hedgerow.storage.ingestion import unrouted as unrouted_events
from hedgerow.storage.ingestion.bucket_leases import BucketLeases
from hedgerow.storage.ingestion.inbox_packing import (
    DECODE_ERRORS,
    pack_captured,
    pack_processed,
    pack_single_row,
    unpack_captured,
    unpack_changed_names,
    unpack_keys,
    unpack_processed,
)
from hedgerow.storage.ingestion.inbox_state import build_positions_query
from hedgerow.storage.ingestion.waiting_rows import BatchLimits, WaitingRows
from hedgerow.storage.persons import behaviors, changes
from hedgerow.storage.pipelines import transformation_counts
from hedgerow.storage.projects.deletions import fetch_deleted, read_deleted
from hedgerow.storage.tables.ingestion import inbox, ready_events

T = TypeVar("T")

MAX_ATTEMPTS = 5
READERS_TOPIC = "readers"
# Stands for all buckets of processed events in the result of a query.
READY_BUCKETS = -1
# Processed events wait in fewer buckets than captured ones: a batch of one event costs the event
# store about as much as one of a thousand.
STORE_BUCKETS = 4
# Distinguish these advisory locks from others in the same database.
ADVISORY_LOCK_CLASS, STORE_LOCK_CLASS = 4812, 4813

_INSERT_INBOX = PreparedInsert(
    table=inbox, columns=("bucket", "project_id", "events", "number", "accepted_ms")
)
# A literal: SQLAlchemy would use a bound parameter on SQLite.
_ZERO = literal_column("0", Integer)
_select_ready_sizes = PreparedQuery(
    select(ready_events.c.id, ready_events.c.number, func.length(ready_events.c.events))
    .where(
        (ready_events.c.bucket == bindparam("bucket")) & (ready_events.c.id > bindparam("after"))
    )
    .order_by(ready_events.c.id)
    .limit(bindparam("limit"))
    .offset(_ZERO)
)
_select_ready_until = PreparedQuery(
    select(
        ready_events.c.id, ready_events.c.number, ready_events.c.events, ready_events.c.project_id
    )
    .where(
        (ready_events.c.bucket == bindparam("bucket")) & (ready_events.c.id <= bindparam("last"))
    )
    .order_by(ready_events.c.id)
)
_select_next_ready = PreparedQuery(
    select(ready_events.c.id, ready_events.c.events)
    .where(ready_events.c.id > bindparam("last"))
    .order_by(ready_events.c.id)
    .limit(literal_column("1", Integer))
    .offset(_ZERO)
)

_FIRST_ROWS = """
SELECT bucket, first
FROM generate_series(0, CAST(:last AS int)) AS bucket
CROSS JOIN LATERAL (SELECT min(id) AS first FROM {table} AS t WHERE t.bucket = bucket.bucket) AS f
WHERE first IS NOT NULL
"""
# All buckets, and both tables, in one query: an idle worker repeats it all the time.
_select_work = PreparedQuery(
    text(f"""
{_FIRST_ROWS.format(table="inbox")}
UNION ALL SELECT {READY_BUCKETS}, min(id) FROM ready_events HAVING min(id) IS NOT NULL
ORDER BY bucket
""")  # noqa: S608 - our own names
)
_select_ready_buckets = PreparedQuery(
    text(_FIRST_ROWS.format(table="ready_events") + " ORDER BY bucket")
)
# Two snapshots are equal only if no transaction that changed something ended between them.
_select_state = PreparedQuery(
    text(
        "SELECT CAST(pg_current_snapshot() AS text) WHERE NOT EXISTS (SELECT 1 FROM inbox)"
        " AND NOT EXISTS (SELECT 1 FROM ready_events)"
    )
)
_select_oldest = PreparedQuery(
    select(
        *(
            select(table.c.accepted_ms)
            .order_by(table.c.id)
            .limit(literal_column("1", Integer))
            .offset(_ZERO)
            .scalar_subquery()
            for table in (inbox, ready_events)
        )
    )
)


class SqlInboxStore(InboxStore):
    """Workers share the work by bucket; all events of a distinct id are in the same bucket. With
    one bucket there is a single worker and no locking."""

    def __init__(self, database: Database, buckets: int) -> None:
        self._database = database
        self._buckets = buckets
        self._is_shared = buckets > 1 and database.engine_name == "postgresql"
        self._leases = BucketLeases(database, buckets)
        self._behaviors = behaviors.TrackedBehaviors()
        self._waiting = WaitingRows(database, inbox)
        self._ready = WaitingRows(database, ready_events)
        self._positions_of_project = build_positions_query(buckets, min(buckets, STORE_BUCKETS))

    @property
    def bucket_count(self) -> int:
        return self._buckets

    async def add(
        self,
        project_id: ProjectId,
        events: Sequence[CapturedEvent],
        warnings: Sequence[IngestionWarning],
        now: datetime,
    ) -> None:
        rows = list(pack_captured(events, self._buckets))
        await self.add_packed(project_id, rows, warnings, now)

    async def add_packed(
        self,
        project_id: ProjectId,
        rows: Sequence[PackedRow],
        warnings: Sequence[IngestionWarning],
        now: datetime,
    ) -> None:
        now_ms = int(now.timestamp() * 1000)
        values = [(row.bucket, project_id, row.events, row.number, now_ms) for row in rows]
        if self._is_shared:
            keyed = [(*each, row.keys) for each, row in zip(values, rows, strict=True)]
            if keyed:
                await self._database.append(unprocessed_ids.INSERT_ROWS, keyed)
            await self._add_warnings(project_id, warnings, now)
            return
        if not warnings:
            await self._database.append(_INSERT_INBOX, values)
            return

        def change(connection: Connection) -> None:
            if values:
                named = [dict(zip(_INSERT_INBOX.columns, each, strict=True)) for each in values]
                connection.execute(insert(inbox), named)
            ingestion_warnings.add_warnings(connection, project_id, warnings, now)

        await self._database.write(change)

    async def _add_warnings(
        self, project_id: ProjectId, warnings: Sequence[IngestionWarning], now: datetime
    ) -> None:
        if warnings:
            await self._database.write(
                lambda connection: ingestion_warnings.add_warnings(
                    connection, project_id, warnings, now
                )
            )

    async def find_work(self) -> InboxWork:
        rows = await self._database.fetch(_select_work, {"last": self._buckets - 1})
        first_rows = dict(rows)
        unstored = first_rows.pop(READY_BUCKETS, None)
        return InboxWork(unprocessed=first_rows, has_unstored=unstored is not None)

    async def unstored_buckets(self) -> Sequence[int]:
        if self._buckets == 1:
            return (0,)
        await self._leases.balance()
        rows = await self._database.fetch(_select_ready_buckets, {"last": self._buckets - 1})
        return [bucket for bucket, _ in rows if self.is_assigned(bucket)]

    def is_assigned(self, bucket: int) -> bool:
        return self._buckets == 1 or self._leases.is_assigned(bucket)

    async def fetch_unprocessed(
        self, bucket: int, max_events: int = PROCESS_BATCH_EVENTS
    ) -> Sequence[InboxRow]:
        limits = BatchLimits(events=max_events, size=PROCESS_BATCH_BYTES)
        rows = await self._waiting.fetch(bucket, limits)
        return [
            decode_inbox_row(id, number, packed, project_id)
            for id, number, packed, project_id in rows
        ]

    async def process(
        self, bucket: int, rows: Sequence[InboxRow], process: ProcessRows, now: datetime
    ) -> bool:
        by_project: dict[ProjectId, list[CapturedEvent]] = defaultdict(list)
        numbers: dict[ProjectId, int] = defaultdict(int)
        for row in rows:
            by_project[row.project_id] += row.events
            numbers[row.project_id] += row.number
        since = min((row.events[0].accepted_at for row in rows if row.events), default=now)
        since_ms = int(since.timestamp() * 1000)

        def change(connection: Connection) -> bool:
            if self._buckets > 1 and not self._lock_rows(connection, bucket, rows):
                return False
            ready: list[dict[str, Any]] = []
            counts: list[TransformationCounts] = []
            deleted = read_deleted(connection, list(by_project))
            for project_id, events in sorted(by_project.items()):
                if project_id in deleted:
                    ready += _build_ready_rows(project_id, (), numbers[project_id], since_ms)
                    continue
                references = collect_references(events)
                state = changes.load_state(connection, project_id, references, self._behaviors.read)
                result = process(project_id, events, state)
                changes.save_changes(connection, project_id, result.changes, now)
                behaviors.save_occurrences(
                    connection, project_id, result.occurrences, state.behaviors, now
                )
                ingestion_warnings.add_warnings(connection, project_id, result.warnings, now)
                calls.add_calls(connection, project_id, result.flag_calls, now)
                for each in result.rejected:
                    lone = InboxRow(id=0, project_id=project_id, events=[each.event], number=1)
                    dead_letters.add_inbox_row(connection, bucket, lone, each.reason, now)
                counts += result.transformation_counts
                ready += _build_ready_rows(project_id, result.events, numbers[project_id], since_ms)
            self._add_ready_rows(connection, bucket, ready)
            self._remove_processed(connection, bucket, rows)
            # Last, because other workers update the same rows and wait from here on.
            transformation_counts.add_counts(connection, counts, now)
            return True

        for _ in range(MAX_ATTEMPTS):
            with suppress(changes.ConcurrentPersonChangeError):
                return await self._database.write(change)
        if self._buckets == 1:
            raise RuntimeError("The events conflict with the stored persons.")
        raise Unavailable("Other workers keep changing the same persons. Try again shortly.")

    async def fetch_processed(self, bucket: int) -> Sequence[ProcessedRow]:
        limits = BatchLimits(events=STORE_BATCH_EVENTS, size=STORE_BATCH_BYTES)
        if self._buckets == 1:
            rows = await self._ready.fetch(bucket, limits)
        else:
            # In their order: a lease names the last row of a batch.
            params = {"bucket": bucket, "after": 0}
            batch = (await self._ready.fetch_first(_select_ready_sizes, params, limits)).rows
            last = await self._leases.acquire(bucket, batch[-1][0]) if batch else None
            if last is None:
                return ()
            # Read the rows after acquiring the lease: before, another worker may be storing them.
            rows = await self._database.fetch(_select_ready_until, {"bucket": bucket, "last": last})
        if not rows:
            return ()
        deleted = await fetch_deleted(self._database)
        return await run_in_thread(partial(_decode_ready_rows, rows, deleted))

    def is_held(self, bucket: int) -> bool:
        return self._buckets == 1 or self._leases.is_held(bucket)

    async def mark_stored(
        self,
        rows: Sequence[ProcessedRow],
        new: NewDeliveries,
        now: datetime,
        unrouted: Sequence[ProcessedRow] = (),
    ) -> None:
        ended = [row.id for row in rows if not row.rest]
        begun = [row for row in rows if row.rest]
        changed = {event.project_id for row in rows for event in row.events}

        def change(connection: Connection) -> None:
            over = "DELETE FROM ready_events WHERE id IN ({numbers}) RETURNING id"
            # If another process deleted the row, it has created the deliveries already.
            ids = {id for (id,) in bulk.select(connection, over, ended)}
            ids.update(row.id for row in begun if _keep_remainder(connection, row))
            add_deliveries(
                connection, [each for id in sorted(ids) for each in new.get(id, ())], now
            )
            unrouted_events.add_rows(connection, [row for row in unrouted if row.id in ids])
            generations.advance_events(connection, changed)

        await self._database.write(change)

    async def list_unrouted_projects(self) -> set[ProjectId]:
        return await unrouted_events.list_projects(self._database)

    async def count_unrouted(self) -> Mapping[ProjectId, int]:
        return await unrouted_events.count_events(self._database)

    async def fetch_unrouted(self, project_id: ProjectId) -> Sequence[ProcessedRow]:
        rows = await unrouted_events.fetch_first(self._database, project_id)
        deleted = await fetch_deleted(self._database)
        return await run_in_thread(partial(_decode_ready_rows, rows, deleted))

    async def mark_routed(
        self, rows: Sequence[ProcessedRow], new: NewDeliveries, now: datetime
    ) -> None:
        def change(connection: Connection) -> None:
            ids = sorted(unrouted_events.remove_rows(connection, rows))
            add_deliveries(connection, [each for id in ids for each in new.get(id, ())], now)

        await self._database.write(change)

    async def dead_letter_unprocessed(
        self, bucket: int, row: InboxRow, reason: str, now: datetime
    ) -> bool:
        def change(connection: Connection) -> bool:
            if self._buckets > 1 and not self._lock_rows(connection, bucket, [row]):
                return False
            self._add_dead_letter(connection, bucket, row, reason, now)
            self._remove_processed(connection, bucket, [row])
            if row.number:
                # Release the read barrier for these events, in their order.
                accepted_ms = int(now.timestamp() * 1000)
                done = _build_ready_rows(row.project_id, (), row.number, accepted_ms)
                self._add_ready_rows(connection, bucket, done)
            return True

        return await self._database.write(change)

    async def dead_letter_processed(
        self, bucket: int, row: ProcessedRow, reason: str, now: datetime
    ) -> None:
        def change(connection: Connection) -> None:
            as_read = ready_events.c.id == row.id
            # Locked, so that of two workers that held the same lease only one continues.
            there = select(func.length(ready_events.c.events)).where(as_read).with_for_update()
            if connection.execute(there).scalar() != row.size:
                return
            dead_letters.add_ready_row(connection, bucket, row, reason, now)
            if row.rest:
                _keep_remainder(connection, row)
            else:
                connection.execute(delete(ready_events).where(as_read))

        await self._database.write(change)

    def _add_ready_rows(
        self, connection: Connection, bucket: int, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Add what became of the events of a bucket. Rows that wait together appear in the order of
        their ids: a worker that takes over finds the same batch up to a row."""
        if self._is_shared:
            lock = func.pg_advisory_xact_lock(STORE_LOCK_CLASS, bucket % STORE_BUCKETS)
            connection.execute(select(lock))
        values = [{"bucket": bucket % STORE_BUCKETS, **row} for row in rows]
        connection.execute(insert(ready_events), values)

    def _add_dead_letter(
        self, connection: Connection, bucket: int, row: InboxRow, reason: str, now: datetime
    ) -> None:
        dead_letters.add_inbox_row(connection, bucket, row, reason, now)

    def _lock_rows(self, connection: Connection, bucket: int, rows: Sequence[InboxRow]) -> bool:
        """Lock the bucket. Return False if another worker holds it or has processed these rows."""
        if not lock_bucket(connection, bucket):
            return False
        there = "SELECT count(*), sum(length(events)) FROM inbox WHERE id IN ({numbers})"
        found = bulk.select(connection, there, [row.id for row in rows])
        return found == [(len(rows), sum(row.size for row in rows))]

    def _remove_processed(
        self, connection: Connection, bucket: int, rows: Sequence[InboxRow]
    ) -> None:
        """Delete processed rows. The unprocessed rest of a row stays in place, so order is kept."""
        ended = [row.id for row in rows if not row.rest]
        if self._is_shared:
            unprocessed_ids.remove_rows(connection, ended)
        else:
            bulk.execute(connection, "DELETE FROM inbox WHERE id IN ({numbers})", ended)
        for row in rows:
            if row.rest:
                left = {"events": pack_single_row(row.rest), "number": inbox.c.number - row.number}
                connection.execute(update(inbox).where(inbox.c.id == row.id).values(left))

    async def count_dead_letters(self) -> int:
        return await self._database.read(dead_letters.count_events)

    async def renew_leases(self) -> None:
        await self._leases.renew()

    async def release_leases(self) -> None:
        await self._leases.release()

    async def list_pending_keys(self) -> Sequence[EventKey]:
        keys: list[EventKey] = []
        last = 0
        while rows := await self._database.fetch(_select_next_ready, {"last": last}):
            ((last, events),) = rows
            keys += unpack_keys(events)
        return keys

    async def list_unprocessed_names(self) -> Mapping[ProjectId, Mapping[str, int]]:
        names: dict[ProjectId, dict[str, int]] = defaultdict(dict)
        numbers: dict[ProjectId, int] = defaultdict(int)
        last = 0
        limits = BatchLimits(events=PROCESS_BATCH_EVENTS, size=PROCESS_BATCH_BYTES)
        while rows := await self._waiting.fetch_after(0, last, limits):
            for _, events_of_row, packed, project_id in rows:
                numbers[project_id] += events_of_row
                changed = unpack_changed_names(packed)
                names[project_id].update(dict.fromkeys(changed, numbers[project_id]))
            last = rows[-1][0]
            # Requests have their turns: on SQLite nothing else here yields.
            await asyncio.sleep(0)
        return names

    async def count_backlog(self) -> InboxBacklog:
        return await inbox_state.count_backlog(self._database)

    @property
    def has_stream(self) -> bool:
        return False

    async def find_accepted(self, query: PendingQuery, timeout_s: float) -> int:
        raise NotImplementedError

    async def has_unprocessed(self) -> bool:
        return False

    async def close(self) -> None:
        """Nothing is open."""

    async def find_unprocessed(self, queries: Sequence[PendingQuery]) -> Sequence[Sequence[int]]:
        return await unprocessed_ids.find_buckets(self._database, queries)

    async def fetch_positions(self, project_id: ProjectId | None = None) -> InboxPositions:
        return await inbox_state.fetch_positions(
            self._database, self._positions_of_project, project_id
        )

    async def fetch_state(self) -> str | None:
        rows = await self._database.fetch(_select_state, {})
        return rows[0][0] if rows else None

    async def announce_reader(self) -> None:
        await self._database.write(
            lambda connection: generations.advance(connection, READERS_TOPIC, notifies=False)
        )

    async def fetch_reader_announcement(self) -> int:
        return await generations.fetch_generation(self._database, READERS_TOPIC)

    async def oldest_accepted_at(self) -> datetime | None:
        (oldest,) = await self._database.fetch(_select_oldest, {})
        known = [ms for ms in oldest if ms is not None]
        return datetime.fromtimestamp(min(known) / 1000, UTC) if known else None


def lock_bucket(connection: Connection, bucket: int) -> bool:
    """Lock a bucket until the end of the transaction. Return False if another worker holds it."""
    lock = select(func.pg_try_advisory_xact_lock(ADVISORY_LOCK_CLASS, bucket))
    return bool(connection.execute(lock).scalar())


def _keep_remainder(connection: Connection, row: ProcessedRow) -> bool:
    """Replace a row by its unprocessed rest. Return False if another process did so already."""
    as_read = (ready_events.c.id == row.id) & (func.length(ready_events.c.events) == row.size)
    left = {"events": pack_single_row(row.rest), "number": ready_events.c.number - row.number}
    return connection.execute(update(ready_events).where(as_read).values(left)).rowcount > 0


def decode_inbox_row(id: int, number: int, packed: bytes, project_id: ProjectId) -> InboxRow:
    events, problem = _unpack_or_explain(packed, unpack_captured)
    return InboxRow(
        id=id,
        project_id=project_id,
        events=events,
        number=number,
        size=len(packed),
        problem=problem,
    )


def _build_ready_rows(
    project_id: ProjectId, events: Sequence[Event], number: int, accepted_ms: int
) -> list[dict[str, Any]]:
    """Return the rows with the processed events of a project. `number` counts those, too, that were
    dropped: they are stored together with the others."""
    made: list[dict[str, Any]] = [
        {"project_id": project_id, "events": packed, "number": each, "accepted_ms": accepted_ms}
        for packed, each in pack_processed(events)
    ]
    made[-1]["number"] += number - len(events)
    return made


def _decode_ready_rows(
    rows: Sequence[tuple[Any, ...]], deleted: Container[ProjectId]
) -> list[ProcessedRow]:
    """Decode rows, without the events of deleted projects."""
    made = []
    for id, number, packed, project_id in rows:
        events, problem = _unpack_or_explain(packed, unpack_processed)
        events = [event for event in events if event.project_id not in deleted]
        made.append(
            ProcessedRow(
                id=id,
                project_id=project_id,
                events=events,
                number=number,
                size=len(packed),
                problem=problem,
            )
        )
    return made


def _unpack_or_explain(
    packed: bytes, unpack: Callable[[bytes], Sequence[T]]
) -> tuple[Sequence[T], str]:
    """Return the events of a row, or why they cannot be decoded."""
    try:
        return unpack(packed), ""
    except DECODE_ERRORS as error:
        return (), describe_error(error)
