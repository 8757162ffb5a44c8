"""Compile filters on persons, groups, cohorts and other flags to predicates of the context.

Equal filters of a project share one predicate id, so that each is evaluated once per context.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any

from hedgerow.filters.operators import Operator, build_predicate, parse_operator
from hedgerow.flags.evaluation.evaluation_context import EvaluationContext, NeedsStoredData
from hedgerow.flags.model import FlagId
from hedgerow.lib import jsonio
from hedgerow.persons.cohort_graph import CohortGraph, collect_definitions
from hedgerow.persons.model import Cohort, CohortId

ContextPredicate = Callable[[EvaluationContext], bool]

FLAG_OPERATOR = "flag_evaluates_to"


class InvalidDefinition(ValueError):
    """A stored definition cannot be evaluated. The message says why."""


class PredicateTable:
    """The predicates of one project. Their ids are valid for the lifetime of this object."""

    def __init__(self, cohorts: Sequence[Cohort], zone: tzinfo) -> None:
        self._zone = zone
        self._cohorts = {cohort.id: cohort for cohort in cohorts if not cohort.deleted}
        self._ids: dict[bytes, int] = {}
        self._predicates: list[ContextPredicate] = []
        # The property names that filters use.
        self.property_keys: set[str] = set()
        self._graph = CohortGraph(collect_definitions(self._cohorts.values()))
        # A cohort is compiled once, or fails once.
        self._memberships: dict[CohortId, ContextPredicate | InvalidDefinition] = {}

    def copy_empty(self) -> "PredicateTable":
        """Return an empty table for the same project, for predicates that are used once."""
        return PredicateTable(list(self._cohorts.values()), self._zone)

    def compile_all(self, filters: Sequence[Mapping[str, Any]]) -> tuple[int, ContextPredicate]:
        """Compile several filters to one predicate. Cohorts are evaluated last."""
        parts = sorted(map(self.compile_one, filters), key=lambda part: part[2])
        if len(parts) == 1:
            return parts[0][:2]
        if not parts:
            return self._intern(b"all:[]", lambda: match_all)
        key = b"all:" + jsonio.encode([number for number, _, _ in parts])
        combined = [predicate for _, predicate, _ in parts]
        return self._intern(key, lambda: _combine_all(combined))

    def compile_one(self, filter: Any) -> tuple[int, ContextPredicate, bool]:
        """Return the predicate id, the predicate, and whether the filter is on a cohort."""
        if not isinstance(filter, Mapping):
            raise InvalidDefinition("a filter is not an object")
        try:
            key = jsonio.encode(filter)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidDefinition(f"a filter is invalid: {error}") from None
        kind = filter.get("type") or "person"
        number, predicate = self._intern(key, lambda: self._compile(kind, filter))
        return number, predicate, kind in ("cohort", "static-cohort")

    def _intern(
        self, key: bytes, make: Callable[[], ContextPredicate]
    ) -> tuple[int, ContextPredicate]:
        number = self._ids.get(key)
        if number is None:
            predicate = make()  # may add other predicates first
            number = self._ids[key] = len(self._predicates)
            self._predicates.append(predicate)
        return number, self._predicates[number]

    def _compile(self, kind: str, filter: Mapping[str, Any]) -> ContextPredicate:
        match kind:
            case "person" | "event":
                return self._compile_person(filter)
            case "group":
                return self._compile_group(filter)
            case "cohort" | "static-cohort":
                return self._compile_cohort(filter)
            case "flag":
                return _compile_dependency(filter)
        raise InvalidDefinition(f"there is no filter of type {kind!r}")

    def _compile_property(self, filter: Mapping[str, Any]) -> tuple[str, Any]:
        key = filter.get("key")
        if not isinstance(key, str):
            raise InvalidDefinition("a filter has no key")
        self.property_keys.add(key)
        operator = parse_operator(filter.get("operator"))
        if operator is None:
            raise InvalidDefinition(f"there is no operator {filter.get('operator')!r}")
        return key, build_predicate(operator, filter.get("value"), self._zone)

    def _compile_person(self, filter: Mapping[str, Any]) -> ContextPredicate:
        key, matches = self._compile_property(filter)

        def evaluate(context: EvaluationContext) -> bool:
            return bool(matches(context.person[key], context.now))

        return evaluate

    def _compile_group(self, filter: Mapping[str, Any]) -> ContextPredicate:
        key, matches = self._compile_property(filter)
        index = filter.get("group_type_index")

        def evaluate(context: EvaluationContext) -> bool:
            properties = context.group_properties.get(index)  # type: ignore[arg-type]
            return properties is not None and bool(matches(properties[key], context.now))

        return evaluate

    def _compile_cohort(self, filter: Mapping[str, Any]) -> ContextPredicate:
        operator = filter.get("operator")
        if operator not in (None, "in", "not_in", Operator.EXACT):
            return _match_none
        try:
            id = CohortId(int(filter.get("value")))  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise InvalidDefinition("a cohort filter names no cohort") from None
        member = self._get_membership(id)
        if operator == "not_in":
            return lambda context: not member(context)
        return member

    def _get_membership(self, id: CohortId) -> ContextPredicate:
        found = self._memberships.get(id)
        if found is None:
            try:
                found = self._compile_membership(id)
            except InvalidDefinition as error:
                found = error
            self._memberships[id] = found
        if isinstance(found, InvalidDefinition):
            raise InvalidDefinition(*found.args)
        return found

    def _compile_membership(self, id: CohortId) -> ContextPredicate:
        cohort = self._cohorts.get(id)
        if cohort is None:
            raise InvalidDefinition(f"there is no cohort {id}")
        if cohort.is_static:
            return lambda context: id in _static_cohorts(context)
        if problem := self._graph.find_problem(id):
            raise InvalidDefinition(f"cohort {id} is too large: {problem.detail}")
        predicate = self._compile_definition(cohort.definition)

        def member(context: EvaluationContext) -> bool:
            # Each cohort is evaluated once per context, even if the result needs stored data:
            # nested cohorts can name it many times.
            results = context.cohort_results
            if id not in results:
                try:
                    results[id] = predicate(context)
                except NeedsStoredData:
                    results[id] = None
            known = results[id]
            if known is None:
                raise NeedsStoredData
            return known

        return member

    def _compile_definition(self, node: Any) -> ContextPredicate:
        """Compile a group of filters and groups. An empty group matches every person."""
        if not isinstance(node, Mapping):
            raise InvalidDefinition("a cohort's definition is not an object")
        if not isinstance(node.get("values"), list):
            return self._compile_leaf(node)
        parts = [self._compile_definition(value) for value in node["values"]]
        if not parts:
            return match_all
        return (
            _combine_any(parts)
            if str(node.get("type", "AND")).upper() == "OR"
            else _combine_all(parts)
        )

    def _compile_leaf(self, filter: Mapping[str, Any]) -> ContextPredicate:
        if not filter:
            return _match_none
        if filter.get("type") in ("behavioral", "behavioural"):
            raise InvalidDefinition("a cohort has behavioral filters, which flags do not support")
        if filter.get("type") == "flag":
            raise InvalidDefinition("a cohort cannot depend on flags")
        plain = {key: value for key, value in filter.items() if key != "negation"}
        _, predicate, _ = self.compile_one(plain)
        if filter.get("negation"):
            return lambda context: not predicate(context)
        return predicate


def _combine_all(predicates: Sequence[ContextPredicate]) -> ContextPredicate:
    """Combine with AND. A false predicate decides, even if others need stored data."""

    def evaluate(context: EvaluationContext) -> bool:
        needs_data = False
        for predicate in predicates:
            try:
                if not predicate(context):
                    return False
            except NeedsStoredData:
                needs_data = True
        if needs_data:
            raise NeedsStoredData
        return True

    return evaluate


def _combine_any(predicates: Sequence[ContextPredicate]) -> ContextPredicate:
    """Combine with OR. A true predicate decides, even if others need stored data."""

    def evaluate(context: EvaluationContext) -> bool:
        needs_data = False
        for predicate in predicates:
            try:
                if predicate(context):
                    return True
            except NeedsStoredData:
                needs_data = True
        if needs_data:
            raise NeedsStoredData
        return False

    return evaluate


def match_all(context: EvaluationContext) -> bool:
    return True


def _match_none(context: EvaluationContext) -> bool:
    return False


def _static_cohorts(context: EvaluationContext) -> frozenset[int]:
    if context.static_cohorts is None:
        raise NeedsStoredData
    return context.static_cohorts


def parse_dependency(filter: Any) -> FlagId | None:
    """Return the flag that a filter depends on, None for any other filter."""
    if not isinstance(filter, Mapping) or filter.get("type") != "flag":
        return None
    try:
        return FlagId(int(filter.get("key")))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidDefinition("a flag filter names no flag") from None


def _compile_dependency(filter: Mapping[str, Any]) -> ContextPredicate:
    id, expected = parse_dependency(filter), filter.get("value")
    if id is None or filter.get("operator") != FLAG_OPERATOR:
        return _match_none

    def evaluate(context: EvaluationContext) -> bool:
        outcome = context.results.get(id)
        if outcome is not None and outcome.has_failed:
            if context.needs_stored_data:
                raise NeedsStoredData
            return False
        value = False if outcome is None else outcome.value  # a flag that was not requested is off
        if isinstance(expected, bool):
            return (value is not False) is expected
        return isinstance(expected, str) and value == expected

    return evaluate
