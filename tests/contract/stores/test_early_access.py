"""Early access features: stored with their flags, all or nothing, one for each flag."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select, update

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.board import FlagCache
from hedgerow.flags.early_access import EarlyAccess, FeatureFields, Stage
from hedgerow.flags.edits import FlagFields
from hedgerow.flags.flags import Flags
from hedgerow.flags.model import Flag
from hedgerow.lib.sealing import SealingKeys, new_sealing_key
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.model import Project
from hedgerow.storage.early_access import FeatureRecords
from hedgerow.storage.flags import FlagRecords
from hedgerow.storage.tables import early_access_features, flags
from tests.contract.stores.conftest import NOW, SOMEBODY, Stores, statements


def room(stores: Stores) -> EarlyAccess:
    records = FlagRecords(stores.database)
    board = FlagCache(records, in_daemon_thread)
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


async def test_features_cost_the_same_however_many_there_are(stores: Stores) -> None:
    project = await stores.new_project()
    early = room(stores)

    async def cost() -> list[int]:
        with statements() as by_flag:
            found = await early.by_flag(project)
        with statements() as listed:
            assert len(await early.listing(project)) == len(found)
        return [len(by_flag), len(listed)]

    await early.create(project, fields("One"), None, SOMEBODY, NOW)
    alone = await cost()
    for n in range(5):
        await early.create(project, fields(f"F{n}"), None, SOMEBODY, NOW)
    assert await cost() == alone


async def test_a_feature_at_a_stage_of_another_version_is_shown_to_nobody(stores: Stores) -> None:
    project = await stores.new_project()
    early = room(stores)
    _, flag = await early.create(project, fields("One"), None, SOMEBODY, NOW)
    odd = update(early_access_features).values(stage="of-tomorrow")
    await stores.database.write(lambda c: c.execute(odd).close())
    [(found, _)] = await early.listing(project)
    assert not found.stage.is_public
    assert await early.by_flag(project) == {flag.id: found}


MANY_ANSWERS = {
    "groups": [{"properties": [], "rollout_percentage": 100}],
    "multivariate": {"variants": [{"key": "a", "rollout_percentage": 100}]},
    "feature_enrollment": True,
}


async def test_a_flag_that_nobody_could_choose_already_can_still_be_changed(
    stores: Stores,
) -> None:
    project = await stores.new_project()
    early, records = room(stores), FlagRecords(stores.database)
    board = FlagCache(records, in_daemon_thread)
    edits = Flags(records, board, SealingKeys([new_sealing_key()]))
    feature, flag = await early.create(project, fields("One"), None, SOMEBODY, NOW)

    async def change(**to: Any) -> Flag:
        return await edits.change(
            project, flag.id, FlagFields(**to), seen=None, actor=SOMEBODY, now=NOW
        )

    with pytest.raises(Invalid, match="Multivariate"):
        await change(filters=MANY_ANSWERS)
    odd = update(flags).where(flags.c.id == flag.id).values(filters=MANY_ANSWERS, version=2)
    await stores.database.write(lambda c: c.execute(odd).close())
    assert not (await change(active=False)).active
    _, changed = await early.change(
        project, feature.id, FeatureFields(stage=Stage.CONCEPT), SOMEBODY, NOW
    )
    assert "feature_enrollment" not in changed.filters
    await early.delete(project, feature.id, SOMEBODY, NOW)
    assert await early.listing(project) == []
