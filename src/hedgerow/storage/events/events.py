"""Events in ClickHouse: appended in blocks, unique by project and UUID, deleted synchronously."""

import asyncio
import hashlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import structlog
from clickhouse_connect.driver.client import Client

from hedgerow.errors import Invalid, OperatorError, Unavailable
from hedgerow.events.deletion import CountableEvents, EventSelection
from hedgerow.events.model import Event, EventKey
from hedgerow.lib.optional_packages import import_package
from hedgerow.lib.threads import consume_exception, run_in_thread
from hedgerow.projects.model import ProjectId
from hedgerow.storage.events import integrity, purge, replica_schema
from hedgerow.storage.events.clickhouse import (
    INSERT_TIMEOUT_S,
    NO_ANSWER,
    ClickHousePool,
    EngineError,
    PooledClient,
    fetch_rows,
)
from hedgerow.storage.events.column_move import (
    MoveState,
    continue_move,
    count_unfilled_rows,
    inspect_move,
)
from hedgerow.storage.events.embedded.backup import back_up_parts, restore_parts
from hedgerow.storage.events.schema import COLUMNS, INSERT_SETTINGS, TABLE
from hedgerow.storage.events.table_layout import (
    TableLayout,
    check_same_server,
    find_layout,
    prepare_tables,
)

if TYPE_CHECKING:
    from hedgerow.storage.events.uuid_bloom_filter import UuidBloomFilter

# A server accepts form fields of up to 128 KiB.
MAX_IDS_PER_STATEMENT = 2_500
# Computing the typed columns of a block takes more than ten times its size in memory.
MAX_BLOCK_BYTES = 8 << 20
# A partition with more parts than this is merged explicitly.
MAX_PARTS = 50
MAX_LISTED_PARTS = 5

UUID_FILTER_MODULE = "hedgerow.storage.events.uuid_bloom_filter"

_log = structlog.get_logger("hedgerow.events")
_TIME_ENCODER = msgspec.json.Encoder()
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

Item = TypeVar("Item")


class ClickHouseEventStore(CountableEvents):
    def __init__(self, engine: ClickHousePool) -> None:
        self._pool = engine
        # Only for chDB: with a server, other processes write events too.
        self._uuid_filter: UuidBloomFilter | None = None
        # Also only for chDB: a server repairs its parts, or its operator does.
        self._readable_parts = integrity.ReadableParts(engine)
        # A thread lock, because a thread continues after its caller is cancelled.
        self._write_lock = threading.Lock()
        # For a server, which takes several inserts at once.
        self._key_locks = _KeyLocks()
        self._encoder = msgspec.json.Encoder()
        self._layout: TableLayout | None = None
        self._layout_lock = threading.Lock()
        # Whether all events have typed columns, and whether all have the granules of the table.
        self._is_moved = self._is_rewritten = False
        self._logged_move_steps: set[tuple[int, bool]] = set()
        self._restarting: asyncio.Task[None] | None = None

    @property
    def engine_restarts(self) -> int:
        """How often the embedded engine was started again."""
        return self._pool.restarts

    @property
    def damage_count(self) -> int:
        """How often damaged files were found: by a failed call, or by the engine at its start."""
        return self._pool.damage_count

    @property
    def quarantined_count(self) -> int:
        return self._pool.quarantined_count

    async def check(self) -> integrity.StoreFindings:
        """Look for missing columns and damaged parts. A server checks its files itself. Raises
        OperatorError if it refuses that, for example for lack of rights."""
        try:
            return await run_in_thread(self._check)
        except EngineError as error:
            raise OperatorError(f"ClickHouse refuses: {error.reason}") from error

    async def prepare(self) -> None:
        """Create the tables. Any first call would do so too."""
        await run_in_thread(lambda: self._fetch_rows("SELECT 1", {}))

    async def load_uuid_filter(self) -> None:
        """Load the UUIDs of stored events into the filter. The first append would do so too."""
        await run_in_thread(self._load_uuid_filter)

    async def append(self, events: Sequence[Event]) -> int:
        return await run_in_thread(partial(self._append, events)) if events else 0

    async def acceptances(self, keys: Sequence[EventKey]) -> Mapping[EventKey, datetime]:
        return await run_in_thread(partial(self._acceptances, keys)) if keys else {}

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
            raise Invalid(
                "Expected at least one of: uuids, distinct_ids, event, before. "
                "Choose which events to delete."
            )
        chosen = _build_conditions(project_id, uuids, distinct_ids, event, before)
        return await run_in_thread(lambda: sum(map(self._delete, chosen)))

    async def count(self, project_id: ProjectId, chosen: EventSelection) -> int:
        """Count the events that match."""
        conditions = _build_conditions(
            project_id, chosen.uuids, chosen.distinct_ids, chosen.event, chosen.before
        )
        return await run_in_thread(lambda: sum(map(self._count, conditions)))

    async def query(
        self, sql: str, parameters: Mapping[str, Any], *, max_rows: int, timeout_s: float
    ) -> list[dict[str, Any]]:
        """Return the rows of a SELECT. Exceeding a limit raises Invalid."""
        limits = {"max_result_rows": max_rows, "max_execution_time": timeout_s}
        return await run_in_thread(lambda: self._fetch_rows(sql, parameters, **limits))

    async def run(self, work: Callable[[Client], Item]) -> Item:
        """Run `work` with a client, in a thread, and return its result."""
        return await self._run_on_table(lambda client, _: work(client))

    async def run_abortable(self, work: Callable[[PooledClient], Item]) -> Item:
        """Run `work` like `run`, with a client whose call `abort` can end."""

        def with_client() -> Item:
            self._fetch_layout()
            with self._pool.lease() as leased:
                return work(leased)

        return await run_in_thread(with_client)

    async def abort(self, leased: PooledClient) -> None:
        """End a call that does not end. An embedded engine is killed and starts again."""
        await run_in_thread(partial(self._pool.abort, leased))
        if self._pool.is_embedded:
            # Start it now, so that the next call need not wait for it.
            self._restarting = asyncio.create_task(self.prepare())
            self._restarting.add_done_callback(consume_exception)

    async def compact(self) -> int:
        """Merge partitions with many parts and return unused memory to the system. Servers do both
        by themselves.

        Returns the number of merged partitions.
        """
        return await run_in_thread(self._compact) if self._pool.is_embedded else 0

    @property
    def reads_typed_columns(self) -> bool:
        """Whether all events have typed columns. Others can be read from them too, slowly."""
        return self._is_moved

    async def move_columns(self) -> None:
        """Fill typed columns of older events, and make their granules smaller. Does the next step
        and does not wait for it."""
        if not (self._is_moved and self._is_rewritten):
            await run_in_thread(self._move_columns)

    async def follow_column_move(self) -> None:
        """Look whether the events have typed columns by now."""
        if not self._is_moved:
            await run_in_thread(self._follow_column_move)

    async def purge(self) -> None:
        """Remove deleted events and persons from the files. The store stays available."""
        await purge.wait_for_earlier_purge(partial(self._run_on_table, purge.is_purging))
        await self._run_on_table(purge.purge_deleted_rows)
        if self._pool.is_embedded:
            finished = await self.run(purge.list_finished_deletions)
            await purge.wait_until_removed(partial(self.run, purge.list_replaced_parts))
            await self.run(partial(purge.forget_deletions, ids=finished))

    async def delete_project(self, project_id: ProjectId) -> int:
        """Delete the events and the replicas of a project from the files. Return the number of
        events."""
        return await self._run_on_table(partial(purge.delete_project, project_id=project_id))

    async def _run_on_table(self, work: Callable[[Client, TableLayout], Item]) -> Item:
        """Run `work` with a client and the table of events, in a thread, and return its result."""

        def with_client() -> Item:
            with self._client() as (client, layout):
                return work(client, layout)

        return await run_in_thread(with_client)

    async def version(self) -> str:
        """Ask the engine for its version. Also checks that the engine is reachable."""
        (row,) = await run_in_thread(lambda: self._fetch_rows("SELECT version() AS version", {}))
        return str(row["version"])

    async def backup(self, folder: Path) -> None:
        """Copy a snapshot of all events to a new folder. The store stays available."""
        await run_in_thread(partial(self._backup, folder.resolve()))

    async def restore(self, folder: Path) -> None:
        """Restore the events of a backup into this store, which must be empty."""
        await run_in_thread(partial(self._restore, folder.resolve()))

    async def close(self) -> None:
        await run_in_thread(self._pool.close)

    @contextmanager
    def _client(self) -> Iterator[tuple[Client, TableLayout]]:
        with self._lease() as (leased, layout):
            yield leased.client, layout

    @contextmanager
    def _lease(self) -> Iterator[tuple[PooledClient, TableLayout]]:
        with self._pool.lease() as leased:
            yield leased, self._layout or self._get_layout(leased.client)

    def _get_layout(self, client: Client) -> TableLayout:
        with self._layout_lock:
            if self._layout is None:
                self._layout = self._prepare_tables(client)
            return self._layout

    def _prepare_tables(self, client: Client) -> TableLayout:
        if self._pool.is_embedded and integrity.empty_incomplete_replicas(client):
            _log.warning("replicas of persons were damaged and are built again")
        layout = prepare_tables(client, is_only_user=self._pool.is_embedded)
        self._is_moved = _has_moved(client, layout)
        self._report_set_aside(client)
        return layout

    def _report_set_aside(self, client: Client) -> None:
        if self._pool.is_embedded and (parts := integrity.find_set_aside(client)):
            self._pool.damage_count += len(parts)
            _log.error(
                "the event store has put damaged files aside: their events are missing",
                folders=[part.folder for part in parts],
                remedy="Run `hedgerow doctor`.",
            )

    def _fetch_layout(self) -> None:
        if self._layout is None:
            with self._client():
                pass

    def _fetch_rows(
        self, sql: str, parameters: Mapping[str, Any], **settings: Any
    ) -> list[dict[str, Any]]:
        with self._client() as (client, _):
            return fetch_rows(client, sql, dict(parameters), **settings)

    def _check(self) -> integrity.StoreFindings:
        # Without `_client`, which creates missing tables.
        with self._pool.client() as client:
            findings = integrity.check_tables(client, reads_files=self._pool.is_embedded)
            if (layout := find_layout(client)) is None:
                return findings
            move = inspect_move(client, layout)
            return replace(
                findings, unmoved=move.rows_left, move_problem=_shorten_problem(move.problem)
            )

    def _append(self, events: Sequence[Event]) -> int:
        try:
            return self._append_once(events)
        except Unavailable as error:
            if not self._pool.is_embedded or error.detail != NO_ANSWER:
                raise
        # The engine has ended, perhaps because of others: look again what is stored.
        return self._append_once(events)

    def _append_once(self, events: Sequence[Event]) -> int:
        with self._lock(events), self._lease() as (leased, layout):
            client = leased.client
            if not self._pool.is_embedded:
                check_same_server(client, layout)
            new = self._select_new(client, events)
            if self._uuid_filter is not None:
                self._uuid_filter.add_pending(list(new))
            missing = dict(new)
            for block in _split_blocks(events):
                keys = [(each.project_id, each.uuid) for each in block]
                rows = [each for key in keys if (each := missing.pop(key, None)) is not None]
                if rows:
                    self._insert(leased, rows)
            if self._uuid_filter is not None:
                self._uuid_filter.confirm_stored(list(new))
            return len(new)

    def _insert(self, leased: PooledClient, rows: Sequence[Event]) -> None:
        # A server recognizes a block that it gets twice. The embedded engine would remember parts
        # that were quarantined, so its caller looks which events are stored, and inserts the rest.
        with leased.sockets.send_once() if self._pool.is_embedded else nullcontext():
            leased.client.raw_insert(
                TABLE,
                COLUMNS,
                self._encoder.encode_lines(rows),
                fmt="JSONCompactEachRow",
                settings=self._build_insert_settings(rows),
            )

    def _lock(self, events: Sequence[Event]) -> AbstractContextManager[Any]:
        """Lock out other appends of the same events between the look-up and the insert."""
        if self._pool.is_embedded:
            return self._write_lock
        return self._key_locks.hold({(event.project_id, event.uuid) for event in events})

    def _acceptances(self, keys: Sequence[EventKey]) -> dict[EventKey, datetime]:
        """Does not wait for a running append. Keys without a valid UUID are never stored."""
        self._load_uuid_filter()
        keys = [key for key in keys if _UUID.fullmatch(key[1])]
        with self._client() as (client, _):
            return self._find_stored(
                client,
                keys if self._uuid_filter is None else self._uuid_filter.filter_possible(keys),
            )

    def _load_uuid_filter(self) -> None:
        if self._pool.is_embedded and self._uuid_filter is None:
            with self._write_lock, self._client() as (client, _):
                self._get_uuid_filter(client)

    def _build_insert_settings(self, rows: Sequence[Event]) -> dict[str, Any]:
        settings = INSERT_SETTINGS | {"max_partitions_per_insert_block": 0}
        if self._pool.is_embedded:
            return settings
        # A block that is sent twice is stored once: by the driver after a broken connection, or by
        # another worker that has taken over while the first insert is still under way.
        token = identify_block(rows)
        return settings | {
            "insert_deduplication_token": token,
            "max_execution_time": INSERT_TIMEOUT_S,
        }

    def _select_new(self, client: Client, events: Sequence[Event]) -> dict[EventKey, Event]:
        """Return the first event of each key that is not stored yet."""
        new: dict[EventKey, Event] = {}
        for event in events:
            new.setdefault((event.project_id, event.uuid), event)
        unsure = list(new)
        if self._pool.is_embedded:
            memory = self._get_uuid_filter(client)
            for key in filter(memory.is_recent, unsure):
                del new[key]
            unsure = memory.filter_possible(list(new))
        for key in self._find_stored(client, unsure):
            new.pop(key, None)
        return new

    def _find_stored(self, client: Client, keys: Sequence[EventKey]) -> dict[EventKey, datetime]:
        find = partial(_find_stored, client, keys)
        if not self._pool.is_embedded:
            return find(integrity.ALL_PARTS)
        return self._readable_parts.read(client, find)

    def _get_uuid_filter(self, client: Client) -> "UuidBloomFilter":
        if self._uuid_filter is None:
            # Imported on demand: a server needs neither the filter nor numpy.
            load = partial(import_package(UUID_FILTER_MODULE).load_uuids, client)
            self._uuid_filter = self._readable_parts.read(client, load)
        return self._uuid_filter

    def _move_columns(self) -> None:
        with self._client() as (client, layout):
            if not layout.has_typed_columns:
                return
            state = continue_move(client, layout)
            self._is_moved = not state.rows_left
            self._is_rewritten = not state.all_rows_left
        self._report_move(state)

    def _report_move(self, state: MoveState) -> None:
        """Log each step once, although the same one is seen many times."""
        step = (state.all_rows_left, bool(state.problem))
        if step in self._logged_move_steps:
            return
        self._logged_move_steps.add(step)
        if state.problem:
            _log.warning(
                "older events cannot be moved to typed columns, and will be tried again",
                reason=_shorten_problem(state.problem),
                events_left=state.all_rows_left,
            )
        elif state.all_rows_left:
            _log.info("moving older events to typed columns", events_left=state.all_rows_left)
        else:
            _log.info("all events have typed columns")

    def _follow_column_move(self) -> None:
        with self._client() as (client, layout):
            self._is_moved = _has_moved(client, layout)

    def _count(self, chosen: "_Condition") -> int:
        with self._client() as (client, _):
            return _count_events(client, chosen)

    def _delete(self, chosen: "_Condition") -> int:
        """Delete without the lock of appends: a large deletion takes seconds."""
        with self._client() as (client, layout):
            count = _count_events(client, chosen)
            if count:
                try:
                    # Unlike `command`, this sends long lists in the body and not in the URL.
                    client.raw_query(
                        f"DELETE FROM {layout.table}{layout.on_cluster} WHERE {chosen.where}",  # noqa: S608
                        parameters=chosen.parameters,
                        settings={"lightweight_deletes_sync": 2},
                    )
                finally:
                    self._forget_recent()
            return count

    def _forget_recent(self) -> None:
        with self._write_lock:
            if self._uuid_filter is not None:
                self._uuid_filter.clear_recent()

    def _compact(self) -> int:
        crowded = """
            SELECT table, partition_id FROM system.parts
            WHERE active AND database = currentDatabase() AND table IN {tables:Array(String)}
            GROUP BY table, partition_id HAVING count() > {max_parts:Int64}
        """
        with self._embedded_client() as client:
            params = {"tables": [TABLE, *replica_schema.TABLES], "max_parts": MAX_PARTS}
            months = fetch_rows(client, crowded, params)
            for month in months:
                partition = f"{month['table']} PARTITION ID '{month['partition_id']}'"
                client.command(f"OPTIMIZE TABLE {partition}")
            # Under load the engine holds some 200 MB that it no longer uses.
            client.command("SYSTEM JEMALLOC PURGE")
            return len(months)

    def _backup(self, folder: Path) -> None:
        with self._embedded_client() as client:
            back_up_parts(client, folder)
            _check_events(client, "The event store has damaged files, so the backup is incomplete")

    def _restore(self, folder: Path) -> None:
        with self._write_lock, self._embedded_client() as client:
            self._uuid_filter = None
            restore_parts(client, folder)
            _check_events(client, "The backup has damaged events")
            self._is_moved = False

    @contextmanager
    def _embedded_client(self) -> Iterator[Client]:
        if not self._pool.is_embedded:
            raise OperatorError("Back up a ClickHouse server with its own BACKUP statement.")
        with self._client() as (client, _):
            yield client


class _KeyLocks:
    """A lock for each event that a thread is appending."""

    def __init__(self) -> None:
        self._held: set[EventKey] = set()
        self._released = threading.Condition()

    @contextmanager
    def hold(self, keys: set[EventKey]) -> Iterator[None]:
        with self._released:
            self._released.wait_for(lambda: self._held.isdisjoint(keys))
            self._held |= keys
        try:
            yield
        finally:
            with self._released:
                self._held -= keys
                self._released.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    """A WHERE clause with its parameters."""

    where: str
    parameters: dict[str, Any]


def _check_events(client: Client, problem: str) -> None:
    if damaged := integrity.check_tables(client, reads_files=True).damaged:
        raise OperatorError(f"{problem}: {'; '.join(damaged[:MAX_LISTED_PARTS])}.")


def _count_events(client: Client, chosen: _Condition) -> int:
    sql = f"SELECT count() AS count FROM {TABLE} WHERE {chosen.where}"  # noqa: S608
    (row,) = fetch_rows(client, sql, chosen.parameters)
    return int(row["count"])


def _shorten_problem(problem: str) -> str:
    return problem.partition("\n")[0]


def _has_moved(client: Client, layout: TableLayout) -> bool:
    return layout.has_typed_columns and not count_unfilled_rows(client, layout)


def _find_stored(client: Client, keys: Sequence[EventKey], parts: str) -> dict[EventKey, datetime]:
    """Return when those of these events that are stored in some parts were accepted."""
    found = {}
    for some in _split_ids(keys):
        params = {"projects": [*{project for project, _ in some}], "uuids": [u for _, u in some]}
        sql = f"""
            SELECT project_id, uuid, created_at FROM {TABLE}
            WHERE project_id IN {{projects:Array(Int64)}} AND uuid IN {{uuids:Array(UUID)}}
            AND {parts}
        """  # noqa: S608
        for row in fetch_rows(client, sql, params):
            found[ProjectId(row["project_id"]), str(row["uuid"])] = row["created_at"]
    return found


def _split_blocks(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Split events into blocks of bounded size, the same for each repetition of a call."""
    start, size = 0, 0
    for end, event in enumerate(events):
        size += len(event.properties) + len(event.person_properties) + len(event.elements_chain)
        if size > MAX_BLOCK_BYTES:
            yield events[start : end + 1]
            start, size = end + 1, 0
    if start < len(events):
        yield events[start:]


def identify_block(rows: Sequence[Event]) -> str:
    """Return a token for these events. An event that was deleted and captured again has another
    time of acceptance."""
    # Python formats a time in 2 us, the encoder in 0.02.
    encoded = _TIME_ENCODER.encode([event.created_at for event in rows]).decode()
    times = encoded.strip('[]"').replace("T", " ").replace("Z", "+00:00").split('","')
    lines = [
        f"{event.project_id} {event.uuid} {at}\n" for event, at in zip(rows, times, strict=True)
    ]
    return hashlib.blake2b("".join(lines).encode(), digest_size=16).hexdigest()


def _build_conditions(
    project_id: ProjectId,
    uuids: Sequence[str],
    distinct_ids: Sequence[str],
    event: str,
    before: datetime | None,
) -> Iterator[_Condition]:
    """Yield one condition for each slice of the lists."""
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
    for some_uuids in _split_ids(uuids) if uuids else [()]:
        for some_ids in _split_ids(distinct_ids) if distinct_ids else [()]:
            chosen = {"uuids": list(some_uuids), "distinct_ids": list(some_ids)}
            yield _Condition(where=" AND ".join(clauses), parameters=parameters | chosen)


def _split_ids(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), MAX_IDS_PER_STATEMENT):
        yield items[start : start + MAX_IDS_PER_STATEMENT]
