"""Count the persons or groups that a condition matches, before it is saved."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.query.limiter import QueryLimiter
from hedgerow.flags.evaluation.budget import INTERVAL_S, SLICE_S, ProjectBudget, RequestBudget
from hedgerow.flags.evaluation.compile import CompiledFlag, resolve_group_index
from hedgerow.flags.evaluation.evaluation_context import BudgetExceeded, EvaluationContext
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.predicates import ContextPredicate, InvalidDefinition, PredicateTable
from hedgerow.flags.evaluation.snapshot import FlagSnapshot
from hedgerow.flags.model import FlagDefinitions
from hedgerow.flags.validate import ValidationContext, referenced_flag_ids, validate_filters
from hedgerow.persons.model import Person
from hedgerow.persons.store import PersonQuery, PersonStore
from hedgerow.projects.model import Project

PAGE_SIZE = 200
# Of evaluating a condition for all persons, without reading them.
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastRadius:
    affected: int
    total: int


class BlastRadiusCounter:
    def __init__(self, flag_cache: FlagCache, persons: PersonStore) -> None:
        self._flag_cache = flag_cache
        self._persons = persons
        self._limiter = QueryLimiter()

    async def count(
        self, project: Project, condition: Mapping[str, Any], group_index: int | None, now: datetime
    ) -> BlastRadius:
        """Count the matches. Iterates over all persons or groups in pages, so that requests are
        served in between."""
        matcher = _ConditionMatcher(await self._flag_cache.refresh(project), condition, group_index)
        affected = total = 0
        async with self._limiter.acquire(project.id):
            async for context in self._iterate_contexts(project, group_index, now):
                total += 1
                affected += await matcher.matches(context)
        return BlastRadius(affected=affected, total=total)

    async def find_persons(
        self, project: Project, query: PersonQuery, filters: Any, now: datetime
    ) -> tuple[list[Person], int]:
        """Return one page of the persons of a query that match all filters, newest first, and their
        number. Iterates over the whole query."""
        try:
            matcher = _ConditionMatcher(
                await self._flag_cache.refresh(project), {"properties": filters}, None
            )
        except Invalid as error:
            place = (error.attr or "").removeprefix("condition.")
            raise Invalid(error.detail, attr=place, code=error.code) from None
        async with self._limiter.acquire(project.id):
            found = [
                id
                async for id, context in self._iterate_persons(query, now)
                if await matcher.matches(context)
            ]
        newest = found[::-1][query.offset : query.offset + query.limit]
        return await self._persons.get_newest_first(newest), len(found)

    async def _iterate_persons(
        self, query: PersonQuery, now: datetime
    ) -> AsyncIterator[tuple[int, EvaluationContext]]:
        last = 0
        while page := await self._persons.fetch_page(query, after=last, limit=PAGE_SIZE):
            for person in page:
                context = EvaluationContext(distinct_id=person.distinct_id, now=now)
                context = _with_stored_data(
                    context, person=person.properties, cohorts=person.cohorts
                )
                yield person.id, context
            last = page[-1].id

    async def _iterate_contexts(
        self, project: Project, group_index: int | None, now: datetime
    ) -> AsyncIterator[EvaluationContext]:
        if group_index is None:
            async for _, context in self._iterate_persons(PersonQuery(project_id=project.id), now):
                yield context
            return
        key = ""
        while groups := await self._persons.fetch_group_page(
            project.id, group_index, after=key, limit=PAGE_SIZE
        ):
            for group in groups:
                context = EvaluationContext(
                    distinct_id="", now=now, groups={group_index: group.key}
                )
                yield _with_stored_data(context, groups={group_index: group.properties})
            key = groups[-1].key


class _ConditionMatcher:
    """Evaluates one condition for many contexts, in slices, so that requests are served in
    between."""

    def __init__(
        self, snapshot: FlagSnapshot, condition: Mapping[str, Any], group_index: int | None
    ) -> None:
        properties = _validate_condition(condition, group_index, snapshot.definitions)
        self._snapshot = snapshot
        self._predicate = _compile_predicate(properties, snapshot.predicates.copy_empty())
        self._dependencies = _select_dependencies(properties, snapshot)
        self._slice_s = self._used_s = 0.0

    async def matches(self, context: EvaluationContext) -> bool:
        if self._slice_s > SLICE_S:
            await self._pause()
        context.budget = RequestBudget(ProjectBudget())
        started_s = perf_counter()
        try:
            if self._dependencies:
                outcomes = self._snapshot.evaluate(self._dependencies, context)
                context.results = {outcome.flag.id: outcome for outcome in outcomes}
            return self._predicate(context)
        except BudgetExceeded:
            raise _takes_too_long() from None
        finally:
            self._slice_s += perf_counter() - started_s

    async def _pause(self) -> None:
        self._used_s += self._slice_s
        self._slice_s = 0.0
        if self._used_s > TIMEOUT_S:
            raise _takes_too_long()
        await asyncio.sleep(INTERVAL_S - SLICE_S)


def _takes_too_long() -> Invalid:
    return Invalid(
        "The filters take too long to evaluate. Use fewer of them, or simpler regular expressions."
    )


def _validate_condition(
    condition: Mapping[str, Any], group_index: int | None, definitions: FlagDefinitions
) -> Sequence[Mapping[str, Any]]:
    """Return the filters of the condition. Invalid names the path within the condition."""
    validation = ValidationContext(
        cohorts={cohort.id: cohort for cohort in definitions.cohorts},
        flags={flag.id: flag for flag in definitions.flags},
        own_id=None,
    )
    filters = {
        "groups": [{"properties": condition.get("properties")}],
        "aggregation_group_type_index": group_index,
    }
    try:
        validated = validate_filters(filters, validation, is_new=False)
    except Invalid as error:
        place = (error.attr or "").replace(".groups[0]", "", 1).replace("filters", "condition", 1)
        raise Invalid(error.detail, attr=place, code=error.code) from None
    properties: Sequence[Mapping[str, Any]] = validated["groups"][0]["properties"] or []
    return [resolve_group_index(each, group_index) for each in properties]


def _compile_predicate(
    properties: Sequence[Mapping[str, Any]], predicates: PredicateTable
) -> ContextPredicate:
    """All filters as one predicate; Invalid with the place of one that cannot be matcher."""
    for number, filter in enumerate(properties):
        try:
            predicates.compile_one(filter)
        except InvalidDefinition as error:
            place = f"condition.properties[{number}].value"
            raise Invalid(f"This filter cannot be evaluated: {error}.", attr=place) from None
    _, predicate = predicates.compile_all(properties)
    return predicate


def _select_dependencies(
    properties: Sequence[Mapping[str, Any]], snapshot: FlagSnapshot
) -> Sequence[CompiledFlag]:
    """Return the flags that the filters depend on, in evaluation order."""
    ids = referenced_flag_ids({"groups": [{"properties": properties}]})
    keys = [flag.key for flag in snapshot.definitions.flags if flag.id in ids]
    return snapshot.select(keys)


def _with_stored_data(
    context: EvaluationContext,
    *,
    person: Mapping[str, Any] | None = None,
    cohorts: frozenset[int] = frozenset(),
    groups: Mapping[int, Mapping[str, Any]] | None = None,
) -> EvaluationContext:
    context.add_stored_data(person or {}, groups=groups or {}, cohorts=cohorts, hash_keys={})
    return context
