"""The inbox's SQL: accepted events in, events with their persons out."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from zlib import crc32

from sqlalchemy import (
    Connection,
    Integer,
    Table,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    update,
)

from hedgerow.errors import Unavailable
from hedgerow.events.model import Event, EventKey
from hedgerow.ingestion.model import Accepted, Arrived, IngestionWarning
from hedgerow.ingestion.store import (
    SETTLED_AT_ONCE,
    SETTLED_BYTES,
    STORED_AT_ONCE,
    STORED_BYTES,
    Decide,
    Ready,
    Waiting,
)
from hedgerow.lib.telling import describe_error
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.persons.known import mentioned
from hedgerow.pipelines.deliveries import NewDeliveries
from hedgerow.pipelines.transform import Tally
from hedgerow.projects.model import ProjectId
from hedgerow.storage import (
    deliveries,
    flag_calls,
    ingestion_warnings,
    person_changes,
    set_aside,
    transformation_counts,
)
from hedgerow.storage.database import Append, Database, HotRead, Rows
from hedgerow.storage.inbox_packing import (
    UNREADABLE,
    packed_arrived,
    packed_events,
    packed_whole,
    unpacked_arrived,
    unpacked_events,
    unpacked_keys,
)
from hedgerow.storage.leases import Leases
from hedgerow.storage.tables import inbox, inbox_leases, ready_events

T = TypeVar("T")

TRIES = 5
# Rows are fetched a few at a time until it is known how many are enough: each may be large.
FEW_ROWS = 8
# Tells our advisory locks from those of others in the same database.
ADVISORY = 4812

_NEW = Append(table=inbox, columns=("bucket", "project_id", "events", "number", "accepted_ms"))
# SQLAlchemy would make a parameter of it for SQLite.
_NONE = literal_column("0", Integer)
_oldest = HotRead(
    select(inbox.c.id, inbox.c.number, inbox.c.events, inbox.c.project_id)
    .where((inbox.c.bucket == bindparam("of")) & (inbox.c.id > bindparam("after")))
    .order_by(inbox.c.id)
    .limit(bindparam("most"))
    .offset(_NONE)
)
_oldest_ready = HotRead(
    select(ready_events.c.id, ready_events.c.number, ready_events.c.events)
    .where((ready_events.c.bucket == bindparam("of")) & (ready_events.c.id > bindparam("after")))
    .order_by(ready_events.c.id)
    .limit(bindparam("most"))
    .offset(_NONE)
)
_next_ready = HotRead(
    select(ready_events.c.id, ready_events.c.events)
    .where(ready_events.c.id > bindparam("last"))
    .order_by(ready_events.c.id)
    .limit(literal_column("1", Integer))
    .offset(_NONE)
)


class InboxRecords:
    """`buckets` is how many workers can share the work; one distinct id is always in the same. With
    one bucket there is one worker, and nobody to keep apart."""

    def __init__(self, database: Database, buckets: int) -> None:
        self._database = database
        self._buckets = buckets
        self._leases = Leases(database, inbox_leases)
        # How many rows were enough of late.
        self._enough: dict[HotRead, int] = {}

    async def add(
        self,
        project_id: ProjectId,
        events: Sequence[Arrived],
        warnings: Sequence[IngestionWarning],
        now: datetime,
    ) -> None:
        rows = self._rows(project_id, events, int(now.timestamp() * 1000))
        if not warnings:
            await self._database.append(_NEW, rows)
            return

        def change(connection: Connection) -> None:
            if rows:
                values = [dict(zip(_NEW.columns, row, strict=True)) for row in rows]
                connection.execute(insert(inbox), values)
            ingestion_warnings.add(connection, project_id, warnings, now)

        await self._database.write(change)

    def _rows(self, project_id: ProjectId, events: Sequence[Arrived], now_ms: int) -> Rows:
        by_bucket: dict[int, list[Arrived]] = defaultdict(list)
        if self._buckets == 1:
            by_bucket[0] = list(events)
        else:
            for event in events:
                by_bucket[crc32(event.distinct_id.encode()) % self._buckets].append(event)
        return [
            (bucket, project_id, packed, number, now_ms)
            for bucket, of_bucket in by_bucket.items()
            for start in range(0, len(of_bucket), SETTLED_AT_ONCE)
            for packed, number in packed_arrived(of_bucket[start : start + SETTLED_AT_ONCE])
        ]

    async def unsettled_buckets(self) -> Sequence[int]:
        return await self._busy(inbox)

    async def unstored_buckets(self) -> Sequence[int]:
        return await self._busy(ready_events)

    async def _busy(self, table: Table) -> Sequence[int]:
        """One question for all buckets, or idle workers would keep the database busy."""
        if self._buckets == 1:
            return (0,)
        each = func.generate_series(0, self._buckets - 1).column_valued("each")
        some = select(each).where(exists().where(table.c.bucket == each)).order_by(each)
        return await self._database.read(
            lambda connection: connection.execute(some).scalars().all()
        )

    async def oldest(self, bucket: int) -> Sequence[Accepted]:
        rows = await self._first(_oldest, bucket, SETTLED_AT_ONCE, SETTLED_BYTES)
        return [
            _accepted(id, number, packed, project_id) for id, number, packed, project_id in rows
        ]

    async def _first(
        self, read: HotRead, bucket: int, events: int, size: int
    ) -> list[tuple[Any, ...]]:
        """The first rows of a bucket, with so many events and bytes at most, but one row at
        least."""
        found: list[tuple[Any, ...]] = []
        step = self._enough.get(read, FEW_ROWS)
        while events > 0 and size > 0:
            after = found[-1][0] if found else 0
            asked = {"of": bucket, "after": after, "most": step}
            rows = await self._database.fetch(read, asked)
            for row in rows:
                # What was sent on its way again counts as nothing, and is work all the same.
                number = max(1, row[1])
                if found and (number > events or len(row[2]) > size):
                    events = 0
                    break
                found.append(row)
                events -= number
                size -= len(row[2])
            if len(rows) < step:
                break
            step *= 2
        self._enough[read] = max(FEW_ROWS, len(found) + 1)
        return found

    async def settle(
        self, bucket: int, rows: Sequence[Accepted], decide: Decide, now: datetime
    ) -> bool:
        by_project: dict[ProjectId, list[Arrived]] = defaultdict(list)
        for row in rows:
            by_project[row.project_id] += row.events
        number = sum(row.number for row in rows)
        since = min((row.events[0].accepted_at for row in rows if row.events), default=now)
        since_ms = int(since.timestamp() * 1000)

        def change(connection: Connection) -> bool:
            if self._buckets > 1 and not _is_ours(connection, bucket, rows):
                return False
            made: list[Event] = []
            tallies: list[Tally] = []
            for project_id, arrived in sorted(by_project.items()):
                known = person_changes.load(connection, project_id, mentioned(arrived))
                settled = decide(project_id, arrived, known)
                person_changes.save(connection, project_id, settled.changes, now)
                ingestion_warnings.add(connection, project_id, settled.warnings, now)
                flag_calls.count(connection, project_id, settled.flag_calls, now)
                made += settled.events
                tallies += settled.tallies
            values: list[dict[str, Any]] = [
                {"bucket": bucket, "events": packed, "number": each, "accepted_ms": since_ms}
                for packed, each in packed_events(made)
            ]
            # Those that were dropped are done with the others.
            values[-1]["number"] += number - len(made)
            connection.execute(insert(ready_events), values)
            _end(connection, rows)
            # Last, for other workers count into the same rows and wait from here on.
            transformation_counts.add(connection, tallies, now)
            return True

        for _ in range(TRIES):
            with suppress(person_changes.PersonsMoved):
                return await self._database.write(change)
        if self._buckets == 1:
            raise RuntimeError("These events contradict the persons, and nobody else moves those.")
        raise Unavailable("Persons are changed by others again and again.")

    async def ready(self, bucket: int) -> Sequence[Ready]:
        # What is there is read once the bucket is ours: before, others may be about to store it.
        if self._buckets > 1 and not (
            await self._database.fetch(_oldest_ready, {"of": bucket, "after": 0, "most": 1})
            and await self._leases.take(bucket)
        ):
            return ()
        rows = await self._first(_oldest_ready, bucket, STORED_AT_ONCE, STORED_BYTES)
        return await in_daemon_thread(partial(_ready, rows)) if rows else ()

    async def stored(self, rows: Sequence[Ready], new: NewDeliveries, now: datetime) -> None:
        ended = [row.id for row in rows if not row.rest]
        begun = [row for row in rows if row.rest]

        def change(connection: Connection) -> None:
            over = delete(ready_events).where(ready_events.c.id.in_(ended))
            # Whose end another process has brought about, its deliveries are made already.
            ids = set(connection.execute(over.returning(ready_events.c.id)).scalars())
            ids.update(row.id for row in begun if _shortened(connection, row))
            made = [each for id in sorted(ids) for each in new.get(id, ())]
            if made:
                deliveries.add(connection, made, now)

        await self._database.write(change)

    async def set_aside_accepted(
        self, bucket: int, row: Accepted, reason: str, now: datetime
    ) -> bool:
        def change(connection: Connection) -> bool:
            if self._buckets > 1 and not _is_ours(connection, bucket, [row]):
                return False
            set_aside.add_accepted(connection, bucket, row, reason, now)
            _end(connection, [row])
            if row.number:
                # Who waits for what was accepted before waits for this no longer, in its turn.
                ((nothing, _),) = packed_events([])
                done = {"bucket": bucket, "events": nothing, "number": row.number}
                done["accepted_ms"] = int(now.timestamp() * 1000)
                connection.execute(insert(ready_events), done)
            return True

        return await self._database.write(change)

    async def set_aside_ready(self, bucket: int, row: Ready, reason: str, now: datetime) -> None:
        def change(connection: Connection) -> None:
            as_read = ready_events.c.id == row.id
            # Held, so that of two who once had the same lease only one goes on.
            there = select(func.length(ready_events.c.events)).where(as_read).with_for_update()
            if connection.execute(there).scalar() != row.size:
                return
            set_aside.add_ready(connection, bucket, row, reason, now)
            if row.rest:
                _shortened(connection, row)
            else:
                connection.execute(delete(ready_events).where(as_read))

        await self._database.write(change)

    async def number_set_aside(self) -> int:
        return await self._database.read(set_aside.number)

    async def keep_leases(self) -> None:
        await self._leases.renew()

    async def let_go(self) -> None:
        await self._leases.let_go()

    async def on_the_way(self) -> Sequence[EventKey]:
        keys: list[EventKey] = []
        last = 0
        while rows := await self._database.fetch(_next_ready, {"last": last}):
            ((last, events),) = rows
            keys += unpacked_keys(events)
        return keys

    async def waiting(self) -> Waiting:
        def run(connection: Connection) -> Waiting:
            unsettled = connection.execute(select(func.sum(inbox.c.number))).scalar()
            unstored = connection.execute(select(func.sum(ready_events.c.number))).scalar()
            return Waiting(unsettled=unsettled or 0, unstored=unstored or 0)

        return await self._database.read(run)

    async def waits_since(self) -> datetime | None:
        def run(connection: Connection) -> datetime | None:
            oldest = [
                connection.execute(
                    select(table.c.accepted_ms).order_by(table.c.id).limit(1)
                ).scalar()
                for table in (inbox, ready_events)
            ]
            known = [ms for ms in oldest if ms is not None]
            return datetime.fromtimestamp(min(known) / 1000, UTC) if known else None

        return await self._database.read(run)


def _is_ours(connection: Connection, bucket: int, rows: Sequence[Accepted]) -> bool:
    """Whether nobody else settles this bucket now, or has settled these rows meanwhile."""
    lock = select(func.pg_try_advisory_xact_lock(ADVISORY, bucket))
    if not connection.execute(lock).scalar():
        return False
    size = func.sum(func.length(inbox.c.events))
    there = select(func.count(), size).where(inbox.c.id.in_([row.id for row in rows]))
    return connection.execute(there).one() == (len(rows), sum(row.size for row in rows))


def _end(connection: Connection, rows: Sequence[Accepted]) -> None:
    """Leave the rest of a row where the row was: it is the next in its order."""
    ended = [row.id for row in rows if not row.rest]
    connection.execute(delete(inbox).where(inbox.c.id.in_(ended)))
    for row in rows:
        if row.rest:
            left = {"events": packed_whole(row.rest), "number": inbox.c.number - row.number}
            connection.execute(update(inbox).where(inbox.c.id == row.id).values(left))


def _shortened(connection: Connection, row: Ready) -> bool:
    """False if another process has."""
    as_read = (ready_events.c.id == row.id) & (func.length(ready_events.c.events) == row.size)
    left = {"events": packed_whole(row.rest), "number": ready_events.c.number - row.number}
    return connection.execute(update(ready_events).where(as_read).values(left)).rowcount > 0


def _accepted(id: int, number: int, packed: bytes, project_id: ProjectId) -> Accepted:
    events, problem = _read(packed, unpacked_arrived)
    return Accepted(
        id=id,
        project_id=project_id,
        events=events,
        number=number,
        size=len(packed),
        problem=problem,
    )


def _ready(rows: Sequence[tuple[Any, ...]]) -> list[Ready]:
    made = []
    for id, number, packed in rows:
        events, problem = _read(packed, unpacked_events)
        made.append(Ready(id=id, events=events, number=number, size=len(packed), problem=problem))
    return made


def _read(packed: bytes, unpack: Callable[[bytes], Sequence[T]]) -> tuple[Sequence[T], str]:
    """The events of a row, or why they cannot be read."""
    try:
        return unpack(packed), ""
    except UNREADABLE as error:
        return (), describe_error(error)
