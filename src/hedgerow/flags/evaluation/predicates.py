"""Compile filters on persons, groups, cohorts and other flags to predicates of the context.

Equal filters of a project share one predicate id, so that each is evaluated once per context.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.filters.operators import (
    Operator,
    ValuePredicate,
    build_predicate,
    estimate_cost_us,
    parse_operator,
)
from hedgerow.filters.patterns import SLOW_COST_US
from hedgerow.filters.validate import PATTERN_OPERATORS
from hedgerow.flags.evaluation.evaluation_context import EvaluationContext, NeedsStoredData
from hedgerow.flags.model import FlagId
from hedgerow.lib import jsonio
from hedgerow.persons.behaviors.filters import parse_behavioral_filter
from hedgerow.persons.behaviors.membership import matches_behavior
from hedgerow.persons.behaviors.times import unpack_occurrences
from hedgerow.persons.cohort_graph import CohortGraph, collect_definitions
from hedgerow.persons.model import Cohort, CohortId

ContextPredicate = Callable[[EvaluationContext], bool]

FLAG_OPERATOR = "flag_evaluates_to"
# A longer list of texts is searched in several steps, with a check of the budget between them.
MAX_SEARCHED_TEXTS = 5
# The budget is checked after so much work at worst.
CHECK_INTERVAL_US = 500
MAX_COST_US = 10**9
# Compiling one takes up to 3 ms. Predicates that are no longer in use count up to as often.
MAX_PATTERNS = 4000
BEHAVIOR_COST_US = 10


class InvalidDefinition(ValueError):
    """A stored definition cannot be evaluated. The message says why."""


class BehaviorNotReady(ValueError):
    """Stored events are still being counted for a behavioral filter."""


class PredicateTable:
    """The predicates of one project. Their ids are valid for the lifetime of this object."""

    def __init__(
        self, cohorts: Sequence[Cohort], zone: tzinfo, behaviors: Mapping[str, int]
    ) -> None:
        self._zone = zone
        self._behaviors = behaviors
        self._cohorts = {cohort.id: cohort for cohort in cohorts if not cohort.deleted}
        self._ids: dict[bytes, int] = {}
        self._predicates: list[ContextPredicate] = []
        # How long each predicate can take at worst, in microseconds.
        self._costs_us: dict[ContextPredicate, int] = {}
        self._pattern_count = 0
        # The property names that filters use.
        self.property_keys: set[str] = set()
        # Whether a filter depends on what persons did.
        self.uses_behaviors = False
        # Whether stored events are still being counted for one of them.
        self.is_counting = False
        self._graph = CohortGraph(collect_definitions(self._cohorts.values()))
        # A cohort is compiled once, or fails once.
        self._memberships: dict[CohortId, ContextPredicate | InvalidDefinition] = {}

    def copy_empty(self) -> "PredicateTable":
        """Return an empty table for the same project, for predicates that are used once."""
        return PredicateTable(list(self._cohorts.values()), self._zone, self._behaviors)

    def compile_all(self, filters: Sequence[Mapping[str, Any]]) -> tuple[int, ContextPredicate]:
        """Compile several filters to one predicate. Cohorts are evaluated last."""
        parts = sorted(map(self.compile_one, filters), key=lambda part: part[2])
        if len(parts) == 1:
            return parts[0][:2]
        if not parts:
            return self._intern(b"all:[]", lambda: match_all)
        key = b"all:" + jsonio.encode([number for number, _, _ in parts])
        combined = [predicate for _, predicate, _ in parts]
        return self._intern(key, lambda: self._combine(combined, is_any=False))

    def cost_us(self, predicate: ContextPredicate) -> int:
        """Return how long a predicate can take at worst, in microseconds of CPU time."""
        return self._costs_us.get(predicate, 1)

    def _combine(self, parts: Sequence[ContextPredicate], *, is_any: bool) -> ContextPredicate:
        """Combine with AND or OR. Checks the budget between parts that can take long."""
        checkpoint = _check_budget_any if is_any else _check_budget_all
        checked: list[ContextPredicate] = []
        total_us = since_check_us = 0
        for part in parts:
            if since_check_us >= CHECK_INTERVAL_US:
                checked.append(checkpoint)
                since_check_us = 0
            checked.append(part)
            since_check_us += self.cost_us(part)
            total_us += self.cost_us(part)
        combined = _combine_any(checked) if is_any else _combine_all(checked)
        self._costs_us[combined] = min(total_us, MAX_COST_US)
        return combined

    def _negate(self, predicate: ContextPredicate) -> ContextPredicate:
        def evaluate(context: EvaluationContext) -> bool:
            return not predicate(context)

        self._costs_us[evaluate] = self.cost_us(predicate)
        return evaluate

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
            case "behavioral":
                return self._compile_behavior(filter)
        raise InvalidDefinition(f"there is no filter of type {kind!r}")

    def _compile_property(
        self, filter: Mapping[str, Any], build: Callable[[str, ValuePredicate], ContextPredicate]
    ) -> ContextPredicate:
        """Compile a filter on a property. `build` gets its key and the test of its value."""
        key = filter.get("key")
        if not isinstance(key, str):
            raise InvalidDefinition("a filter has no key")
        self.property_keys.add(key)
        operator = parse_operator(filter.get("operator"))
        if operator is None:
            raise InvalidDefinition(f"there is no operator {filter.get('operator')!r}")
        value = filter.get("value")
        positive = _POSITIVE_SEARCHES.get(operator)
        if positive is not None and isinstance(value, list) and len(value) > MAX_SEARCHED_TEXTS:
            searches = [
                self._build(positive, value[start : start + MAX_SEARCHED_TEXTS], key, build)
                for start in range(0, len(value), MAX_SEARCHED_TEXTS)
            ]
            found = self._combine(searches, is_any=True)
            return found if operator is positive else self._negate(found)
        return self._build(operator, value, key, build)

    def _build(
        self,
        operator: Operator,
        value: Any,
        key: str,
        build: Callable[[str, ValuePredicate], ContextPredicate],
    ) -> ContextPredicate:
        if operator in PATTERN_OPERATORS:
            self._pattern_count += 1
            if self._pattern_count > MAX_PATTERNS:
                raise InvalidDefinition("the flags have too many regular expressions")
        predicate = build(key, build_predicate(operator, value, self._zone))
        cost_us = estimate_cost_us(operator, value)
        if cost_us >= SLOW_COST_US:
            predicate = _limit_matches(predicate)
        self._costs_us[predicate] = cost_us
        return predicate

    def _compile_person(self, filter: Mapping[str, Any]) -> ContextPredicate:
        def build(key: str, matches: ValuePredicate) -> ContextPredicate:
            def evaluate(context: EvaluationContext) -> bool:
                return bool(matches(context.person[key], context.now))

            return evaluate

        return self._compile_property(filter, build)

    def _compile_group(self, filter: Mapping[str, Any]) -> ContextPredicate:
        index = filter.get("group_type_index")

        def build(key: str, matches: ValuePredicate) -> ContextPredicate:
            def evaluate(context: EvaluationContext) -> bool:
                properties = context.group_properties.get(index)  # type: ignore[arg-type]
                return properties is not None and bool(matches(properties[key], context.now))

            return evaluate

        compiled = self._compile_property(filter, build)
        if filter.get("operator") != Operator.NOT_ICONTAINS_MULTI:
            return compiled

        def evaluate(context: EvaluationContext) -> bool:
            return index in context.group_properties and compiled(context)

        self._costs_us[evaluate] = self.cost_us(compiled)
        return evaluate

    def _compile_behavior(self, filter: Mapping[str, Any]) -> ContextPredicate:
        try:
            parsed = parse_behavioral_filter(filter)
        except Invalid as error:
            raise InvalidDefinition(error.detail) from None
        self.uses_behaviors = True
        ids = [self._behaviors.get(each.reference) for each in parsed.tracked]
        self.is_counting |= None in ids

        def evaluate(context: EvaluationContext) -> bool:
            behaviors = context.behaviors
            if behaviors is None:
                raise NeedsStoredData
            found = [unpack_occurrences(behaviors.get(_require_ready(id), ())) for id in ids]
            return matches_behavior(parsed, found[0], found[-1], context.now)

        self._costs_us[evaluate] = BEHAVIOR_COST_US + parsed.event.depth // 2
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
        return self._negate(member) if operator == "not_in" else member

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

        self._costs_us[member] = self.cost_us(predicate)
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
        return self._combine(parts, is_any=str(node.get("type", "AND")).upper() == "OR")

    def _compile_leaf(self, filter: Mapping[str, Any]) -> ContextPredicate:
        if not filter:
            return _match_none
        if filter.get("type") == "flag":
            raise InvalidDefinition("a cohort cannot depend on flags")
        plain = {key: value for key, value in filter.items() if key != "negation"}
        _, predicate, _ = self.compile_one(plain)
        return self._negate(predicate) if filter.get("negation") else predicate


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


_POSITIVE_SEARCHES = {
    Operator.ICONTAINS_MULTI: Operator.ICONTAINS_MULTI,
    Operator.NOT_ICONTAINS_MULTI: Operator.ICONTAINS_MULTI,
}


def _limit_matches(predicate: ContextPredicate) -> ContextPredicate:
    """Count the time of a slow match."""

    def evaluate(context: EvaluationContext) -> bool:
        budget = context.budget
        budget.begin_match()
        try:
            return predicate(context)
        finally:
            budget.end_match()

    return evaluate


def _check_budget_all(context: EvaluationContext) -> bool:
    context.budget.check()
    return True


def _check_budget_any(context: EvaluationContext) -> bool:
    context.budget.check()
    return False


def match_all(context: EvaluationContext) -> bool:
    return True


def _match_none(context: EvaluationContext) -> bool:
    return False


def _require_ready(id: int | None) -> int:
    if id is None:
        raise BehaviorNotReady("what persons did is still being counted")
    return id


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
