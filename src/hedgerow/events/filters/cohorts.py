"""Cohort membership as a query. Cohort filters and HogQL's IN COHORT both use it."""

from collections.abc import Mapping, Sequence
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.filters.conditions import QueryTime, build_flag_condition, validate_operator
from hedgerow.filters.operators import Operator
from hedgerow.hogql.ast import Expr, SelectQuery
from hedgerow.hogql.builders import (
    FALSE,
    all_of,
    any_of,
    call,
    constant,
    equals,
    field,
    in_subquery,
    negate,
    select_from,
)
from hedgerow.persons.cohort_graph import collect_nodes
from hedgerow.persons.model import Cohort, CohortId

CohortsById = Mapping[CohortId, Cohort]


def select_members(id: CohortId, cohorts: CohortsById, time: QueryTime) -> SelectQuery:
    """Select the person ids of a cohort. Raises Invalid for an unknown cohort or an unsupported
    definition."""
    cohort = cohorts.get(id)
    if cohort is None or cohort.deleted:
        detail = f"Could not find cohort with id {id}"
        raise Invalid(detail, code="cohort_does_not_exist")
    if cohort.is_static:
        return select_from("cohort_people", field("person_id"), equals(field("cohort_id"), id))
    if collect_nodes(cohort.definition, cohorts) is None:
        raise Invalid(
            f"Cohort {id} refers to too many other cohorts, or to itself.", code="bad_cohort"
        )
    return select_from(
        "persons", field("id"), _compile_definition(cohort.definition, cohorts, time)
    )


def find_cohort_by_name(name: str, cohorts: CohortsById) -> CohortId:
    """Return the id of the only cohort with this name. Raises Invalid otherwise."""
    found = [each.id for each in cohorts.values() if each.name == name and not each.deleted]
    if len(found) != 1:
        how = "Could not find a" if not found else "Found more than one"
        raise Invalid(f'{how} cohort with name "{name[:100]}"', code="cohort_does_not_exist")
    return found[0]


def _compile_definition(node: Any, cohorts: CohortsById, time: QueryTime) -> Expr:
    """Compile a group of filters and groups. An empty group matches everyone."""
    values = node.get("values") if isinstance(node, Mapping) else None
    if not isinstance(values, list):
        return _compile_filter(node, cohorts, time)
    parts: Sequence[Expr] = [_compile_definition(each, cohorts, time) for each in values]
    is_any = bool(parts) and str(node.get("type", "AND")).upper() == "OR"
    return any_of(parts) if is_any else all_of(parts)


def _compile_filter(filter: Any, cohorts: CohortsById, time: QueryTime) -> Expr:
    if not isinstance(filter, Mapping) or not filter:
        return FALSE
    kind = filter.get("type") or "person"
    if kind in ("cohort", "static-cohort"):
        condition = _compile_cohort_filter(filter, cohorts, time)
    elif kind in ("person", "event"):
        condition = _compile_person_filter(filter, time)
    else:
        raise Invalid(
            "The cohort has an unsupported filter. Expected person properties and cohorts.",
            code="bad_cohort",
        )
    return negate(condition) if filter.get("negation") else condition


def _compile_cohort_filter(
    filter: Mapping[str, Any], cohorts: CohortsById, time: QueryTime
) -> Expr:
    if filter.get("operator") not in (None, "in", "not_in", "exact"):
        return FALSE
    try:
        id = CohortId(int(filter.get("value")))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise Invalid(
            "The cohort refers to another cohort without a valid id.", code="bad_cohort"
        ) from None
    inside = in_subquery(field("id"), select_members(id, cohorts, time))
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
