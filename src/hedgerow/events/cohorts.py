"""Cohorts as questions to the event store: who is in one is found when somebody asks.

The one place that knows; filters on cohorts and HogQL's IN COHORT both come here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.conditions import Moment, checked_operator, folded_condition
from hedgerow.events.expressions import (
    FALSE,
    all_of,
    any_of,
    call,
    equal,
    field,
    not_,
    select_from,
    value,
    within,
)
from hedgerow.filters.operators import Operator
from hedgerow.hogql.ast import Expr, SelectQuery
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.persons.nesting import asked_within

Cohorts = Mapping[CohortId, Cohort]


def members(id: CohortId, cohorts: Cohorts, at: Moment) -> SelectQuery:
    """The ids of the persons who are in a cohort. Invalid if there is none such, or if what it asks
    cannot be answered."""
    cohort = cohorts.get(id)
    if cohort is None or cohort.deleted:
        detail = f"Could not find cohort with id {id}"
        raise Invalid(detail, code="cohort_does_not_exist")
    if cohort.is_static:
        return select_from("cohort_people", field("person_id"), equal(field("cohort_id"), id))
    if asked_within(cohort.definition, cohorts) is None:
        raise Invalid(f"Cohort {id} asks for too many others, or for itself.", code="bad_cohort")
    return select_from("persons", field("id"), _asked(cohort.definition, cohorts, at))


def named(name: str, cohorts: Cohorts) -> CohortId:
    """The one cohort of this name."""
    found = [each.id for each in cohorts.values() if each.name == name and not each.deleted]
    if len(found) != 1:
        how = "Could not find a" if not found else "Found more than one"
        raise Invalid(f'{how} cohort with name "{name[:100]}"', code="cohort_does_not_exist")
    return found[0]


def _asked(node: Any, cohorts: Cohorts, at: Moment) -> Expr:
    """A group of filters and groups; an empty group is true of everybody."""
    values = node.get("values") if isinstance(node, Mapping) else None
    if not isinstance(values, list):
        return _leaf(node, cohorts, at)
    parts: Sequence[Expr] = [_asked(each, cohorts, at) for each in values]
    is_any = bool(parts) and str(node.get("type", "AND")).upper() == "OR"
    return any_of(parts) if is_any else all_of(parts)


def _leaf(filter: Any, cohorts: Cohorts, at: Moment) -> Expr:
    if not isinstance(filter, Mapping) or not filter:
        return FALSE
    kind = filter.get("type") or "person"
    if kind in ("cohort", "static-cohort"):
        asked = _in_cohort(filter, cohorts, at)
    elif kind in ("person", "event"):
        asked = _about_person(filter, at)
    else:
        raise Invalid("A cohort asks for more than the properties of persons.", code="bad_cohort")
    return not_(asked) if filter.get("negation") else asked


def _in_cohort(filter: Mapping[str, Any], cohorts: Cohorts, at: Moment) -> Expr:
    if filter.get("operator") not in (None, "in", "not_in", "exact"):
        return FALSE
    try:
        id = CohortId(int(filter.get("value")))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise Invalid("A cohort asks for another that is not named.", code="bad_cohort") from None
    inside = within(field("id"), members(id, cohorts, at))
    return not_(inside) if filter.get("operator") == "not_in" else inside


def _about_person(filter: Mapping[str, Any], at: Moment) -> Expr:
    """As flags ask it. Null is a value there."""
    key = filter.get("key")
    if not isinstance(key, str):
        raise Invalid("A cohort has a filter that cannot be read.", code="bad_cohort")
    operator = checked_operator(filter, "cohort")
    if operator in (Operator.IS_SET, Operator.IS_NOT_SET):
        is_there = call("JSONHas", field("properties"), value(key))
        return is_there if operator is Operator.IS_SET else not_(is_there)
    return folded_condition(field("properties", key), operator, filter["value"], at)
