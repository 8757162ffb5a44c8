"""The survey cache reloads only after changes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hedgerow.flags.model import FlagId
from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.model import ProjectId
from hedgerow.surveys.cache import NO_SURVEYS, CachedSurveys, SurveyCache
from hedgerow.surveys.model import SurveyWithFlags
from hedgerow.surveys.store import Generation, StoredSurveys
from hedgerow.surveys.surveys import new_survey
from tests.unit.flags.factories import make_flag
from tests.unit.projects.factories import make_project

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONE, TWO = ProjectId(1), ProjectId(2)


def make_survey(name: str, **fields: Any) -> SurveyWithFlags:
    survey = replace(new_survey(make_project(), SYSTEM, NOW), id=name, name=name, **fields)
    return SurveyWithFlags(
        survey=survey,
        internal=make_flag(id=1, key="survey-targeting-1-custom"),
        targeting=None,
        linked=None,
    )


class Store:
    """A store that counts how often surveys are loaded."""

    def __init__(self) -> None:
        self.stored: dict[ProjectId, StoredSurveys] = {}
        self.reads: list[ProjectId] = []

    def put(self, project_id: ProjectId, generation: Generation, *surveys: SurveyWithFlags) -> None:
        self.stored[project_id] = StoredSurveys(generation=generation, surveys=surveys)

    async def generations(self) -> Mapping[ProjectId, Generation]:
        return {id: stored.generation for id, stored in self.stored.items()}

    async def generation(self, project_id: ProjectId) -> Generation:
        return (await self.generations()).get(project_id, NO_SURVEYS.generation)

    async def surveys(self, project_id: ProjectId) -> StoredSurveys:
        self.reads.append(project_id)
        return self.stored[project_id]

    async def write_survey(self, *_: object) -> SurveyWithFlags:
        raise NotImplementedError


async def run_here(work: Callable[[], CachedSurveys]) -> CachedSurveys:
    return work()


async def test_surveys_are_reloaded_only_after_a_change_of_them_or_their_flags() -> None:
    store = Store()
    cache = SurveyCache(store, run_here)
    store.put(ONE, (1, 1), make_survey("a"))
    store.put(TWO, (1, 1), make_survey("b", start_date=NOW))
    await cache.refresh_changed()
    cached = cache.get(ONE)
    await cache.refresh_changed()
    assert await cache.refresh(ONE) is cached is cache.get(ONE)
    assert store.reads == [ONE, TWO]
    assert (cache.has_running(ONE), cache.has_running(TWO), cache.has_running(ProjectId(3))) == (
        False,
        True,
        False,
    )
    store.put(ONE, (1, 2), make_survey("a"))  # for example, a flag has a new key
    store.put(TWO, (2, 1))
    await cache.refresh_changed()
    assert store.reads == [ONE, TWO, ONE, TWO]
    assert cache.get(TWO).body == NO_SURVEYS.body
    assert not cache.has_running(TWO)


async def test_payload_excludes_archived_surveys_and_descriptions() -> None:
    store = Store()
    cache = SurveyCache(store, run_here)
    store.put(
        ONE,
        (1, 1),
        make_survey("draft", description="secret"),
        make_survey("old", archived=True),
        make_survey("linked", linked_flag_id=FlagId(7)),
    )
    cached = await cache.refresh(ONE)
    surveys = json.loads(cached.body)["surveys"]
    assert [each["name"] for each in surveys] == ["draft", "linked"]
    assert b"secret" not in cached.body
    assert cached.owned_flags == {1}
    linked = cache.find_linked(make_flag(id=7))
    assert [each.survey.name for each in linked] == ["linked"]
