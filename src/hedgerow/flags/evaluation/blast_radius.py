"""Count the persons or groups that a condition matches, before it is saved."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid, Unavailable
from hedgerow.flags.evaluation.compile import CompiledFlag, resolve_group_index
from hedgerow.flags.evaluation.condition_matcher import Condition
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.predicates import InvalidDefinition, PredicateTable
from hedgerow.flags.evaluation.snapshot import FlagSnapshot
from hedgerow.flags.model import FlagDefinitions
from hedgerow.flags.store import PersonScanner
from hedgerow.flags.validate import ValidationContext, referenced_flag_ids, validate_filters
from hedgerow.persons.cohort_graph import CohortGraph, collect_definitions, referenced_cohort
from hedgerow.persons.model import Cohort
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.model import Project

# The cohorts of a condition can have thousands of regular expressions to compile.
RunInThread = Callable[[Callable[[], Condition]], Awaitable[Condition]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlastRadius:
    affected: int
    total: int


class BlastRadiusCounter:
    def __init__(
        self, flag_cache: FlagCache, scanner: PersonScanner, run_in_thread: RunInThread
    ) -> None:
        self._flag_cache = flag_cache
        self._scanner = scanner
        self._run_in_thread = run_in_thread

    async def count(
        self, project: Project, condition: Mapping[str, Any], group_index: int | None, now: datetime
    ) -> BlastRadius:
        """Count the persons or groups that a condition matches."""
        snapshot = await self._flag_cache.refresh(project)
        compiled = await self._run_in_thread(
            lambda: compile_condition(snapshot, condition, group_index, now)
        )
        if group_index is None:
            query = PersonQuery(project_id=project.id, limit=0)
            found = await self._scanner.scan_persons(query, compiled)
        else:
            found = await self._scanner.scan_groups(project.id, compiled)
        return BlastRadius(affected=found.matching, total=found.total)


def compile_condition(
    snapshot: FlagSnapshot, condition: Mapping[str, Any], group_index: int | None, now: datetime
) -> Condition:
    """Raises Invalid for a condition that cannot be evaluated."""
    filters = _validate_condition(condition, group_index, snapshot.definitions)
    _check_filters(filters, snapshot.predicates.copy_empty())
    flags = [each.flag for each in _select_dependencies(filters, snapshot)]
    cohorts = snapshot.definitions.cohorts
    needed = cohorts if flags else _select_cohorts(filters, cohorts)
    definitions = replace(snapshot.definitions, flags=flags, cohorts=needed)
    return Condition(filters=filters, definitions=definitions, now=now, group_index=group_index)


def _select_cohorts(
    filters: Sequence[Mapping[str, Any]], cohorts: Sequence[Cohort]
) -> Sequence[Cohort]:
    """Return the cohorts that the filters refer to, directly or through others."""
    graph = CohortGraph(collect_definitions(cohorts))
    roots = [id for each in filters if (id := referenced_cohort(each)) is not None]
    needed = {id for root in roots for id in graph.order(root)}
    return [each for each in cohorts if each.id in needed]


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


def _check_filters(properties: Sequence[Mapping[str, Any]], predicates: PredicateTable) -> None:
    """Raise Invalid with the place of a filter that cannot be evaluated."""
    for number, filter in enumerate(properties):
        try:
            predicates.compile_one(filter)
        except InvalidDefinition as error:
            place = f"condition.properties[{number}].value"
            raise Invalid(f"This filter cannot be evaluated: {error}.", attr=place) from None
    check_counted(predicates)


def check_counted(predicates: PredicateTable) -> None:
    """Raise Unavailable while stored events are counted for a behavioral filter."""
    if predicates.is_counting:
        raise Unavailable(
            "The stored events of a behavioral cohort are still being counted. Its field "
            "`is_calculating` says when that is done."
        )


def _select_dependencies(
    properties: Sequence[Mapping[str, Any]], snapshot: FlagSnapshot
) -> Sequence[CompiledFlag]:
    """Return the flags that the filters depend on, in evaluation order."""
    ids = referenced_flag_ids({"groups": [{"properties": properties}]})
    keys = [flag.key for flag in snapshot.definitions.flags if flag.id in ids]
    return snapshot.select(keys)
