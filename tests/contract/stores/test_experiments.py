"""Experiments: stored with their flags, all or nothing."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from hedgerow.errors import Invalid, NotFound
from hedgerow.experiments.experiments import Edit, Experiments
from hedgerow.experiments.model import Conclusion, ExperimentId, Status
from hedgerow.experiments.store import ExperimentQuery
from hedgerow.flags.board import FlagCache
from hedgerow.flags.flags import person_of
from hedgerow.flags.model import Flag
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.storage.experiments import ExperimentRecords
from hedgerow.storage.flags import FlagRecords
from hedgerow.storage.tables import flags
from tests.contract.stores.conftest import LATER, NOW, SOMEBODY, Stores, statements

ALL = ExperimentQuery(limit=100, offset=0)
METRICS = [{"metric_type": "mean", "source": {"event": "größer"}}]


def room(stores: Stores) -> Experiments:
    records = FlagRecords(stores.database)
    return Experiments(
        ExperimentRecords(stores.database, records), FlagCache(records, in_daemon_thread)
    )


async def flag_count(stores: Stores) -> int:
    counted = select(func.count()).select_from(flags)
    return int(await stores.database.read(lambda c: c.execute(counted).scalar_one()))


async def test_an_experiment_reads_back_as_it_was_made(stores: Stores) -> None:
    project = await stores.new_project()
    tried, records = room(stores), FlagRecords(stores.database)
    before = await records.generation(project.id)
    edit: Edit = {"name": "Größe", "metrics": METRICS, "rest": {"filters": {"ü": None}}}
    made = await tried.create(project, "size", edit, SOMEBODY, NOW)
    assert await records.generation(project.id) > before
    assert await tried.find(project, made[0].id) == made
    assert await tried.listing(project, ALL) == ([made], 1)
    assert await tried.by_flag(project) == {made[1].id: [made[0].id]}
    ending: Edit = {
        "start_date": NOW - timedelta(days=2),
        "end_date": LATER,
        "conclusion": Conclusion.LOST,
        "holdout": {"id": 1, "exclusion_percentage": 5},
    }
    changed = await tried.change(project, made[0].id, ending, SOMEBODY, LATER)
    assert await tried.find(project, made[0].id) == changed
    assert (changed[0].status, changed[1].active) == (Status.STOPPED, False)
    assert changed[1].filters["holdout"] == {"id": 1, "exclusion_percentage": 5}
    entries = await stores.entry_count()
    assert await tried.change(project, made[0].id, {}, SOMEBODY, LATER) == changed
    assert await stores.entry_count() == entries


async def test_a_refused_experiment_leaves_no_flag_and_no_trace(stores: Stores) -> None:
    project = await stores.new_project()
    tried = room(stores)
    before = await flag_count(stores), await stores.entry_count()
    edit: Edit = {"name": "One", "start_date": LATER, "end_date": NOW}
    with pytest.raises(Invalid, match="after start date"):
        await tried.create(project, "one", edit, SOMEBODY, NOW)
    with pytest.raises(NotFound):
        await tried.delete(project, ExperimentId(77), SOMEBODY, NOW)
    assert (await flag_count(stores), await stores.entry_count()) == before


async def test_lists_are_filtered_and_paged(stores: Stores) -> None:
    project, other = await stores.new_project(), await stores.new_project("Other")
    tried = room(stores)
    made = [
        await tried.create(project, f"key-{n}", {"name": f"100%_{n}"}, SOMEBODY, NOW)
        for n in range(3)
    ]
    await tried.create(other, "key", {"name": "Theirs"}, SOMEBODY, NOW)
    await tried.launch(project, made[0][0].id, SOMEBODY, NOW)
    await tried.delete(project, made[1][0].id, SOMEBODY, NOW)

    async def names(query: ExperimentQuery) -> list[str]:
        return [found.name for found, _ in (await tried.listing(project, query))[0]]

    with statements() as asked:
        assert await names(ALL) == ["100%_2", "100%_0"]
    assert len([each for each in asked if "FROM flags" in each]) == 1
    assert await names(ExperimentQuery(limit=1, offset=1)) == ["100%_0"]
    running = ExperimentQuery(status=Status.RUNNING, limit=9, offset=0)
    assert await names(running) == ["100%_0"]
    assert await names(replace(running, is_on=True)) == ["100%_0"]
    assert await names(replace(running, is_on=False)) == []
    assert len(await names(replace(ALL, created_by=person_of(SOMEBODY)))) == 2
    assert await names(replace(ALL, created_by="")) == []
    assert await names(ExperimentQuery(search="%_2", limit=9, offset=0)) == ["100%_2"]
    assert await names(ExperimentQuery(search="0_", limit=9, offset=0)) == []
    assert await names(ExperimentQuery(order="name", limit=9, offset=0)) == ["100%_0", "100%_2"]
    begun = ExperimentQuery(order="-start_date", limit=9, offset=0)
    assert await names(begun) == ["100%_0", "100%_2"]
    of_flag = ExperimentQuery(flag_id=made[2][1].id, limit=9, offset=0)
    assert await names(of_flag) == ["100%_2"]


async def test_of_many_who_launch_or_end_at_once_one_does(stores: Stores) -> None:
    project = await stores.new_project()
    tried = room(stores)
    made, _ = await tried.create(project, "busy", {"name": "Busy"}, SOMEBODY, NOW)
    launched = await asyncio.gather(
        *(tried.launch(project, made.id, SOMEBODY, NOW) for _ in range(4)), return_exceptions=True
    )
    assert [isinstance(each, Invalid) for each in launched].count(False) == 1
    ended = await asyncio.gather(
        *(
            tried.end(project, made.id, {"conclusion": each}, SOMEBODY, LATER)
            for each in (Conclusion.WON, Conclusion.LOST, Conclusion.INVALID)
        ),
        return_exceptions=True,
    )
    [(first, _)] = [each for each in ended if not isinstance(each, BaseException)]
    assert (await tried.find(project, made.id))[0].conclusion is first.conclusion


async def test_deleted_experiments_leave_room_for_others(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = await stores.new_project()
    tried = room(stores)
    monkeypatch.setattr("hedgerow.experiments.experiments.MAX_EXPERIMENTS", 1)
    first, _ = await tried.create(project, "one", {"name": "One"}, SOMEBODY, NOW)
    with pytest.raises(Invalid, match="1 experiments at most"):
        await tried.create(project, "two", {"name": "Two"}, SOMEBODY, NOW)
    await tried.delete(project, first.id, SOMEBODY, NOW)
    second, _ = await tried.create(project, "two", {"name": "Two"}, SOMEBODY, NOW)
    with pytest.raises(Invalid, match="1 experiments at most"):
        await tried.change(project, first.id, {"deleted": False}, SOMEBODY, NOW)
    assert (await tried.listing(project, ALL))[0][0][0].id == second.id


async def test_of_many_who_launch_at_once_each_sees_it_running_and_the_flag_is_switched_once(
    stores: Stores,
) -> None:
    project = await stores.new_project()
    tried = room(stores)
    made, _ = await tried.create(project, "busy", {"name": "Busy"}, SOMEBODY, NOW)

    async def flag_after() -> Flag:
        return (await tried.change(project, made.id, {"start_date": NOW}, SOMEBODY, NOW))[1]

    found = await asyncio.gather(*(flag_after() for _ in range(8)))
    assert {flag.version for flag in found} == {2}
    assert all(flag.active for flag in found)
