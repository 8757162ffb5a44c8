"""Scheduled changes are executed once, together with the change of the flag."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.model import Flag
from hedgerow.flags.schedules.model import ScheduledChange
from hedgerow.flags.schedules.runner import AUTHOR_GONE, ScheduledChangeRunner
from hedgerow.flags.schedules.scheduled_changes import Plan, ScheduleAuthor, ScheduledChanges
from hedgerow.flags.schedules.store import ScheduledChangeFilter
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project
from hedgerow.projects.recurrence import Frequency
from hedgerow.storage.flags.scheduled_changes import SqlScheduledChangeStore
from tests.contract.storage.conftest import ACTOR, NOW, NoCache, PlainCipher, Stores
from tests.contract.storage.flags.test_flags import put_flag

AT = NOW + timedelta(hours=1)
OFF = {"operation": "update_status", "value": False}
COMMAND = ScheduleAuthor(actor=ACTOR)


class World:
    """A flag, and the processes that execute its changes at `now`."""

    def __init__(self, stores: Stores, project: Project, flag: Flag) -> None:
        self.stores, self.project, self.flag = stores, project, flag
        self.store = SqlScheduledChangeStore(stores.database, stores.flags)
        self.changes = ScheduledChanges(self.store)
        self.now = NOW

    async def schedule(self, author: ScheduleAuthor = COMMAND, **plan: Any) -> ScheduledChange:
        fields = {"payload": OFF, "scheduled_at": AT, **plan}
        made = await self.changes.create(
            self.project, self.flag.id, [Plan(**fields)], author, self.now
        )
        return made[0]

    def build_runner(self) -> ScheduledChangeRunner:
        async def prepare(_: object) -> None: ...

        cache: Any = NoCache()
        return ScheduledChangeRunner(
            self.store,
            cache,
            Directory(self.stores.directory, lambda: self.now, lambda: 0.0),
            PlainCipher,
            prepare,
            lambda: self.now,
        )

    async def run_at(self, moment: datetime) -> None:
        self.now = moment
        await self.build_runner().execute_due()

    async def find(self, change: ScheduledChange) -> ScheduledChange:
        return await self.changes.find(self.project, change.id)

    async def find_flag(self) -> Flag:
        found = await self.stores.flags.flag(self.project.id, self.flag.id)
        assert found is not None
        return found

    async def list_triggers(self) -> list[Any]:
        entries = await self.stores.list_entries()
        return [
            (each.entry.activity, each.entry.actor.email, each.entry.detail.get("trigger"))
            for each in entries
            if each.entry.scope == "FeatureFlag" and each.entry.detail
        ]


@pytest.fixture
async def world(stores: Stores) -> World:
    project = await stores.new_project()
    return World(stores, project, await put_flag(stores, project_id=project.id))


async def test_change_is_executed_once_by_many_processes(world: World) -> None:
    change = await world.schedule()
    await world.run_at(AT - timedelta(seconds=1))
    assert (await world.find_flag()).active
    world.now = AT
    await asyncio.gather(*(world.build_runner().execute_due() for _ in range(6)))
    flag = await world.find_flag()
    assert (flag.active, flag.version) == (False, world.flag.version + 1)
    trigger = {"job_type": "scheduled_change", "job_id": str(change.id), "payload": OFF}
    assert await world.list_triggers() == [("updated", ACTOR.email, trigger)]
    done = await world.find(change)
    assert (done.executed_at, done.failure_reason) == (AT, "")


async def test_missed_times_are_made_up_for_once(world: World) -> None:
    daily = await world.schedule(recurrence_interval=Frequency.DAILY)
    late = AT + timedelta(days=3, hours=5)
    await world.run_at(late)
    assert (await world.find_flag()).version == world.flag.version + 1
    after = await world.find(daily)
    assert (after.last_executed_at, after.executed_at) == (late, None)
    assert after.scheduled_at == AT + timedelta(days=4)


async def test_recurring_change_ends(world: World) -> None:
    change = await world.schedule(
        recurrence_interval=Frequency.WEEKLY, end_date=AT + timedelta(days=8)
    )
    await world.run_at(AT)
    assert (await world.find(change)).scheduled_at == AT + timedelta(days=7)
    await world.run_at(AT + timedelta(days=7))
    assert (await world.find(change)).executed_at == AT + timedelta(days=7)


async def test_change_that_is_not_possible_fails_and_says_why(world: World) -> None:
    plan = {"operation": "update_rollout", "value": {"rollout_percentage": 20}}
    change = await world.schedule(payload=plan)
    two = {"groups": [{"rollout_percentage": 1}, {"rollout_percentage": 2}]}
    await put_flag(world.stores, replace(world.flag, filters=two))
    await world.run_at(AT)
    failed = await world.find(change)
    assert failed.executed_at == AT
    assert failed.failure_reason.startswith("The flag has 2 conditions.")
    assert (await world.find_flag()).filters == two


async def test_change_of_a_person_without_the_right_fails(world: World) -> None:
    change = await world.schedule(ScheduleAuthor(actor=ACTOR, user_uuid="has-left"))
    await world.run_at(AT)
    assert (await world.find(change)).failure_reason == AUTHOR_GONE
    assert (await world.find_flag()).active


async def test_steps_are_stored_all_or_none(world: World) -> None:
    plans = [
        Plan(
            payload={"operation": "update_rollout", "value": {"rollout_percentage": percentage}},
            scheduled_at=NOW + timedelta(days=day),
        )
        for day, percentage in ((1, 10), (2, 50), (-1, 100))
    ]
    with pytest.raises(Invalid, match="future"):
        await world.changes.create(world.project, world.flag.id, plans, COMMAND, NOW)
    wanted = ScheduledChangeFilter(flag_id=world.flag.id)
    assert await world.changes.list_changes(world.project, wanted) == ([], 0)


async def test_cancelled_change_is_not_executed(world: World) -> None:
    change = await world.schedule()
    await world.changes.cancel(world.project, change.id, ACTOR, NOW)
    await world.run_at(AT)
    assert (await world.find_flag()).active


async def test_change_cannot_be_edited_after_its_execution(world: World) -> None:
    change = await world.schedule()
    await world.run_at(AT)
    later = {"scheduled_at": AT + timedelta(days=9)}
    with pytest.raises(Conflict):
        await world.changes.change(world.project, change.id, later, COMMAND, AT)
    # It was read before another process executed it.
    entry = (await world.stores.list_entries())[0].entry
    assert not await world.store.delete(change, entry, AT)


async def test_due_changes_take_turns_by_project(world: World) -> None:
    first = [await world.schedule() for _ in range(3)]
    project = await world.stores.new_project("Other")
    other = World(world.stores, project, await put_flag(world.stores, project_id=project.id))
    late = await other.schedule()
    due = await world.store.due(AT, 3)
    assert [each.id for each in due] == [first[0].id, late.id, first[1].id]
