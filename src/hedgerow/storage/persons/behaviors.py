"""Behaviors that cohorts use, and their occurrences by distinct id."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, literal_column, select, update

from hedgerow.errors import Invalid, Unavailable
from hedgerow.lib import jsonio
from hedgerow.persons.behaviors.filters import (
    TrackedEvent,
    iterate_behavioral_filters,
    parse_behavioral_filter,
)
from hedgerow.persons.behaviors.matcher import build_definition, list_event_names
from hedgerow.persons.behaviors.model import (
    MAX_BEHAVIORS,
    MAX_DEPTH,
    Behavior,
    BehaviorId,
    BehaviorState,
)
from hedgerow.persons.behaviors.store import BehaviorStore, NewOccurrences
from hedgerow.persons.behaviors.times import (
    add_occurrences,
    decode_behaviors,
    encode_behaviors,
    pack_end,
)
from hedgerow.projects.model import ProjectId
from hedgerow.storage.engine import bulk, generations
from hedgerow.storage.engine.database import AnyRow, Database
from hedgerow.storage.engine.task_claims import TaskClaims
from hedgerow.storage.flags.flags import flag_topic
from hedgerow.storage.persons.changes import ConcurrentPersonChangeError
from hedgerow.storage.projects.projects import lock_project
from hedgerow.storage.tables import actions, cohorts
from hedgerow.storage.tables import behavior_times as times
from hedgerow.storage.tables import behaviors as table

MAX_ATTEMPTS = 5
# Distinct ids in one transaction: other writers wait for it.
BATCH_SIZE = 500
# How long another process waits for one that was killed.
CLAIM_S = 15.0
PLACE = "filters.properties"
_IN_USE = ("building", "ready")


class TrackedBehaviors:
    """The behaviors of projects, decoded once. Runs within the transaction that processes events:
    what it returns is valid until the end, because changes of behaviors lock the project."""

    def __init__(self) -> None:
        self._known: dict[BehaviorId, Behavior] = {}

    def read(self, connection: Connection, project_id: ProjectId) -> Sequence[Behavior]:
        rows = bulk.select(
            connection,
            "SELECT id FROM behaviors WHERE project_id = ? AND state <> 'removed' ORDER BY id",
            project_id,
        )
        if not rows:
            return ()
        ids = [BehaviorId(id) for (id,) in rows]
        if any(id not in self._known for id in ids):
            found = _read_behaviors(connection, project_id)
            self._known = {
                **{id: each for id, each in self._known.items() if each.project_id != project_id},
                **{each.id: each for each in found},
            }
        return [self._known[id] for id in ids]


def save_occurrences(
    connection: Connection,
    project_id: ProjectId,
    new: NewOccurrences,
    behaviors: Sequence[Behavior],
    now: datetime,
) -> None:
    """Add occurrences of these behaviors, which are all that the project uses. On PostgreSQL,
    raises ConcurrentPersonChangeError if another process adds the same distinct id."""
    if not new:
        return
    depths, end = {each.id: each.depth for each in behaviors}, pack_end(now)
    rows = bulk.select(
        connection,
        "SELECT distinct_id, times FROM behavior_times WHERE project_id = ?"
        " AND distinct_id IN ({texts}) ORDER BY distinct_id {locked}",
        project_id,
        list(new),
    )
    present = {distinct_id: decode_behaviors(text) for distinct_id, text in rows}
    made: dict[bool, list[tuple[Any, ...]]] = {True: [], False: []}
    for distinct_id in sorted(new):
        before = present.get(distinct_id, {})
        after = {id: packed for id, packed in before.items() if id in depths}
        for id, occurrences in new[distinct_id].items():
            if id in depths:
                packed = after.get(id, b"")
                after[id] = add_occurrences(packed, occurrences, depths[id], end)
        if after != before:
            row = encode_behaviors(after), project_id, distinct_id
            made[distinct_id in present].append(row)
    columns = ("times", "project_id", "distinct_id")
    inserted = bulk.execute_many(
        connection,
        "INSERT INTO behavior_times (times, project_id, distinct_id) {values}"
        " ON CONFLICT DO NOTHING",
        columns,
        made[False],
    )
    if inserted != len(made[False]):
        raise ConcurrentPersonChangeError
    bulk.execute_many(
        connection,
        "UPDATE behavior_times SET times = r.times FROM {rows}"
        " WHERE behavior_times.project_id = r.project_id"
        " AND behavior_times.distinct_id = r.distinct_id",
        columns,
        made[True],
    )


def sync_behaviors(connection: Connection, project_id: ProjectId, now: datetime) -> None:
    """Create the behaviors that the cohorts of a project need, and remove those that none needs.
    The caller has locked the project. Raises Invalid if they are too many, or an action cannot be
    used."""
    needed = _list_needed(connection, project_id)
    _check_limits(needed)
    present = _read_behaviors(connection, project_id)
    unused = [each.id for each in present if each.reference not in needed]
    steps = _read_steps(connection, project_id) if _has_actions(needed.values()) else {}
    new = []
    for reference, event in needed.items():
        definition = build_definition(event, _find_steps(event, steps))
        own = [each for each in present if each.reference == reference]
        if any(jsonio.is_equal(each.definition, definition) for each in own):
            continue
        unused += [each.id for each in own if each.state is BehaviorState.BUILDING]
        new.append((reference, definition, event.depth))
    _insert_building(connection, project_id, new, now)
    _mark_removed(connection, unused)
    if new or unused:
        generations.advance(connection, flag_topic(project_id))


def sync_actions(connection: Connection, project_id: ProjectId, now: datetime) -> None:
    """Do the same after the change of an action."""
    if any("steps" in each.definition for each in _read_behaviors(connection, project_id)):
        sync_behaviors(connection, project_id, now)


def _list_needed(connection: Connection, project_id: ProjectId) -> dict[str, TrackedEvent]:
    live = (cohorts.c.project_id == project_id) & cohorts.c.deleted.is_(False)
    needed: dict[str, TrackedEvent] = {}
    for row in connection.execute(select(cohorts.c.definition).where(live)):
        for filter in iterate_behavioral_filters(row.definition):
            # A definition can be older than the checks.
            with suppress(Invalid):
                for event in parse_behavioral_filter(filter).tracked:
                    needed[event.reference] = event
    return needed


def _check_limits(needed: Mapping[str, TrackedEvent]) -> None:
    if len(needed) > MAX_BEHAVIORS:
        raise Invalid(
            f"The cohorts of a project can count at most {MAX_BEHAVIORS} different events and "
            "actions. Use the same event filters in several cohorts, or delete cohorts.",
            attr=PLACE,
            code="max_length",
        )
    if sum(each.depth for each in needed.values()) > MAX_DEPTH:
        raise Invalid(
            f"The cohorts of a project can count at most {MAX_DEPTH:,} occurrences of each person "
            "in total. Use smaller numbers in `operator_value`.",
            attr=PLACE,
            code="max_length",
        )


def _has_actions(needed: Collection[TrackedEvent]) -> bool:
    return any(each.event_type == "actions" for each in needed)


def _read_steps(connection: Connection, project_id: ProjectId) -> dict[str, Any]:
    live = (actions.c.project_id == project_id) & actions.c.deleted.is_(False)
    rows = connection.execute(select(actions.c.id, actions.c.steps).where(live))
    return {str(row.id): row.steps for row in rows}


def _find_steps(event: TrackedEvent, steps: Mapping[str, Any]) -> Any:
    if event.event_type == "actions" and event.key not in steps:
        detail = f"A cohort counts action {event.key}, which does not exist or is to be deleted."
        raise Invalid(detail, attr=PLACE, code="action_does_not_exist")
    return steps.get(event.key, ())


def _read_behaviors(connection: Connection, project_id: ProjectId) -> list[Behavior]:
    own = (table.c.project_id == project_id) & table.c.state.in_(_IN_USE)
    rows = connection.execute(select(table).where(own).order_by(table.c.id))
    return [_decode(row) for row in rows]


def _decode(row: Row[Any]) -> Behavior:
    return Behavior(**{**row._mapping, "state": BehaviorState(row.state)})


def _insert_building(
    connection: Connection,
    project_id: ProjectId,
    new: Sequence[tuple[str, Mapping[str, Any], int]],
    now: datetime,
) -> None:
    rows = [
        {
            "project_id": project_id,
            "reference": reference,
            "definition": definition,
            "depth": depth,
            "state": BehaviorState.BUILDING,
            "done": 0,
            "total": 0,
            "cursor": "",
            "created_at": now,
        }
        for reference, definition, depth in new
    ]
    if rows:
        connection.execute(insert(table), rows)


def _mark_removed(connection: Connection, ids: Collection[BehaviorId]) -> None:
    if ids:
        values = {"state": BehaviorState.REMOVED, "cursor": "", "doubted_at": None}
        connection.execute(update(table).where(table.c.id.in_(ids)).values(**values))


_UNFINISHED = (BehaviorState.BUILDING, BehaviorState.REMOVED)
_any_unfinished = AnyRow(
    table.c.state.in_([literal_column(f"'{state.value}'") for state in _UNFINISHED])
)
_any_doubted = AnyRow(table.c.doubted_at.is_not(None))


class SqlBehaviorStore(BehaviorStore):
    def __init__(self, database: Database) -> None:
        self._database = database
        self._claims = TaskClaims(database)

    async def list_behaviors(self, project_id: ProjectId) -> Sequence[Behavior]:
        return await self._database.read(lambda connection: _read_behaviors(connection, project_id))

    async def list_unfinished(self) -> Sequence[Behavior]:
        if not await _any_unfinished.is_in(self._database):
            return []
        waiting = table.c.state.in_(_UNFINISHED)

        def run(connection: Connection) -> list[Behavior]:
            rows = connection.execute(select(table).where(waiting).order_by(table.c.id))
            return [_decode(row) for row in rows]

        return await self._database.read(run)

    async def claim(self, behavior: Behavior) -> bool:
        # By project: a row for each behavior would stay.
        return await self._claims.claim(f"behaviors {behavior.project_id}", CLAIM_S)

    async def release(self, behavior: Behavior) -> None:
        await self._claims.release(f"behaviors {behavior.project_id}")

    async def add(self, project_id: ProjectId, occurrences: NewOccurrences, now: datetime) -> None:
        items = list(occurrences.items())
        for start in range(0, len(items), BATCH_SIZE):
            await self._add(project_id, dict(items[start : start + BATCH_SIZE]), now)

    async def _add(self, project_id: ProjectId, occurrences: NewOccurrences, now: datetime) -> None:
        def change(connection: Connection) -> None:
            present = _read_behaviors(connection, project_id)
            save_occurrences(connection, project_id, occurrences, present, now)

        for _ in range(MAX_ATTEMPTS):
            with suppress(ConcurrentPersonChangeError):
                await self._database.write(change)
                return
        raise Unavailable("Other workers keep changing the same persons. Try again shortly.")

    async def save_progress(self, id: BehaviorId, *, done: int, total: int) -> None:
        values = {"done": done, "total": total}
        statement = update(table).where(table.c.id == id).values(**values)
        await self._database.write(lambda connection: connection.execute(statement))

    async def finish(self, behavior: Behavior) -> None:
        def change(connection: Connection) -> None:
            lock_project(connection, behavior.project_id)
            present = _read_behaviors(connection, behavior.project_id)
            if all(each.id != behavior.id for each in present):
                return  # removed meanwhile
            connection.execute(
                update(table)
                .where(table.c.id == behavior.id)
                .values(state=BehaviorState.READY, done=table.c.total)
            )
            replaced = [
                each.id
                for each in present
                if each.reference == behavior.reference and each.id < behavior.id
            ]
            _mark_removed(connection, replaced)
            generations.advance(connection, flag_topic(behavior.project_id))

        await self._database.write(change)

    async def sweep(self, behavior: Behavior) -> bool:
        def change(connection: Connection) -> bool:
            rows = bulk.select(
                connection,
                "SELECT distinct_id, times FROM behavior_times WHERE project_id = ?"
                " AND distinct_id > ? ORDER BY distinct_id LIMIT ? {locked}",
                behavior.project_id,
                behavior.cursor,
                BATCH_SIZE,
            )
            kept, emptied = _drop_behavior(rows, behavior.id)
            bulk.execute_many(
                connection,
                "UPDATE behavior_times SET times = r.times FROM {rows}"
                " WHERE behavior_times.project_id = r.project_id"
                " AND behavior_times.distinct_id = r.distinct_id",
                ("times", "project_id", "distinct_id"),
                [(text, behavior.project_id, distinct_id) for distinct_id, text in kept],
            )
            _delete_times(connection, behavior.project_id, emptied)
            own = table.c.id == behavior.id
            if len(rows) < BATCH_SIZE:
                connection.execute(delete(table).where(own))
                return True
            connection.execute(update(table).where(own).values(cursor=rows[-1][0]))
            return False

        return await self._database.write(change)

    async def doubt(self, project_id: ProjectId, now: datetime) -> bool:
        own = (table.c.project_id == project_id) & table.c.state.in_(_IN_USE)
        statement = update(table).where(own).values(doubted_at=now)
        return await self._database.write(
            lambda connection: connection.execute(statement).rowcount > 0
        )

    async def forget(self, project_id: ProjectId, distinct_ids: Collection[str]) -> None:
        ids = list(distinct_ids)
        for start in range(0, len(ids), BATCH_SIZE):
            await self._forget(project_id, ids[start : start + BATCH_SIZE])

    async def _forget(self, project_id: ProjectId, distinct_ids: list[str]) -> None:
        await self._database.write(
            lambda connection: _delete_times(connection, project_id, distinct_ids)
        )

    async def trust(self, project_id: ProjectId) -> None:
        statement = update(table).where(table.c.project_id == project_id).values(doubted_at=None)
        await self._database.write(lambda connection: connection.execute(statement))

    async def rebuild(
        self,
        project_id: ProjectId,
        now: datetime,
        *,
        event: str = "",
        doubted_before: datetime | None = None,
    ) -> None:
        def is_affected(behavior: Behavior) -> bool:
            if doubted_before is not None:
                at = behavior.doubted_at
                return at is not None and at < doubted_before
            names = list_event_names(behavior.definition) if event else None
            return names is None or event in names

        def change(connection: Connection) -> None:
            lock_project(connection, project_id)
            affected = [
                each for each in _read_behaviors(connection, project_id) if is_affected(each)
            ]
            newest = {each.reference: each for each in affected}
            new = [(each.reference, each.definition, each.depth) for each in newest.values()]
            _insert_building(connection, project_id, new, now)
            building = [each.id for each in affected if each.state is BehaviorState.BUILDING]
            _mark_removed(connection, building)
            ids = [each.id for each in affected]
            connection.execute(update(table).where(table.c.id.in_(ids)).values(doubted_at=None))

        await self._database.write(change)

    async def list_doubted(self, before: datetime) -> Sequence[ProjectId]:
        if not await _any_doubted.is_in(self._database):
            return []
        wanted = select(table.c.project_id).distinct().where(table.c.doubted_at < before)
        return await self._database.read(
            lambda connection: [ProjectId(row.project_id) for row in connection.execute(wanted)]
        )


def _drop_behavior(rows: bulk.Rows, id: BehaviorId) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the changed rows without a behavior, and the distinct ids that have no other one."""
    kept, emptied = [], []
    for distinct_id, text in rows:
        found = decode_behaviors(text)
        if found.pop(id, None) is None and found:
            continue
        if found:
            kept.append((distinct_id, encode_behaviors(found)))
        else:
            emptied.append(distinct_id)
    return kept, emptied


def _delete_times(
    connection: Connection, project_id: ProjectId, distinct_ids: Sequence[str]
) -> None:
    if distinct_ids:
        own = (times.c.project_id == project_id) & times.c.distinct_id.in_(distinct_ids)
        connection.execute(delete(times).where(own))
