"""Surveys: stored with their flags, all or nothing, and seen by other processes."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.board import Board
from hedgerow.kit.threads import in_daemon_thread
from hedgerow.projects.model import Project
from hedgerow.storage.flags import FlagRecords
from hedgerow.storage.surveys import SurveyRecords
from hedgerow.storage.tables import flags, surveys
from hedgerow.surveys.board import NONE, SurveyBoard
from hedgerow.surveys.model import Schedule, SurveyType
from hedgerow.surveys.surveys import Surveys, Wish
from tests.contract.stores.conftest import NOW, SOMEBODY, Stores

SOME = {"groups": [{"properties": [], "rollout_percentage": 10}]}


class Process:
    """What one process has of surveys."""

    def __init__(self, stores: Stores) -> None:
        records = FlagRecords(stores.database)
        self.store = SurveyRecords(stores.database, records)
        self.board = SurveyBoard(self.store, in_daemon_thread)
        self.surveys = Surveys(self.store, self.board, Board(records, in_daemon_thread))


def wish(name: str = "Größe", **fields: object) -> Wish:
    return Wish(fields={"name": name, "type": SurveyType.API, **fields})


async def count(stores: Stores, table: object) -> int:
    statement = select(func.count()).select_from(table)  # type: ignore[arg-type]
    return int(await stores.database.read(lambda c: c.execute(statement).scalar_one()))


async def test_a_survey_reads_back_as_it_was_made(stores: Stores) -> None:
    project = await stores.new_project()
    room = Process(stores).surveys
    whole = Wish(
        fields={
            "name": "Größe",
            "description": "d",
            "type": SurveyType.POPOVER,
            "schedule": Schedule.RECURRING,
            "questions": [{"id": "q", "question": "ü?", "choices": ["\U0001f600"]}],
            "conditions": {"url": "/"},
            "appearance": {"borderColor": "#fff"},
            "translations": {"de": {}},
            "start_date": NOW - timedelta(days=8),
            "responses_limit": 7,
            "iteration_count": 3,
            "iteration_frequency_days": 7,
            "enable_partial_responses": True,
        },
        targeting_filters=SOME,
    )
    made = await room.create(project, whole, SOMEBODY, NOW)
    assert (made.survey.current_iteration, made.internal.active) == (2, True)
    assert made.targeting is not None
    assert await Process(stores).surveys.listing(project) == [made]
    changed = await room.change(
        project, made.survey.id, Wish(fields={"schedule": None}), SOMEBODY, NOW
    )
    assert changed.survey.schedule is None
    assert await Process(stores).surveys.find(project, made.survey.id) == changed
    entries = await stores.entry_count()
    assert await room.change(project, made.survey.id, Wish(), SOMEBODY, NOW) == changed
    assert await stores.entry_count() == entries


async def test_a_refused_survey_leaves_no_flag_and_no_trace(stores: Stores) -> None:
    project = await stores.new_project()
    room = Process(stores).surveys
    made = await room.create(project, wish(), SOMEBODY, NOW)
    before = await count(stores, flags), await count(stores, surveys), await stores.entry_count()
    with pytest.raises(Invalid, match="already a survey"):
        await room.create(project, wish(), SOMEBODY, NOW)
    everybody = {"groups": [{"properties": [], "rollout_percentage": 100}]}
    with pytest.raises(Invalid, match="rolls out to everyone"):
        await room.change(
            project,
            made.survey.id,
            Wish(fields={"name": "other"}, targeting_filters=everybody),
            SOMEBODY,
            NOW,
        )
    for gone in (room.delete, lambda *of: room.change(of[0], of[1], Wish(), of[2], of[3])):
        with pytest.raises(NotFound):
            await gone(project, "no-such", SOMEBODY, NOW)
    after = await count(stores, flags), await count(stores, surveys), await stores.entry_count()
    assert after == before


async def test_of_many_who_want_one_name_at_once_one_gets_it(stores: Stores) -> None:
    project = await stores.new_project()
    room = Process(stores).surveys

    async def tried(project: Project = project) -> bool:
        try:
            await room.create(project, wish("One"), SOMEBODY, NOW)
        except Invalid:
            return False
        return True

    assert sum(await asyncio.gather(*(tried() for _ in range(8)))) == 1
    assert len(await room.listing(project)) == 1


async def test_another_process_sees_what_pages_are_told_change(stores: Stores) -> None:
    project, other = await stores.new_project(), await stores.new_project("Other")
    here, there = Process(stores), Process(stores)
    await there.board.watch()
    assert there.board.of(project.id) is NONE
    made = await here.surveys.create(project, wish(start_date=NOW), SOMEBODY, NOW)
    await there.board.watch()
    seen = there.board.of(project.id)
    assert seen.any_runs
    assert list(seen.surveys) == [made]
    assert set(seen.owned_flags) == {made.internal.id}
    assert made.survey.id.encode() in seen.body
    await there.board.watch()
    assert there.board.of(project.id) is seen
    await here.surveys.delete(project, made.survey.id, SOMEBODY, NOW)
    await there.board.watch()
    assert there.board.of(project.id).body == NONE.body
    assert there.board.of(other.id) is NONE
