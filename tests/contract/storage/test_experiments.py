"""Experiments are stored atomically with their flags."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from hedgerow.errors import Invalid, NotFound
from hedgerow.experiments.experiments import ExperimentEdit, Experiments
from hedgerow.experiments.model import Conclusion, ExperimentId, ExperimentStatus
from hedgerow.experiments.store import ExperimentQuery
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.flags import describe_actor
from hedgerow.flags.model import Flag
from hedgerow.lib.threads import run_in_thread
from hedgerow.storage.dashboards.actions import SqlActionStore
from hedgerow.storage.flags.experiments import SqlExperimentStore
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.tables import flags
from tests.contract.storage.conftest import ACTOR, LATER, NOW, Stores, record_statements

ALL = ExperimentQuery(limit=100, offset=0)
METRICS = [{"metric_type": "mean", "source": {"event": "größer"}}]


def build_service(stores: Stores) -> Experiments:
    records = SqlFlagStore(stores.database)
    return Experiments(
        SqlExperimentStore(stores.database, records),
        FlagCache(records, run_in_thread),
        SqlActionStore(stores.database),
    )


async def flag_count(stores: Stores) -> int:
    counted = select(func.count()).select_from(flags)
    return int(await stores.database.read(lambda c: c.execute(counted).scalar_one()))


async def test_experiment_round_trips(stores: Stores) -> None:
    project = await stores.new_project()
    service, records = build_service(stores), SqlFlagStore(stores.database)
    before = await records.generation(project.id)
    edit: ExperimentEdit = {"name": "Größe", "metrics": METRICS, "rest": {"filters": {"ü": None}}}
    created = await service.create(project, "size", edit, ACTOR, NOW)
    assert await records.generation(project.id) > before
    assert await service.find(project, created[0].id) == created
    assert await service.list_experiments(project, ALL) == ([created], 1)
    assert await service.list_ids_by_flag(project) == {created[1].id: [created[0].id]}
    ending: ExperimentEdit = {
        "start_date": NOW - timedelta(days=2),
        "end_date": LATER,
        "conclusion": Conclusion.LOST,
        "holdout": {"id": 1, "exclusion_percentage": 5},
    }
    changed = await service.change(project, created[0].id, ending, ACTOR, LATER)
    assert await service.find(project, created[0].id) == changed
    assert (changed[0].status, changed[1].active) == (ExperimentStatus.STOPPED, False)
    assert changed[1].filters["holdout"] == {"id": 1, "exclusion_percentage": 5}
    entries = await stores.count_entries()
    assert await service.change(project, created[0].id, {}, ACTOR, LATER) == changed
    assert await stores.count_entries() == entries


async def test_rejected_experiment_leaves_no_flag_and_no_audit_entry(stores: Stores) -> None:
    project = await stores.new_project()
    service = build_service(stores)
    before = await flag_count(stores), await stores.count_entries()
    edit: ExperimentEdit = {"name": "One", "start_date": LATER, "end_date": NOW}
    with pytest.raises(Invalid, match="after start date"):
        await service.create(project, "one", edit, ACTOR, NOW)
    with pytest.raises(NotFound):
        await service.delete(project, ExperimentId(77), ACTOR, NOW)
    assert (await flag_count(stores), await stores.count_entries()) == before


async def test_lists_are_filtered_and_paged(stores: Stores) -> None:
    project, other = await stores.new_project(), await stores.new_project("Other")
    service = build_service(stores)
    created = [
        await service.create(project, f"key-{n}", {"name": f"100%_{n}"}, ACTOR, NOW)
        for n in range(3)
    ]
    await service.create(other, "key", {"name": "Theirs"}, ACTOR, NOW)
    await service.launch(project, created[0][0].id, ACTOR, NOW)
    await service.delete(project, created[1][0].id, ACTOR, NOW)

    async def list_names(query: ExperimentQuery) -> list[str]:
        return [found.name for found, _ in (await service.list_experiments(project, query))[0]]

    with record_statements() as executed:
        assert await list_names(ALL) == ["100%_2", "100%_0"]
    assert len([each for each in executed if "FROM flags" in each]) == 1
    assert await list_names(ExperimentQuery(limit=1, offset=1)) == ["100%_0"]
    running = ExperimentQuery(status=ExperimentStatus.RUNNING, limit=9, offset=0)
    assert await list_names(running) == ["100%_0"]
    assert await list_names(replace(running, is_on=True)) == ["100%_0"]
    assert await list_names(replace(running, is_on=False)) == []
    assert len(await list_names(replace(ALL, created_by=describe_actor(ACTOR)))) == 2
    assert await list_names(replace(ALL, created_by="")) == []
    assert await list_names(ExperimentQuery(search="%_2", limit=9, offset=0)) == ["100%_2"]
    assert await list_names(ExperimentQuery(search="0_", limit=9, offset=0)) == []
    assert await list_names(ExperimentQuery(order="name", limit=9, offset=0)) == [
        "100%_0",
        "100%_2",
    ]
    by_start_date = ExperimentQuery(order="-start_date", limit=9, offset=0)
    assert await list_names(by_start_date) == ["100%_0", "100%_2"]
    of_flag = ExperimentQuery(flag_id=created[2][1].id, limit=9, offset=0)
    assert await list_names(of_flag) == ["100%_2"]


async def test_concurrent_launches_or_ends_take_effect_once(stores: Stores) -> None:
    project = await stores.new_project()
    service = build_service(stores)
    created, _ = await service.create(project, "busy", {"name": "Busy"}, ACTOR, NOW)
    launched = await asyncio.gather(
        *(service.launch(project, created.id, ACTOR, NOW) for _ in range(4)), return_exceptions=True
    )
    assert [isinstance(each, Invalid) for each in launched].count(False) == 1
    ended = await asyncio.gather(
        *(
            service.end(project, created.id, {"conclusion": each}, ACTOR, LATER)
            for each in (Conclusion.WON, Conclusion.LOST, Conclusion.INVALID)
        ),
        return_exceptions=True,
    )
    [(first, _)] = [each for each in ended if not isinstance(each, BaseException)]
    assert (await service.find(project, created.id))[0].conclusion is first.conclusion


async def test_deleted_experiments_do_not_count_towards_the_limit(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = await stores.new_project()
    service = build_service(stores)
    monkeypatch.setattr("hedgerow.experiments.experiments.MAX_EXPERIMENTS", 1)
    first, _ = await service.create(project, "one", {"name": "One"}, ACTOR, NOW)
    with pytest.raises(Invalid, match="at most 1 experiments"):
        await service.create(project, "two", {"name": "Two"}, ACTOR, NOW)
    await service.delete(project, first.id, ACTOR, NOW)
    second, _ = await service.create(project, "two", {"name": "Two"}, ACTOR, NOW)
    with pytest.raises(Invalid, match="at most 1 experiments"):
        await service.change(project, first.id, {"deleted": False}, ACTOR, NOW)
    assert (await service.list_experiments(project, ALL))[0][0][0].id == second.id


async def test_concurrent_launches_enable_the_flag_once(
    stores: Stores,
) -> None:
    project = await stores.new_project()
    service = build_service(stores)
    created, _ = await service.create(project, "busy", {"name": "Busy"}, ACTOR, NOW)

    async def launch_and_get_flag() -> Flag:
        return (await service.change(project, created.id, {"start_date": NOW}, ACTOR, NOW))[1]

    found = await asyncio.gather(*(launch_and_get_flag() for _ in range(8)))
    assert {flag.version for flag in found} == {2}
    assert all(flag.active for flag in found)
