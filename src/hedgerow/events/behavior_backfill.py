"""Count the stored events of behaviors, and what deletions of events change.

Events that are processed after a behavior exists are counted by the worker. All others are stored
by the time that this reads them. Counting an event twice changes nothing, so every step can be
repeated, by any process.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from hedgerow.errors import AppError
from hedgerow.events.deletion import BehaviorRepairs, EventSelection, PendingRepair
from hedgerow.events.filters.behaviors import build_behavior_condition
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.events.query.context import QueryContext
from hedgerow.events.query.executor import DEFAULT_LIMITS, QueryExecutor
from hedgerow.hogql.ast import Expr, FunctionCall, Join, SelectQuery
from hedgerow.hogql.builders import all_of, call, constant, equals, field, in_list
from hedgerow.lib.clock import Clock
from hedgerow.lib.dates import EPOCH
from hedgerow.persons.behaviors.model import Behavior, BehaviorId, BehaviorState
from hedgerow.persons.behaviors.store import BehaviorStore
from hedgerow.persons.behaviors.times import MAX_FUTURE, pack_occurrence
from hedgerow.projects.model import Project, ProjectId

# Distinct ids, and occurrences, that one query returns: it is repeated for other parts of them.
PART_IDS = 5_000
PART_OCCURRENCES = 100_000
# Deletions of more events are followed by counting all again.
MAX_REPAIRED_IDS = 1_000
# A process that deletes events has died if it has not ended after this time.
DELETION_TIME = timedelta(minutes=15)
# A process works so long on a project before others may.
TURN_S = 10.0
WAIT_INTERVAL_S = 0.05

FindProject = Callable[[ProjectId], Project | None]


class BehaviorBackfill(BehaviorRepairs):
    """`wait_until_stored` returns when all events that are processed now are stored. Raises
    Unavailable if that takes too long."""

    def __init__(
        self,
        store: BehaviorStore,
        executor: QueryExecutor,
        wait_until_stored: Callable[[], Awaitable[None]],
        has_events: Callable[[], bool],
        find_project: FindProject,
        clock: Clock,
    ) -> None:
        self._store = store
        self._executor = executor
        self._wait_until_stored = wait_until_stored
        self._has_events = has_events
        self._find_project = find_project
        self._clock = clock
        # Projects that this process works on.
        self._busy: set[ProjectId] = set()

    async def run(self) -> None:
        """Build the behaviors that are new, and remove those that are not in use."""
        now = self._clock()
        for project_id in await self._store.list_doubted(now - DELETION_TIME):
            await self._store.rebuild(project_id, now, doubted_before=now - DELETION_TIME)
        waiting = {each.project_id for each in await self._store.list_unfinished()}
        failures: list[AppError] = []
        for project_id in waiting:
            try:
                await self._work_on(project_id)
            except AppError as error:  # other projects do not wait for this one
                failures.append(error)
        if failures:
            raise failures[0]

    async def catch_up(self, project_id: ProjectId, timeout_s: float) -> None:
        """Build the behaviors of a project now. Returns after the timeout even if there is more to
        do."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            behaviors = await self._store.list_behaviors(project_id)
            if all(each.state is BehaviorState.READY for each in behaviors):
                return
            with suppress(AppError, TimeoutError):
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    await self._work_on(project_id)
            await asyncio.sleep(WAIT_INTERVAL_S)

    async def _work_on(self, project_id: ProjectId) -> None:
        """Do a part of the work for a project, unless something else of this process does it."""
        if project_id in self._busy:
            return
        self._busy.add(project_id)
        try:
            unfinished = await self._store.list_unfinished()
            behaviors = [each for each in unfinished if each.project_id == project_id]
            if behaviors and await self._store.claim(behaviors[0]):
                try:
                    await self._work(behaviors, time.monotonic() + TURN_S)
                finally:
                    await self._store.release(behaviors[0])
        finally:
            self._busy.discard(project_id)

    async def _work(self, behaviors: Sequence[Behavior], deadline: float) -> None:
        building = [each for each in behaviors if each.state is BehaviorState.BUILDING]
        if building:
            await self._wait_until_stored()
        for behavior in building:
            if not await self._build(behavior, deadline):
                return
        for behavior in behaviors:
            if behavior.state is BehaviorState.REMOVED and time.monotonic() < deadline:
                await self._store.sweep(behavior)

    async def _build(self, behavior: Behavior, deadline: float) -> bool:
        """Return whether the behavior is finished."""
        project = self._find_project(behavior.project_id)
        if project is None or not self._has_events():
            await self._store.finish(behavior)
            return True
        done, total = behavior.done, behavior.total
        if not total:
            total = await self._count_parts(project, behavior)
            await self._store.save_progress(behavior.id, done=0, total=total)
        while done < total:
            if time.monotonic() > deadline:
                return False
            part = _select_part(done, total)
            await self._store.add(project.id, await self._read(project, behavior, part), self._now)
            done += 1
            await self._store.save_progress(behavior.id, done=done, total=total)
        await self._store.finish(behavior)
        return True

    @property
    def _now(self) -> datetime:
        return self._clock()

    async def _count_parts(self, project: Project, behavior: Behavior) -> int:
        """Return into how many parts the distinct ids are divided."""
        context, where = self._prepare(project, behavior)
        query = SelectQuery(
            select=[call("uniq", field("distinct_id")), call("count")],
            source=Join(table=field("events")),
            where=where,
        )
        [(ids, events)] = (await self._executor.execute(context, lambda: query)).rows
        occurrences = min(int(events), int(ids) * (behavior.depth + 1))
        return max(1, -(-int(ids) // PART_IDS), -(-occurrences // PART_OCCURRENCES))

    async def _read(
        self, project: Project, behavior: Behavior, part: Expr
    ) -> Mapping[str, Mapping[BehaviorId, Sequence[bytes]]]:
        """Read the first and the latest occurrences of each distinct id of a part."""
        context, where = self._prepare(project, behavior)
        time, uuid = (
            call("toUnixTimestamp64Micro", field("timestamp")),
            call("toString", field("uuid")),
        )
        latest = FunctionCall(
            name="groupArraySorted",
            params=[constant(behavior.depth + MAX_FUTURE)],
            args=[call("tuple", call("negate", time), uuid)],
        )
        query = SelectQuery(
            select=[field("distinct_id"), call("min", call("tuple", time, uuid)), latest],
            source=Join(table=field("events")),
            where=all_of([where, part]),
            group_by=[field("distinct_id")],
        )
        rows = (await self._executor.execute(context, lambda: query, DEFAULT_LIMITS)).rows
        return {row[0]: {behavior.id: _pack_row(row)} for row in rows}

    def _prepare(self, project: Project, behavior: Behavior) -> tuple[QueryContext, Expr]:
        query_time = QueryTime(now=self._now, zone=ZoneInfo(project.timezone))
        context = QueryContext(project=project, cohorts={}, time=query_time)
        return context, build_behavior_condition(behavior.definition, query_time)

    async def begin_deletion(
        self, project_id: ProjectId, selection: EventSelection
    ) -> PendingRepair | None:
        if not await self._store.doubt(project_id, self._now):
            return None
        ids: Sequence[str] | None = selection.distinct_ids
        if selection.event or selection.before:
            ids = None
        elif selection.uuids and not ids:
            ids = await self._find_ids(project_id, selection.uuids)
        if ids is not None and len(ids) > MAX_REPAIRED_IDS:
            ids = None
        return PendingRepair(distinct_ids=ids, event=selection.event)

    async def _find_ids(self, project_id: ProjectId, uuids: Sequence[str]) -> Sequence[str] | None:
        """Return the distinct ids of events, None if they are too many."""
        project = self._find_project(project_id)
        if project is None or len(uuids) > MAX_REPAIRED_IDS:
            return None
        context = QueryContext(project=project, cohorts={}, time=QueryTime(now=self._now, zone=UTC))
        query = SelectQuery(
            select=[field("distinct_id")],
            distinct=True,
            source=Join(table=field("events")),
            where=in_list(call("toString", field("uuid")), list(uuids)),
        )
        rows = (await self._executor.execute(context, lambda: query)).rows
        return [row[0] for row in rows]

    async def end_deletion(self, project_id: ProjectId, repair: PendingRepair) -> None:
        if repair.distinct_ids is None:
            await self._store.rebuild(project_id, self._now, event=repair.event)
        else:
            await self._store.forget(project_id, repair.distinct_ids)
            await self._count_again(project_id, repair.distinct_ids)
        await self._store.trust(project_id)

    async def _count_again(self, project_id: ProjectId, distinct_ids: Sequence[str]) -> None:
        """Count the remaining events of some distinct ids."""
        project = self._find_project(project_id)
        if project is None or not distinct_ids:
            return
        await self._wait_until_stored()
        part = in_list(field("distinct_id"), list(distinct_ids))
        if await self._has_any(project, part):
            for behavior in await self._store.list_behaviors(project_id):
                found = await self._read(project, behavior, part)
                await self._store.add(project_id, found, self._now)

    async def _has_any(self, project: Project, part: Expr) -> bool:
        context = QueryContext(project=project, cohorts={}, time=QueryTime(now=self._now, zone=UTC))
        query = SelectQuery(
            select=[constant(1)],
            source=Join(table=field("events")),
            where=part,
            limit=constant(1),
        )
        return bool((await self._executor.execute(context, lambda: query)).rows)


def _select_part(number: int, of: int) -> Expr:
    if of == 1:
        return constant(True)
    return equals(call("modulo", call("cityHash64", field("distinct_id")), constant(of)), number)


def _pack_row(row: Sequence[Any]) -> list[bytes]:
    _, first, latest = row
    times = [first, *((-time, uuid) for time, uuid in latest)]
    return [pack_occurrence(EPOCH + timedelta(microseconds=time), uuid) for time, uuid in times]
