"""Events in ClickHouse: appended in blocks, each uuid once for a project, deleted at once."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
from clickhouse_connect.driver.client import Client

from hedgerow.errors import Invalid, Unready
from hedgerow.events.delete import Chosen
from hedgerow.events.model import Event, EventKey
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.model import ProjectId
from hedgerow.storage import mirror_schema
from hedgerow.storage.clickhouse import INSERT_S, ClickHouse, rows_of
from hedgerow.storage.events_schema import COLUMNS, SHARD_TABLE, TABLE, single_ddl
from hedgerow.storage.uuid_memory import UUID_BYTES, UuidMemory

# What one statement carries: a server takes no field of a form beyond 128 KiB.
IDS_AT_ONCE = 2_500
BLOCK_BYTES = 32 << 20
# Above this many parts, a month is merged at our own request.
MAX_PARTS = 50

# How much of the stored uuids is read at a time when they are learnt.
LEARNING_BYTES = UUID_BYTES << 18

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

Item = TypeVar("Item")


class EventRecords:
    def __init__(self, engine: ClickHouse) -> None:
        self._engine = engine
        # Only who is alone with the events may rely on a memory of them.
        self._memory: UuidMemory | None = None
        # A thread goes on when its caller is cancelled, so it is the threads that take turns.
        self._changing = threading.Lock()
        self._encoder = msgspec.json.Encoder()
        self._layout: _Layout | None = None

    async def prepare(self) -> None:
        """Make the tables. The first call of any kind would do it too."""
        await in_daemon_thread(lambda: self._rows("SELECT 1", {}))

    async def learn(self) -> None:
        """Read what has to be known of the stored events. The first append would do it too."""
        await in_daemon_thread(self._learn)

    async def append(self, events: Sequence[Event]) -> int:
        return await in_daemon_thread(partial(self._append, events)) if events else 0

    async def acceptances(self, keys: Sequence[EventKey]) -> Mapping[EventKey, datetime]:
        return await in_daemon_thread(partial(self._acceptances, keys)) if keys else {}

    async def delete(
        self,
        project_id: ProjectId,
        *,
        uuids: Sequence[str] = (),
        distinct_ids: Sequence[str] = (),
        event: str = "",
        before: datetime | None = None,
    ) -> int:
        if not (uuids or distinct_ids or event or before):
            raise Invalid("Say which events to delete.")
        chosen = _conditions(project_id, uuids, distinct_ids, event, before)
        return await in_daemon_thread(lambda: sum(map(self._delete, chosen)))

    async def count(self, project_id: ProjectId, chosen: Chosen) -> int:
        """How many events something holds for."""
        conditions = _conditions(
            project_id, chosen.uuids, chosen.distinct_ids, chosen.event, chosen.before
        )
        return await in_daemon_thread(lambda: sum(map(self._count, conditions)))

    async def query(
        self, sql: str, parameters: Mapping[str, Any], *, max_rows: int, timeout_s: float
    ) -> list[dict[str, Any]]:
        """The rows of a SELECT. More of them, or a longer time, is the caller's mistake."""
        limits = {"max_result_rows": max_rows, "max_execution_time": timeout_s}
        return await in_daemon_thread(lambda: self._rows(sql, parameters, **limits))

    async def run(self, work: Callable[[Client], Item]) -> Item:
        """What some other work gives, done with a client of its own."""

        def with_client() -> Item:
            with self._client() as (client, _):
                return work(client)

        return await in_daemon_thread(with_client)

    async def compact(self) -> int:
        """Merge the months that the engine's own merging leaves in many parts, and give unused
        memory back. How many months they were."""
        return await in_daemon_thread(self._compact)

    async def version(self) -> str:
        """The engine's version, asked of the engine: also tells whether it is there."""
        (row,) = await in_daemon_thread(lambda: self._rows("SELECT version() AS version", {}))
        return str(row["version"])

    async def backup(self, folder: Path) -> None:
        """Copy all events of one moment to a folder that is not there yet; the store goes on."""
        await in_daemon_thread(partial(self._backup, folder.resolve()))

    async def restore(self, folder: Path) -> None:
        """Take the events of a backup into this store, which must be empty."""
        await in_daemon_thread(partial(self._restore, folder.resolve()))

    async def close(self) -> None:
        await in_daemon_thread(self._engine.close)

    @contextmanager
    def _client(self) -> Iterator[tuple[Client, "_Layout"]]:
        with self._engine.client() as client:
            if self._layout is None:
                self._layout = _prepared(client)
            yield client, self._layout

    def _rows(
        self, sql: str, parameters: Mapping[str, Any], **settings: Any
    ) -> list[dict[str, Any]]:
        with self._client() as (client, _):
            return rows_of(client, sql, dict(parameters), **settings)

    def _append(self, events: Sequence[Event]) -> int:
        with self._changing, self._client() as (client, _):
            new = self._new(client, events)
            if self._memory is not None:
                self._memory.expect(list(new))
            for block in _blocks(list(new.values()), self._encoder):
                client.raw_insert(
                    TABLE,
                    COLUMNS,
                    block,
                    fmt="JSONCompactEachRow",
                    settings=self._insert_settings(),
                )
            if self._memory is not None:
                self._memory.learn(list(new))
            return len(new)

    def _acceptances(self, keys: Sequence[EventKey]) -> dict[EventKey, datetime]:
        """Does not wait for an append that is under way. What has no uuid is not stored."""
        self._learn()
        keys = [key for key in keys if _UUID.fullmatch(key[1])]
        with self._client() as (client, _):
            return _stored(client, keys if self._memory is None else self._memory.unsure(keys))

    def _learn(self) -> None:
        if self._engine.is_embedded and self._memory is None:
            with self._changing, self._client() as (client, _):
                self._remembered(client)

    def _insert_settings(self) -> dict[str, Any]:
        usual = {
            "date_time_input_format": "best_effort",
            "max_partitions_per_insert_block": 0,
            # A block is too small to gain by it.
            "input_format_parallel_parsing": 0,
            # Durable when it returns, on every shard that it concerns.
            "distributed_foreground_insert": 1,
            # If the driver sends a block twice because a connection broke, it is stored once; the
            # same events in another call are another block, which matters after a deletion.
            "insert_deduplication_token": str(uuid4()),
        }
        # A server goes on with what it was sent when the sender has died; not for longer than
        # others wait to take over.
        return usual if self._engine.is_embedded else {**usual, "max_execution_time": INSERT_S}

    def _new(self, client: Client, events: Sequence[Event]) -> dict[EventKey, Event]:
        """The first event of each key that the engine does not have yet."""
        new: dict[EventKey, Event] = {}
        for event in events:
            new.setdefault((event.project_id, event.uuid), event)
        unsure = list(new)
        if self._engine.is_embedded:
            memory = self._remembered(client)
            for key in filter(memory.is_stored, unsure):
                del new[key]
            unsure = memory.unsure(list(new))
        for key in _stored(client, unsure):
            new.pop(key, None)
        return new

    def _remembered(self, client: Client) -> UuidMemory:
        if self._memory is None:
            (row,) = rows_of(client, f"SELECT count() AS count FROM {TABLE}", {})  # noqa: S608
            memory = UuidMemory(row["count"])
            with client.raw_stream(f"SELECT uuid FROM {TABLE}", fmt="RowBinary") as stream:  # noqa: S608
                while uuids := stream.read(LEARNING_BYTES):
                    memory.learn_stored(uuids)
            self._memory = memory
        return self._memory

    def _count(self, chosen: "_Chosen") -> int:
        with self._client() as (client, _):
            return _counted(client, chosen)

    def _delete(self, chosen: "_Chosen") -> int:
        with self._changing, self._client() as (client, layout):
            count = _counted(client, chosen)
            if count:
                if self._memory is not None:
                    self._memory.forget()
                # Unlike `command`, this sends long lists in the body and not in the address.
                client.raw_query(
                    f"DELETE FROM {layout.table}{layout.on_cluster} WHERE {chosen.where}",  # noqa: S608
                    parameters=chosen.parameters,
                    settings={"lightweight_deletes_sync": 2},
                )
            return count

    def _compact(self) -> int:
        crowded = """
            SELECT table, partition_id FROM system.parts
            WHERE active AND database = currentDatabase() AND table IN {tables:Array(String)}
            GROUP BY table, partition_id HAVING count() > {max_parts:Int64}
        """
        with self._client() as (client, layout):
            asked = {"tables": [layout.table, *mirror_schema.TABLES], "max_parts": MAX_PARTS}
            months = rows_of(client, crowded, asked)
            for month in months:
                place = f"{month['table']} PARTITION ID '{month['partition_id']}'"
                client.command(f"OPTIMIZE TABLE {place}")
            if self._engine.is_embedded:
                # Under load the engine keeps some 200 MB that it no longer uses.
                client.command("SYSTEM JEMALLOC PURGE")
            return len(months)

    def _backup(self, folder: Path) -> None:
        if folder.exists():
            raise Unready(f"{folder} exists: a backup needs a folder of its own.")
        with self._own_client() as client:
            client.command(f"BACKUP TABLE {TABLE} TO File({_quoted(folder)})")

    def _restore(self, folder: Path) -> None:
        if not (folder / ".backup").is_file():
            raise Unready(f"There is no backup of events in {folder}.")
        with self._changing, self._own_client() as client:
            (row,) = rows_of(client, f"SELECT count() AS count FROM {TABLE}", {})  # noqa: S608
            if row["count"]:
                raise Unready("There are events already: restore into an empty event store.")
            # The backup brings the table as it was then; what it lacks is added by the next call.
            client.command(f"DROP TABLE {TABLE} SYNC")
            self._layout = self._memory = None
            client.command(f"RESTORE TABLE {TABLE} FROM File({_quoted(folder)})")

    @contextmanager
    def _own_client(self) -> Iterator[Client]:
        if not self._engine.is_embedded:
            raise Unready("A ClickHouse server is backed up with its own BACKUP statement.")
        with self._client() as (client, _):
            yield client


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Which table holds the rows themselves, and on which servers."""

    table: str
    on_cluster: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """Events that a condition holds for."""

    where: str
    parameters: dict[str, Any]


def _counted(client: Client, chosen: _Chosen) -> int:
    sql = f"SELECT count() AS count FROM {TABLE} WHERE {chosen.where}"  # noqa: S608
    (row,) = rows_of(client, sql, chosen.parameters)
    return int(row["count"])


def _prepared(client: Client) -> _Layout:
    """A cluster's tables are made by `hedgerow migrate --clickhouse-cluster` alone."""
    sql = """
        SELECT engine_full FROM system.tables
        WHERE database = currentDatabase() AND name = {table:String}
    """
    for row in rows_of(client, sql, {"table": TABLE}):
        if spread := re.match(r"Distributed\('([^']+)'", row["engine_full"]):
            return _Layout(table=SHARD_TABLE, on_cluster=f" ON CLUSTER '{spread[1]}'")
    for statement in [*single_ddl(), *mirror_schema.single_ddl()]:
        client.command(statement)
    return _Layout(table=TABLE, on_cluster="")


def _stored(client: Client, keys: Sequence[EventKey]) -> dict[EventKey, datetime]:
    """When those were accepted that the engine has."""
    found = {}
    for some in _sliced(keys):
        asked = {"projects": [*{project for project, _ in some}], "uuids": [u for _, u in some]}
        sql = f"""
            SELECT project_id, uuid, created_at FROM {TABLE}
            WHERE project_id IN {{projects:Array(Int64)}} AND uuid IN {{uuids:Array(UUID)}}
        """  # noqa: S608
        for row in rows_of(client, sql, asked):
            found[ProjectId(row["project_id"]), str(row["uuid"])] = row["created_at"]
    return found


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _blocks(events: Sequence[Event], encoder: msgspec.json.Encoder) -> Iterator[bytes]:
    """Lines of JSON, in blocks that take a bounded memory to store."""
    start, size = 0, 0
    for end, event in enumerate(events):
        size += len(event.properties) + len(event.person_properties) + len(event.elements_chain)
        if size > BLOCK_BYTES:
            yield encoder.encode_lines(events[start : end + 1])
            start, size = end + 1, 0
    if start < len(events):
        yield encoder.encode_lines(events[start:])


def _conditions(
    project_id: ProjectId,
    uuids: Sequence[str],
    distinct_ids: Sequence[str],
    event: str,
    before: datetime | None,
) -> Iterator[_Chosen]:
    """The same condition for every slice of long lists."""
    clauses = ["project_id = {project_id:Int64}"]
    parameters: dict[str, Any] = {"project_id": project_id}
    if uuids:
        clauses.append("uuid IN {uuids:Array(UUID)}")
    if distinct_ids:
        clauses.append("distinct_id IN {distinct_ids:Array(String)}")
    if event:
        clauses.append("event = {event:String}")
        parameters["event"] = event
    if before:
        clauses.append("timestamp < {before:DateTime64(6, 'UTC')}")
        parameters["before"] = before
    for some_uuids in _sliced(uuids) if uuids else [()]:
        for some_ids in _sliced(distinct_ids) if distinct_ids else [()]:
            chosen = {"uuids": list(some_uuids), "distinct_ids": list(some_ids)}
            yield _Chosen(where=" AND ".join(clauses), parameters=parameters | chosen)


def _sliced(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), IDS_AT_ONCE):
        yield items[start : start + IDS_AT_ONCE]
