"""Flags that become stale are reported once, with the reason, and again after they were used."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import update

from hedgerow.flags.edits import FlagFields
from hedgerow.flags.flags import STALE_AFTER
from hedgerow.flags.model import FlagId
from hedgerow.flags.stale_flags import StaleFlagReports
from hedgerow.projects.activity import SYSTEM, RecordedActivity
from hedgerow.projects.model import Project
from hedgerow.storage.flags.stale_flags import SqlStaleFlagStore
from hedgerow.storage.tables import flags as table
from tests.contract.storage.conftest import ACTOR, NOW, Stores, build_flag_services

DAY = timedelta(days=1)


class World:
    def __init__(self, stores: Stores, project: Project) -> None:
        self.stores = stores
        self.project = project
        [self.flags] = build_flag_services(stores)

    async def create(self, key: str, **given: Any) -> FlagId:
        fields = FlagFields(key=key, filters={"groups": [{"rollout_percentage": 100}]}, **given)
        return (await self.flags.create(self.project, fields, ACTOR, NOW)).id

    async def mark_called(self, id: FlagId, at: datetime) -> None:
        called = update(table).where(table.c.id == id).values(last_called_at=at)
        await self.stores.database.write(lambda connection: connection.execute(called))

    async def run(self, at: datetime) -> list[str]:
        """Run the check in two processes, and return what they report together."""
        before = len(await self.list_reports())
        for _ in range(2):
            await StaleFlagReports(SqlStaleFlagStore(self.stores.database), lambda: at).run()
        found = await self.list_reports()
        return [each.entry.item_name for each in found[: len(found) - before]]

    async def list_reports(self) -> list[RecordedActivity]:
        entries = await self.stores.list_entries(scope="FeatureFlag")
        return [each for each in entries if each.entry.activity == "became_stale"]


async def test_each_stale_flag_is_reported_once_with_its_reason(stores: Stores) -> None:
    world = World(stores, await stores.new_project())
    whole, called = (
        await world.create("whole"),
        await world.create("called", owners=("team-checkout",)),
    )
    await world.mark_called(called, NOW + 10 * DAY)
    assert await world.run(NOW + STALE_AFTER - DAY) == []
    assert await world.run(NOW + STALE_AFTER) == ["whole"]
    assert await world.run(NOW + STALE_AFTER + 10 * DAY) == ["called"]
    reports = await world.list_reports()
    assert [each.entry.item_id for each in reports] == [str(called), str(whole)]
    assert [each.entry.detail["reason"] for each in reports] == [
        "Flag has not been called in 30 days",
        "Flag is fully rolled out and gives everybody the same value",
    ]
    assert reports[0].entry.detail["owners"] == ["team-checkout"]
    assert reports[1].entry.detail["owners"] == [ACTOR.email]
    assert all(each.entry.actor == SYSTEM for each in reports)
    assert all(each.entry.project_id == world.project.id for each in reports)


async def test_flag_that_is_used_again_can_become_stale_again(stores: Stores) -> None:
    world = World(stores, await stores.new_project())
    id = await world.create("again")
    later = NOW + STALE_AFTER
    assert await world.run(later) == ["again"]
    await world.mark_called(id, later)
    assert await world.run(later + DAY) == []
    assert await world.run(later + STALE_AFTER) == ["again"]


async def test_disabled_flags_and_those_of_deleted_projects_are_not_reported(
    stores: Stores,
) -> None:
    world = World(stores, await stores.new_project())
    id = await world.create("off")
    await world.flags.change(
        world.project, id, FlagFields(active=False), seen=None, actor=ACTOR, now=NOW
    )
    gone = World(stores, await stores.new_project("Gone"))
    await gone.create("gone")
    await stores.projects.delete_project(gone.project.id, ACTOR, NOW)
    assert await world.run(NOW + STALE_AFTER) == []
