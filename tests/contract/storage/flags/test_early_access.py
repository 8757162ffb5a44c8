"""Early access features are stored atomically with their flags, one per flag."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import func, select, update

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.early_access import EarlyAccessFeatures, EarlyAccessFields, FeatureStage
from hedgerow.flags.edits import FlagFields
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.flags import Flags
from hedgerow.flags.model import Flag
from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.model import Project
from hedgerow.storage.flags.early_access import SqlFeatureStore
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.tables import early_access_features, flags
from tests.contract.storage.conftest import ACTOR, NOW, Stores, record_statements


def build_service(stores: Stores) -> EarlyAccessFeatures:
    records = SqlFlagStore(stores.database)
    cache = FlagCache(records, run_in_thread)
    return EarlyAccessFeatures(SqlFeatureStore(stores.database, records), cache)


def fields(name: str, stage: FeatureStage = FeatureStage.BETA) -> EarlyAccessFields:
    return EarlyAccessFields(name=name, stage=stage, payload={"ü": [1, None]})


async def count(stores: Stores, table: object) -> int:
    statement = select(func.count()).select_from(table)  # type: ignore[arg-type]
    return int(await stores.database.read(lambda c: c.execute(statement).scalar_one()))


async def test_feature_round_trips_and_advances_the_flags_generation(
    stores: Stores,
) -> None:
    project = await stores.new_project()
    early, records = build_service(stores), SqlFlagStore(stores.database)
    before = await records.generation(project.id)
    created = await early.create(project, fields("Größe 1"), None, ACTOR, NOW)
    assert await records.generation(project.id) > before
    assert await early.list_features(project) == [created]
    assert created[1].key == "gr-e-1"
    changed = await early.change(
        project, created[0].id, EarlyAccessFields(stage=FeatureStage.ARCHIVED), ACTOR, NOW
    )
    assert await early.find(project, created[0].id) == changed
    assert (changed[1].version, "feature_enrollment" in changed[1].filters) == (2, False)
    unchanged = await early.change(project, created[0].id, EarlyAccessFields(), ACTOR, NOW)
    assert unchanged == changed


async def test_rejected_feature_leaves_no_flag_and_no_audit_entry(stores: Stores) -> None:
    project = await stores.new_project()
    early = build_service(stores)
    _, flag = await early.create(project, fields("One"), None, ACTOR, NOW)
    before = await count(stores, flags), await stores.count_entries()
    with pytest.raises(Invalid, match="already a feature flag"):
        await early.create(project, fields("One"), None, ACTOR, NOW)
    with pytest.raises(Invalid, match="already a feature linked"):
        await early.create(project, fields("Two"), flag.id, ACTOR, NOW)
    with pytest.raises(NotFound):
        await early.delete(project, "no-such", ACTOR, NOW)
    assert (await count(stores, flags), await stores.count_entries()) == before


async def test_concurrent_features_cannot_share_a_flag(stores: Stores) -> None:
    project = await stores.new_project()
    early = build_service(stores)
    feature, flag = await early.create(project, fields("Shared"), None, ACTOR, NOW)
    await early.delete(project, feature.id, ACTOR, NOW)

    async def try_create(n: int, project: Project = project) -> bool:
        try:
            await early.create(project, fields(f"F{n}"), flag.id, ACTOR, NOW)
        except Invalid:
            return False
        return True

    assert sum(await asyncio.gather(*(try_create(n) for n in range(8)))) == 1
    assert await count(stores, early_access_features) == 1


async def test_listing_features_uses_a_constant_number_of_statements(stores: Stores) -> None:
    project = await stores.new_project()
    early = build_service(stores)

    async def cost() -> list[int]:
        with record_statements() as by_flag:
            found = await early.by_flag(project)
        with record_statements() as listed:
            assert len(await early.list_features(project)) == len(found)
        return [len(by_flag), len(listed)]

    await early.create(project, fields("One"), None, ACTOR, NOW)
    alone = await cost()
    for n in range(5):
        await early.create(project, fields(f"F{n}"), None, ACTOR, NOW)
    assert await cost() == alone


async def test_feature_at_an_unknown_stage_is_a_draft(stores: Stores) -> None:
    project = await stores.new_project()
    early = build_service(stores)
    _, flag = await early.create(project, fields("One"), None, ACTOR, NOW)
    odd = update(early_access_features).values(stage="of-tomorrow")
    await stores.database.write(lambda c: c.execute(odd).close())
    [(found, _)] = await early.list_features(project)
    assert not found.stage.is_public
    assert await early.by_flag(project) == {flag.id: found}


MANY_ANSWERS = {
    "groups": [{"properties": [], "rollout_percentage": 100}],
    "multivariate": {"variants": [{"key": "a", "rollout_percentage": 100}]},
    "feature_enrollment": True,
}


async def test_unsuitable_flag_of_a_feature_can_still_be_changed(
    stores: Stores,
) -> None:
    project = await stores.new_project()
    early, records = build_service(stores), SqlFlagStore(stores.database)
    cache = FlagCache(records, run_in_thread)
    edits = Flags(records, cache, EncryptionKeys([generate_encryption_key()]))
    feature, flag = await early.create(project, fields("One"), None, ACTOR, NOW)

    async def change(**to: Any) -> Flag:
        return await edits.change(
            project, flag.id, FlagFields(**to), seen=None, actor=ACTOR, now=NOW
        )

    with pytest.raises(Invalid, match="Multivariate"):
        await change(filters=MANY_ANSWERS)
    odd = update(flags).where(flags.c.id == flag.id).values(filters=MANY_ANSWERS, version=2)
    await stores.database.write(lambda c: c.execute(odd).close())
    assert not (await change(active=False)).active
    _, changed = await early.change(
        project, feature.id, EarlyAccessFields(stage=FeatureStage.CONCEPT), ACTOR, NOW
    )
    assert "feature_enrollment" not in changed.filters
    await early.delete(project, feature.id, ACTOR, NOW)
    assert await early.list_features(project) == []
