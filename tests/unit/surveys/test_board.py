"""What pages are told of surveys: kept as bytes, and made anew only where something changed."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hedgerow.flags.model import FlagId
from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.model import ProjectId
from hedgerow.surveys.board import NONE, Shown, SurveyBoard
from hedgerow.surveys.model import Flagged
from hedgerow.surveys.store import Generation, Stored
from hedgerow.surveys.surveys import blank_survey
from tests.unit.flags.world import a_flag
from tests.unit.projects.world import a_project

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONE, TWO = ProjectId(1), ProjectId(2)


def a_survey(name: str, **fields: Any) -> Flagged:
    survey = replace(blank_survey(a_project(), SYSTEM, NOW), id=name, name=name, **fields)
    return Flagged(
        survey=survey,
        internal=a_flag(id=1, key="survey-targeting-1-custom"),
        targeting=None,
        linked=None,
    )


class Store:
    """Keeps surveys, and counts how often they are read."""

    def __init__(self) -> None:
        self.stored: dict[ProjectId, Stored] = {}
        self.reads: list[ProjectId] = []

    def put(self, project_id: ProjectId, generation: Generation, *surveys: Flagged) -> None:
        self.stored[project_id] = Stored(generation=generation, surveys=surveys)

    async def generations(self) -> Mapping[ProjectId, Generation]:
        return {id: stored.generation for id, stored in self.stored.items()}

    async def generation(self, project_id: ProjectId) -> Generation:
        return (await self.generations()).get(project_id, NONE.generation)

    async def surveys(self, project_id: ProjectId) -> Stored:
        self.reads.append(project_id)
        return self.stored[project_id]

    async def write_survey(self, *_: object) -> Flagged:
        raise NotImplementedError


async def at_once(work: Callable[[], Shown]) -> Shown:
    return work()


async def test_surveys_are_read_again_only_where_they_or_their_flags_changed() -> None:
    store = Store()
    board = SurveyBoard(store, at_once)
    store.put(ONE, (1, 1), a_survey("a"))
    store.put(TWO, (1, 1), a_survey("b", start_date=NOW))
    await board.watch()
    kept = board.of(ONE)
    await board.watch()
    assert await board.refreshed(ONE) is kept is board.of(ONE)
    assert store.reads == [ONE, TWO]
    assert (board.any_runs(ONE), board.any_runs(TWO), board.any_runs(ProjectId(3))) == (
        False,
        True,
        False,
    )
    store.put(ONE, (1, 2), a_survey("a"))  # a flag has another key, say
    store.put(TWO, (2, 1))
    await board.watch()
    assert store.reads == [ONE, TWO, ONE, TWO]
    assert board.of(TWO).body == NONE.body
    assert not board.any_runs(TWO)


async def test_pages_are_told_what_is_not_archived_and_nothing_of_descriptions() -> None:
    store = Store()
    board = SurveyBoard(store, at_once)
    store.put(
        ONE,
        (1, 1),
        a_survey("draft", description="secret"),
        a_survey("old", archived=True),
        a_survey("linked", linked_flag_id=FlagId(7)),
    )
    shown = await board.refreshed(ONE)
    told = json.loads(shown.body)["surveys"]
    assert [each["name"] for each in told] == ["draft", "linked"]
    assert b"secret" not in shown.body
    assert shown.owned_flags == {1}
    linked = board.linked_to(a_flag(id=7))
    assert [each.survey.name for each in linked] == ["linked"]
