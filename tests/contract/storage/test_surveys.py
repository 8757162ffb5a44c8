"""Surveys are stored atomically with their flags and visible to other processes."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.edits import FlagFields
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.flags import Flags
from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.model import Project
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.flags.surveys import SqlSurveyStore
from hedgerow.storage.tables import flags, surveys
from hedgerow.surveys.cache import NO_SURVEYS, SurveyCache
from hedgerow.surveys.lifecycle import SurveyLifecycle
from hedgerow.surveys.model import SurveySchedule, SurveyType
from hedgerow.surveys.surveys import SurveyEdit, Surveys
from tests.contract.storage.conftest import ACTOR, NOW, Stores

SOME = {"groups": [{"properties": [], "rollout_percentage": 10}]}


class Process:
    """The survey services of one process."""

    def __init__(self, stores: Stores) -> None:
        records = SqlFlagStore(stores.database)
        self.store = SqlSurveyStore(stores.database, records)
        self.survey_cache = SurveyCache(self.store, run_in_thread)
        survey_cache = FlagCache(records, run_in_thread)
        self.surveys = Surveys(self.store, self.survey_cache, survey_cache)
        self.flags = Flags(records, survey_cache, EncryptionKeys([generate_encryption_key()]))


def build_edit(name: str = "Größe", **fields: Any) -> SurveyEdit:
    return SurveyEdit(fields={"name": name, "type": SurveyType.API, **fields})


async def count(stores: Stores, table: object) -> int:
    statement = select(func.count()).select_from(table)  # type: ignore[arg-type]
    return int(await stores.database.read(lambda c: c.execute(statement).scalar_one()))


async def test_survey_round_trips(stores: Stores) -> None:
    project = await stores.new_project()
    service = Process(stores).surveys
    whole = SurveyEdit(
        fields={
            "name": "Größe",
            "description": "d",
            "type": SurveyType.POPOVER,
            "schedule": SurveySchedule.RECURRING,
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
    created = await service.create(project, whole, ACTOR, NOW)
    assert (created.survey.current_iteration, created.internal.active) == (2, True)
    assert created.targeting is not None
    assert await Process(stores).surveys.list_surveys(project) == [created]
    changed = await service.change(
        project, created.survey.id, SurveyEdit(fields={"schedule": None}), ACTOR, NOW
    )
    assert changed.survey.schedule is None
    assert await Process(stores).surveys.find(project, created.survey.id) == changed
    entries = await stores.count_entries()
    assert await service.change(project, created.survey.id, SurveyEdit(), ACTOR, NOW) == changed
    assert await stores.count_entries() == entries


async def test_rejected_survey_leaves_no_flag_and_no_audit_entry(stores: Stores) -> None:
    project = await stores.new_project()
    service = Process(stores).surveys
    created = await service.create(project, build_edit(), ACTOR, NOW)
    before = await count(stores, flags), await count(stores, surveys), await stores.count_entries()
    with pytest.raises(Invalid, match="already a survey"):
        await service.create(project, build_edit(), ACTOR, NOW)
    everybody = {"groups": [{"properties": [], "rollout_percentage": 100}]}
    with pytest.raises(Invalid, match="rolls out to everyone"):
        await service.change(
            project,
            created.survey.id,
            SurveyEdit(fields={"name": "other"}, targeting_filters=everybody),
            ACTOR,
            NOW,
        )
    for gone in (
        service.delete,
        lambda *of: service.change(of[0], of[1], SurveyEdit(), of[2], of[3]),
    ):
        with pytest.raises(NotFound):
            await gone(project, "no-such", ACTOR, NOW)
    after = await count(stores, flags), await count(stores, surveys), await stores.count_entries()
    assert after == before


async def test_concurrent_surveys_cannot_share_a_name(stores: Stores) -> None:
    project = await stores.new_project()
    service = Process(stores).surveys

    async def try_create(project: Project = project) -> bool:
        try:
            await service.create(project, build_edit("One"), ACTOR, NOW)
        except Invalid:
            return False
        return True

    assert sum(await asyncio.gather(*(try_create() for _ in range(8)))) == 1
    assert len(await service.list_surveys(project)) == 1


async def test_other_process_sees_survey_changes(stores: Stores) -> None:
    project, other = await stores.new_project(), await stores.new_project("Other")
    here, there = Process(stores), Process(stores)
    await there.survey_cache.refresh_changed()
    assert there.survey_cache.get(project.id) is NO_SURVEYS
    created = await here.surveys.create(project, build_edit(start_date=NOW), ACTOR, NOW)
    await there.survey_cache.refresh_changed()
    seen = there.survey_cache.get(project.id)
    assert seen.has_running
    assert list(seen.surveys) == [created]
    assert set(seen.owned_flags) == {created.internal.id}
    assert created.survey.id.encode() in seen.body
    await there.survey_cache.refresh_changed()
    assert there.survey_cache.get(project.id) is seen
    await here.surveys.delete(project, created.survey.id, ACTOR, NOW)
    await there.survey_cache.refresh_changed()
    assert there.survey_cache.get(project.id).body == NO_SURVEYS.body
    assert there.survey_cache.get(other.id) is NO_SURVEYS


class FixedResponseCounts:
    """Reports a fixed number of responses."""

    def __init__(self, number: int) -> None:
        self.number = number

    async def count_responses(
        self, project: Project, ids: Sequence[str], after: datetime, now: datetime
    ) -> Mapping[str, int]:
        return dict.fromkeys(ids, self.number)


def build_lifecycle(
    process: Process, project: Project, answers: int, now: datetime
) -> SurveyLifecycle:
    async def projects() -> list[Project]:
        return [project]

    return SurveyLifecycle(
        process.surveys, process.survey_cache, FixedResponseCounts(answers), projects, lambda: now
    )


async def test_next_iteration_starts_automatically_once(stores: Stores) -> None:
    project = await stores.new_project()
    maker, one, other = (Process(stores) for _ in range(3))
    fields: dict[str, Any] = {
        "start_date": NOW,
        "iteration_count": 3,
        "iteration_frequency_days": 7,
    }
    created = await maker.surveys.create(project, build_edit(**fields), ACTOR, NOW)
    later = NOW + timedelta(days=8)
    await build_lifecycle(one, project, 0, NOW).advance()
    assert await maker.surveys.find(project, created.survey.id) == created
    await asyncio.gather(
        *(build_lifecycle(each, project, 0, later).advance() for each in (one, other))
    )
    found = await maker.surveys.find(project, created.survey.id)
    assert (found.survey.current_iteration, found.internal.version) == (2, 2)
    assert f"{created.survey.id}/2" in str(found.internal.filters)
    assert f"{created.survey.id}/1" not in str(found.internal.filters)


async def test_survey_with_enough_responses_ends_automatically_once(stores: Stores) -> None:
    project = await stores.new_project()
    maker, one, other = (Process(stores) for _ in range(3))
    created = await maker.surveys.create(
        project, build_edit(start_date=NOW, responses_limit=5), ACTOR, NOW
    )
    await maker.surveys.create(project, build_edit("Unlimited", start_date=NOW), ACTOR, NOW)
    await build_lifecycle(one, project, 4, NOW).advance()
    assert (await maker.surveys.find(project, created.survey.id)).survey.is_running
    entries = await stores.count_entries()
    later = [NOW + timedelta(minutes=n) for n in (1, 2)]
    await asyncio.gather(
        *(
            build_lifecycle(each, project, 5, at).advance()
            for each, at in zip((one, other), later, strict=True)
        )
    )
    ended = await maker.surveys.find(project, created.survey.id)
    assert ended.survey.end_date in later
    assert not ended.internal.active
    assert await stores.count_entries() == entries + 2  # the survey's and its flag's
    assert sum(each.survey.is_running for each in await maker.surveys.list_surveys(project)) == 1


async def test_failing_survey_does_not_block_others(stores: Stores) -> None:
    """A flag that another flag depends on cannot be disabled."""
    project = await stores.new_project()
    process = Process(stores)
    limited: dict[str, Any] = {"start_date": NOW, "responses_limit": 5}
    needed = await process.surveys.create(project, build_edit("Needed", **limited), ACTOR, NOW)
    other = await process.surveys.create(project, build_edit("Other", **limited), ACTOR, NOW)
    id = str(needed.internal.id)
    dependency = {"key": id, "type": "flag", "operator": "flag_evaluates_to", "value": True}
    fields = FlagFields(key="child", filters={"groups": [{"properties": [dependency]}]})
    await process.flags.create(project, fields, ACTOR, NOW)
    with pytest.raises(Invalid, match="depend on it"):
        await build_lifecycle(process, project, 5, NOW).advance()
    running = [
        each.survey.id
        for each in await process.surveys.list_surveys(project)
        if each.survey.is_running
    ]
    assert running == [needed.survey.id] != [other.survey.id]


@pytest.mark.parametrize("odd", [{"type": "of-tomorrow"}, {"schedule": "of-tomorrow"}])
async def test_survey_of_an_unknown_type_is_skipped(stores: Stores, odd: Mapping[str, str]) -> None:
    project, other = await stores.new_project(), await stores.new_project("Other")
    here, there = Process(stores), Process(stores)
    strange = await here.surveys.create(project, build_edit(), ACTOR, NOW)
    plain = await here.surveys.create(project, build_edit("Plain", start_date=NOW), ACTOR, NOW)
    others = await here.surveys.create(other, build_edit(start_date=NOW), ACTOR, NOW)
    own = surveys.c.id == strange.survey.id
    await stores.database.write(
        lambda c: c.execute(update(surveys).where(own).values(**odd)).close()
    )
    await build_lifecycle(there, project, 0, NOW).advance()
    assert list(there.survey_cache.get(project.id).surveys) == [plain]
    assert list(there.survey_cache.get(other.id).surveys) == [others]
    await there.surveys.delete(project, plain.survey.id, ACTOR, NOW)
    assert await count(stores, surveys) == 2
