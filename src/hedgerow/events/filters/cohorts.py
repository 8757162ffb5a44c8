"""Cohort membership as a query. Cohort filters and HogQL's IN COHORT both use it."""

from collections.abc import Mapping, Sequence
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.filters.behaviors import select_behavior
from hedgerow.events.filters.conditions import QueryTime, build_flag_condition, validate_operator
from hedgerow.filters.operators import Operator
from hedgerow.hogql.ast import Alias, Expr, Join, SelectQuery
from hedgerow.hogql.builders import (
    FALSE,
    all_of,
    any_of,
    call,
    constant,
    equals,
    false_if_null,
    field,
    in_subquery,
    negate,
    select_from,
)
from hedgerow.persons.behaviors.filters import BEHAVIORAL
from hedgerow.persons.cohort_graph import (
    CohortGraph,
    CohortTooLarge,
    collect_definitions,
    referenced_cohort,
)
from hedgerow.persons.model import Cohort, CohortId

CohortsById = Mapping[CohortId, Cohort]

# ClickHouse moves conditions into subqueries, and there replaces each column by its expression: its
# time and memory grow exponentially with the levels. It moves nothing into a subquery with LIMIT.
ALL_ROWS = constant(10**12)


def select_members(id: CohortId, cohorts: CohortsById, time: QueryTime) -> SelectQuery:
    """Select the person ids of a cohort. Raises Invalid for an unknown cohort or an unsupported
    definition."""
    cohort = _find_cohort(id, cohorts)
    if cohort.is_static:
        return _select_static_members(id)
    graph = CohortGraph(collect_definitions(cohorts.values()))
    try:
        order = graph.order(id)
    except CohortTooLarge as error:
        raise Invalid(f"Cohort {id} cannot be used. {error.detail}", code="bad_cohort") from None
    source = _select_inner_cohorts(order[:-1], graph, cohorts, time)
    where = _compile_definition(cohort.definition, time)
    return SelectQuery(select=[field("id")], source=source, where=where)


def _select_inner_cohorts(
    ids: Sequence[CohortId], graph: CohortGraph, cohorts: CohortsById, time: QueryTime
) -> Join:
    """Return the persons with a column for each of these cohorts, which says whether the person is
    a member. Each level of nesting is a subquery, so that each cohort is evaluated once."""
    source = Join(table=field("persons"))
    heights: dict[CohortId, int] = {}
    for id in ids:
        outline = graph.outline(id)
        below = [heights[each] for each in outline.references] if outline else []
        heights[id] = 1 + max(below, default=0)
    columns: list[Expr] = [field("id"), field("properties")]
    for height in range(1, max(heights.values(), default=0) + 1):
        level = [id for id in ids if heights[id] == height]
        members = [
            Alias(alias=_column(id), expr=_compile_membership(id, cohorts, time)) for id in level
        ]
        inner = SelectQuery(select=[*columns, *members], source=source, limit=ALL_ROWS)
        source = Join(table=inner)
        columns += [field(_column(id)) for id in level]
    return source


def _column(id: CohortId) -> str:
    return f"cohort_{id}"


def _compile_membership(id: CohortId, cohorts: CohortsById, time: QueryTime) -> Expr:
    cohort = _find_cohort(id, cohorts)
    if cohort.is_static:
        return in_subquery(field("id"), _select_static_members(id))
    return false_if_null(_compile_definition(cohort.definition, time))


def _find_cohort(id: CohortId, cohorts: CohortsById) -> Cohort:
    cohort = cohorts.get(id)
    if cohort is None or cohort.deleted:
        raise Invalid(f"Could not find cohort with id {id}", code="cohort_does_not_exist")
    return cohort


def _select_static_members(id: CohortId) -> SelectQuery:
    return select_from("cohort_people", field("person_id"), equals(field("cohort_id"), id))


def find_cohort_by_name(name: str, cohorts: CohortsById) -> CohortId:
    """Return the id of the only cohort with this name. Raises Invalid otherwise."""
    found = [each.id for each in cohorts.values() if each.name == name and not each.deleted]
    if len(found) != 1:
        how = "Could not find a" if not found else "Found more than one"
        raise Invalid(f'{how} cohort with name "{name[:100]}"', code="cohort_does_not_exist")
    return found[0]


def _compile_definition(node: Any, time: QueryTime) -> Expr:
    """Compile a group of filters and groups. An empty group matches everyone. The cohorts that it
    refers to are columns."""
    values = node.get("values") if isinstance(node, Mapping) else None
    if not isinstance(values, list):
        return _compile_filter(node, time)
    parts: Sequence[Expr] = [_compile_definition(each, time) for each in values]
    is_any = bool(parts) and str(node.get("type", "AND")).upper() == "OR"
    return any_of(parts) if is_any else all_of(parts)


def _compile_filter(filter: Any, time: QueryTime) -> Expr:
    if not isinstance(filter, Mapping) or not filter:
        return FALSE
    kind = filter.get("type") or "person"
    if kind in ("cohort", "static-cohort"):
        condition = _compile_cohort_filter(filter)
    elif kind in ("person", "event"):
        condition = _compile_person_filter(filter, time)
    elif kind == BEHAVIORAL:
        condition = in_subquery(field("id"), select_behavior(filter, time))
    else:
        raise Invalid(
            "The cohort has an unsupported filter. Expected person properties, cohorts and "
            "behavior.",
            code="bad_cohort",
        )
    return negate(condition) if filter.get("negation") else condition


def _compile_cohort_filter(filter: Mapping[str, Any]) -> Expr:
    id = referenced_cohort(filter)
    if id is None:
        raise Invalid("The cohort refers to another cohort without a valid id.", code="bad_cohort")
    if filter.get("operator") not in (None, "in", "not_in", "exact"):
        return FALSE
    inside = field(_column(id))
    return negate(inside) if filter.get("operator") == "not_in" else inside


def _compile_person_filter(filter: Mapping[str, Any], time: QueryTime) -> Expr:
    """Compile a person filter as feature flags evaluate it: null is a value."""
    key = filter.get("key")
    if not isinstance(key, str):
        raise Invalid("The cohort has a filter without a key.", code="bad_cohort")
    operator = validate_operator(filter, "cohort")
    if operator in (Operator.IS_SET, Operator.IS_NOT_SET):
        is_set = call("JSONHas", field("properties"), constant(key))
        return is_set if operator is Operator.IS_SET else negate(is_set)
    return build_flag_condition(field("properties", key), operator, filter["value"], time)
