"""Surveys: stored with their flags, all or nothing, and seen by other processes."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.board import FlagCache
from hedgerow.flags.edits import FlagFields
from hedgerow.flags.flags import Flags
from hedgerow.lib.sealing import SealingKeys, new_sealing_key
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.model import Project
from hedgerow.storage.flags import FlagRecords
from hedgerow.storage.surveys import SurveyRecords
from hedgerow.storage.tables import flags, surveys
from hedgerow.surveys.board import NONE, SurveyBoard
from hedgerow.surveys.keeping import Keeping
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
        board = FlagCache(records, in_daemon_thread)
        self.surveys = Surveys(self.store, self.board, board)
        self.flags = Flags(records, board, SealingKeys([new_sealing_key()]))


def wish(name: str = "Größe", **fields: Any) -> Wish:
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


class Answered:
    """How many have answered, as somebody says."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def counts(
        self, project: Project, ids: Sequence[str], after: datetime, now: datetime
    ) -> Mapping[str, int]:
        return dict.fromkeys(ids, self.number)


def keeping(process: Process, project: Project, answers: int, now: datetime) -> Keeping:
    async def projects() -> list[Project]:
        return [project]

    return Keeping(process.surveys, process.board, Answered(answers), projects, lambda: now)


async def test_the_next_iteration_begins_by_itself_and_once(stores: Stores) -> None:
    project = await stores.new_project()
    maker, one, other = (Process(stores) for _ in range(3))
    fields: dict[str, Any] = {
        "start_date": NOW,
        "iteration_count": 3,
        "iteration_frequency_days": 7,
    }
    made = await maker.surveys.create(project, wish(**fields), SOMEBODY, NOW)
    later = NOW + timedelta(days=8)
    await keeping(one, project, 0, NOW).keep()
    assert await maker.surveys.find(project, made.survey.id) == made
    await asyncio.gather(*(keeping(each, project, 0, later).keep() for each in (one, other)))
    found = await maker.surveys.find(project, made.survey.id)
    assert (found.survey.current_iteration, found.internal.version) == (2, 2)
    assert f"{made.survey.id}/2" in str(found.internal.filters)
    assert f"{made.survey.id}/1" not in str(found.internal.filters)


async def test_a_survey_with_answers_enough_ends_by_itself_and_once(stores: Stores) -> None:
    project = await stores.new_project()
    maker, one, other = (Process(stores) for _ in range(3))
    made = await maker.surveys.create(
        project, wish(start_date=NOW, responses_limit=5), SOMEBODY, NOW
    )
    await maker.surveys.create(project, wish("Unlimited", start_date=NOW), SOMEBODY, NOW)
    await keeping(one, project, 4, NOW).keep()
    assert (await maker.surveys.find(project, made.survey.id)).survey.is_running
    entries = await stores.entry_count()
    later = [NOW + timedelta(minutes=n) for n in (1, 2)]
    await asyncio.gather(
        *(
            keeping(each, project, 5, at).keep()
            for each, at in zip((one, other), later, strict=True)
        )
    )
    ended = await maker.surveys.find(project, made.survey.id)
    assert ended.survey.end_date in later
    assert not ended.internal.active
    assert await stores.entry_count() == entries + 2  # the survey's and its flag's
    assert sum(each.survey.is_running for each in await maker.surveys.listing(project)) == 1


async def test_one_survey_that_cannot_be_changed_keeps_no_other_from_it(stores: Stores) -> None:
    """A flag that another depends on cannot be switched off."""
    project = await stores.new_project()
    process = Process(stores)
    limited: dict[str, Any] = {"start_date": NOW, "responses_limit": 5}
    needed = await process.surveys.create(project, wish("Needed", **limited), SOMEBODY, NOW)
    other = await process.surveys.create(project, wish("Other", **limited), SOMEBODY, NOW)
    id = str(needed.internal.id)
    asks = {"key": id, "type": "flag", "operator": "flag_evaluates_to", "value": True}
    fields = FlagFields(key="child", filters={"groups": [{"properties": [asks]}]})
    await process.flags.create(project, fields, SOMEBODY, NOW)
    with pytest.raises(Invalid, match="depend on it"):
        await keeping(process, project, 5, NOW).keep()
    running = [
        each.survey.id for each in await process.surveys.listing(project) if each.survey.is_running
    ]
    assert running == [needed.survey.id] != [other.survey.id]


@pytest.mark.parametrize("odd", [{"type": "of-tomorrow"}, {"schedule": "of-tomorrow"}])
async def test_a_survey_of_another_version_is_left_out_and_holds_nobody_up(
    stores: Stores, odd: Mapping[str, str]
) -> None:
    project, other = await stores.new_project(), await stores.new_project("Other")
    here, there = Process(stores), Process(stores)
    strange = await here.surveys.create(project, wish(), SOMEBODY, NOW)
    plain = await here.surveys.create(project, wish("Plain", start_date=NOW), SOMEBODY, NOW)
    others = await here.surveys.create(other, wish(start_date=NOW), SOMEBODY, NOW)
    own = surveys.c.id == strange.survey.id
    await stores.database.write(
        lambda c: c.execute(update(surveys).where(own).values(**odd)).close()
    )
    await keeping(there, project, 0, NOW).keep()
    assert list(there.board.of(project.id).surveys) == [plain]
    assert list(there.board.of(other.id).surveys) == [others]
    await there.surveys.delete(project, plain.survey.id, SOMEBODY, NOW)
    assert await count(stores, surveys) == 2
