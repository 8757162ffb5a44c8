"""Early access features: stored with their flags, all or nothing, one for each flag."""

import asyncio

import pytest
from sqlalchemy import func, select

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.board import Board
from hedgerow.flags.early_access import EarlyAccess, FeatureFields, Stage
from hedgerow.kit.threads import in_daemon_thread
from hedgerow.projects.model import Project
from hedgerow.storage.early_access import FeatureRecords
from hedgerow.storage.flags import FlagRecords
from hedgerow.storage.tables import early_access_features, flags
from tests.contract.stores.conftest import NOW, SOMEBODY, Stores


def room(stores: Stores) -> EarlyAccess:
    records = FlagRecords(stores.database)
    board = Board(records, in_daemon_thread)
    return EarlyAccess(FeatureRecords(stores.database, records), board)


def fields(name: str, stage: Stage = Stage.BETA) -> FeatureFields:
    return FeatureFields(name=name, stage=stage, payload={"ü": [1, None]})


async def count(stores: Stores, table: object) -> int:
    statement = select(func.count()).select_from(table)  # type: ignore[arg-type]
    return int(await stores.database.read(lambda c: c.execute(statement).scalar_one()))


async def test_a_feature_reads_back_as_it_was_made_and_moves_the_flags_generation(
    stores: Stores,
) -> None:
    project = await stores.new_project()
    early, records = room(stores), FlagRecords(stores.database)
    before = await records.generation(project.id)
    made = await early.create(project, fields("Größe 1"), None, SOMEBODY, NOW)
    assert await records.generation(project.id) > before
    assert await early.listing(project) == [made]
    assert made[1].key == "gr-e-1"
    changed = await early.change(
        project, made[0].id, FeatureFields(stage=Stage.ARCHIVED), SOMEBODY, NOW
    )
    assert await early.find(project, made[0].id) == changed
    assert (changed[1].version, "feature_enrollment" in changed[1].filters) == (2, False)
    unchanged = await early.change(project, made[0].id, FeatureFields(), SOMEBODY, NOW)
    assert unchanged == changed


async def test_a_refused_feature_leaves_no_flag_and_no_trace(stores: Stores) -> None:
    project = await stores.new_project()
    early = room(stores)
    _, flag = await early.create(project, fields("One"), None, SOMEBODY, NOW)
    before = await count(stores, flags), await stores.entry_count()
    with pytest.raises(Invalid, match="already a feature flag"):
        await early.create(project, fields("One"), None, SOMEBODY, NOW)
    with pytest.raises(Invalid, match="already a feature linked"):
        await early.create(project, fields("Two"), flag.id, SOMEBODY, NOW)
    with pytest.raises(NotFound):
        await early.delete(project, "no-such", SOMEBODY, NOW)
    assert (await count(stores, flags), await stores.entry_count()) == before


async def test_of_many_who_want_one_flag_at_once_one_gets_it(stores: Stores) -> None:
    project = await stores.new_project()
    early = room(stores)
    feature, flag = await early.create(project, fields("Shared"), None, SOMEBODY, NOW)
    await early.delete(project, feature.id, SOMEBODY, NOW)

    async def tried(n: int, project: Project = project) -> bool:
        try:
            await early.create(project, fields(f"F{n}"), flag.id, SOMEBODY, NOW)
        except Invalid:
            return False
        return True

    assert sum(await asyncio.gather(*(tried(n) for n in range(8)))) == 1
    assert await count(stores, early_access_features) == 1
