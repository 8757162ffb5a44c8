"""Whom a condition would reach, before anybody makes it: how many persons or groups, and which
persons.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.board import FlagCache
from hedgerow.flags.compile import Compiled, of_own_group
from hedgerow.flags.model import Definitions
from hedgerow.flags.questions import Broken, Question, Questions
from hedgerow.flags.rules import Surroundings, checked_filters, needed_ids
from hedgerow.flags.snapshot import Snapshot
from hedgerow.flags.subject import Subject
from hedgerow.persons.model import Person
from hedgerow.persons.store import PersonQuery, PersonStore
from hedgerow.projects.model import Project

AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    affected: int
    total: int


class Reaches:
    def __init__(self, board: FlagCache, persons: PersonStore) -> None:
        self._board = board
        self._persons = persons

    async def of(
        self, project: Project, condition: Mapping[str, Any], group_index: int | None, now: datetime
    ) -> Reach:
        """Walks over everybody, a few at a time, so that others are served in between."""
        asked = _Asked(await self._board.refreshed(project), condition, group_index)
        affected = total = 0
        async for subject in self._subjects(project, group_index, now):
            total += 1
            affected += asked.holds_for(subject)
            if total % AT_ONCE == 0:
                await asyncio.sleep(0)
        return Reach(affected=affected, total=total)

    async def persons(
        self, project: Project, query: PersonQuery, filters: Any, now: datetime
    ) -> tuple[list[Person], int]:
        """One page of those of a query for whom all filters hold, newest first, and how many there
        are. Walks over all of the query."""
        try:
            asked = _Asked(await self._board.refreshed(project), {"properties": filters}, None)
        except Invalid as error:
            place = (error.attr or "").removeprefix("condition.")
            raise Invalid(error.detail, attr=place, code=error.code) from None
        found = [id async for id, subject in self._people(query, now) if asked.holds_for(subject)]
        newest = found[::-1][query.offset : query.offset + query.limit]
        return await self._persons.newest_of(newest), len(found)

    async def _people(
        self, query: PersonQuery, now: datetime
    ) -> AsyncIterator[tuple[int, Subject]]:
        last = 0
        while some := await self._persons.some(query, after=last, limit=AT_ONCE):
            for person in some:
                subject = Subject(distinct_id=person.distinct_id, now=now)
                subject = _complete(subject, person=person.properties, cohorts=person.cohorts)
                yield person.id, subject
            last = some[-1].id

    async def _subjects(
        self, project: Project, group_index: int | None, now: datetime
    ) -> AsyncIterator[Subject]:
        if group_index is None:
            async for _, subject in self._people(PersonQuery(project_id=project.id), now):
                yield subject
            return
        key = ""
        while groups := await self._persons.some_groups(
            project.id, group_index, after=key, limit=AT_ONCE
        ):
            for group in groups:
                subject = Subject(distinct_id="", now=now, groups={group_index: group.key})
                yield _complete(subject, groups={group_index: group.properties})
            key = groups[-1].key


class _Asked:
    """A condition as a question about one subject after another."""

    def __init__(
        self, snapshot: Snapshot, condition: Mapping[str, Any], group_index: int | None
    ) -> None:
        properties = _checked(condition, group_index, snapshot.definitions)
        self._snapshot = snapshot
        self._question = _question(properties, snapshot.questions.apart())
        self._needed = _needed_flags(properties, snapshot)

    def holds_for(self, subject: Subject) -> bool:
        if self._needed:
            outcomes = self._snapshot.evaluate(self._needed, subject)
            subject.results = {outcome.flag.id: outcome for outcome in outcomes}
        return self._question(subject)


def _checked(
    condition: Mapping[str, Any], group_index: int | None, definitions: Definitions
) -> Sequence[Mapping[str, Any]]:
    """The condition's filters, or Invalid with the place in the condition."""
    around = Surroundings(
        cohorts={cohort.id: cohort for cohort in definitions.cohorts},
        flags={flag.id: flag for flag in definitions.flags},
        own_id=None,
    )
    filters = {
        "groups": [{"properties": condition.get("properties")}],
        "aggregation_group_type_index": group_index,
    }
    try:
        checked = checked_filters(filters, around, is_new=False)
    except Invalid as error:
        place = (error.attr or "").replace(".groups[0]", "", 1).replace("filters", "condition", 1)
        raise Invalid(error.detail, attr=place, code=error.code) from None
    properties: Sequence[Mapping[str, Any]] = checked["groups"][0]["properties"] or []
    return [of_own_group(each, group_index) for each in properties]


def _question(properties: Sequence[Mapping[str, Any]], questions: Questions) -> Question:
    """All filters as one question; Invalid with the place of one that cannot be asked."""
    for number, filter in enumerate(properties):
        try:
            questions.one(filter)
        except Broken as error:
            place = f"condition.properties[{number}].value"
            raise Invalid(f"This cannot be counted: {error}.", attr=place) from None
    _, question = questions.all_of(properties)
    return question


def _needed_flags(
    properties: Sequence[Mapping[str, Any]], snapshot: Snapshot
) -> Sequence[Compiled]:
    """The flags that the filters ask about, in the order to evaluate them."""
    ids = needed_ids({"groups": [{"properties": properties}]})
    keys = [flag.key for flag in snapshot.definitions.flags if flag.id in ids]
    return snapshot.chosen(keys)


def _complete(
    subject: Subject,
    *,
    person: Mapping[str, Any] | None = None,
    cohorts: frozenset[int] = frozenset(),
    groups: Mapping[int, Mapping[str, Any]] | None = None,
) -> Subject:
    subject.complete(person or {}, groups=groups or {}, cohorts=cohorts, hash_keys={})
    return subject
