"""Match one condition with many stored persons or groups. Pure: runs in a worker process."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hedgerow.filters.values import MISSING, bound_values
from hedgerow.flags.evaluation.evaluation_context import (
    INITIAL_PREFIX,
    NO_BEHAVIORS,
    CompleteProperties,
    EvaluationContext,
    PersonBehaviors,
)
from hedgerow.flags.evaluation.snapshot import build_snapshot
from hedgerow.flags.model import FlagDefinitions

DISTINCT_ID = "distinct_id"
NO_COHORTS: frozenset[int] = frozenset()

# The id, the encoded properties, and the first distinct id of a person.
PersonRow = tuple[int, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Validated filters of persons, or of groups of one type, and everything that their evaluation
    depends on. `definitions` has only the flags that the filters depend on."""

    filters: Sequence[Mapping[str, Any]]
    definitions: FlagDefinitions
    now: datetime
    group_index: int | None = None


class ConditionMatcher:
    """`property_keys` are the properties that the result depends on, None for all of them. With
    `needs_distinct_id`, it also depends on the person's first distinct id. `static_cohorts` are
    the cohorts that it depends on."""

    def __init__(self, condition: Condition) -> None:
        self._snapshot = build_snapshot(condition.definitions)
        self._flags = self._snapshot.all_flags
        predicates = self._snapshot.predicates
        _, self._predicate = predicates.compile_all(condition.filters)
        self._now = condition.now
        self._group_index = condition.group_index
        # Flags also read properties that no filter names.
        self.property_keys = None if self._flags else add_fallbacks(predicates.property_keys)
        self.needs_distinct_id = bool(self._flags) or DISTINCT_ID in predicates.property_keys
        self.static_cohorts = [
            each.id for each in condition.definitions.cohorts if each.is_static and not each.deleted
        ]
        self._has_fallbacks = any(
            key.startswith(INITIAL_PREFIX) for key in predicates.property_keys
        )
        self.uses_behaviors = self._snapshot.uses_behaviors or predicates.uses_behaviors
        self._missing = dict.fromkeys(predicates.property_keys, MISSING)
        self._context = self._build_context("", {})
        self._context.static_cohorts = NO_COHORTS

    def filter_persons(
        self,
        rows: Iterable[PersonRow],
        decode: Callable[[str], Mapping[str, Any]],
        cohorts: Mapping[int, frozenset[int]],
        behaviors: Mapping[int, PersonBehaviors] = {},
    ) -> Iterator[int]:
        """Yield the ids of the persons that match. `decode` returns the properties of a row, at
        least those with the `property_keys`. `cohorts` are the static cohorts of persons,
        `behaviors` what they did."""
        if self._flags:
            return self._filter_with_flags(rows, decode, cohorts, behaviors)
        return self._filter_fast(rows, decode, cohorts, behaviors)

    def _filter_fast(
        self,
        rows: Iterable[PersonRow],
        decode: Callable[[str], Mapping[str, Any]],
        cohorts: Mapping[int, frozenset[int]],
        behaviors: Mapping[int, PersonBehaviors],
    ) -> Iterator[int]:
        """Evaluate the filters alone, in one context for all persons: building a context takes
        longer than most filters."""
        context, matches, missing = self._context, self._predicate, self._missing
        for id, text, distinct_id in rows:
            properties = bound_values(decode(text))
            if self.needs_distinct_id and DISTINCT_ID not in properties:
                properties = {**properties, DISTINCT_ID: distinct_id}
            context.person = (
                CompleteProperties(properties)
                if self._has_fallbacks
                else {**missing, **properties}  # faster
            )
            if cohorts:
                context.static_cohorts = cohorts.get(id, NO_COHORTS)
            if self.uses_behaviors:
                context.behaviors = behaviors.get(id, NO_BEHAVIORS)
            if context.cohort_results:
                context.cohort_results = {}
            if matches(context):
                yield id

    def _filter_with_flags(
        self,
        rows: Iterable[PersonRow],
        decode: Callable[[str], Mapping[str, Any]],
        cohorts: Mapping[int, frozenset[int]],
        behaviors: Mapping[int, PersonBehaviors],
    ) -> Iterator[int]:
        for id, text, distinct_id in rows:
            context = self._build_context(distinct_id, {})
            context.add_stored_data(
                decode(text),
                groups={},
                cohorts=cohorts.get(id, NO_COHORTS),
                hash_keys={},
                behaviors=behaviors.get(id, NO_BEHAVIORS),
            )
            if self._matches_with_flags(context):
                yield id

    def matches_group(self, key: str, properties: Mapping[str, Any]) -> bool:
        assert self._group_index is not None
        context = self._build_context("", {self._group_index: key})
        context.add_stored_data(
            {},
            groups={self._group_index: properties},
            cohorts=NO_COHORTS,
            hash_keys={},
            behaviors=NO_BEHAVIORS,
        )
        return self._matches_with_flags(context) if self._flags else self._predicate(context)

    def _build_context(self, distinct_id: str, groups: Mapping[int, str]) -> EvaluationContext:
        return EvaluationContext(distinct_id=distinct_id, now=self._now, groups=groups)

    def _matches_with_flags(self, context: EvaluationContext) -> bool:
        outcomes = self._snapshot.evaluate(self._flags, context)
        context.results = {outcome.flag.id: outcome for outcome in outcomes}
        return self._predicate(context)


def add_fallbacks(keys: set[str]) -> frozenset[str]:
    """Add the properties that stand in for missing `$initial_` ones."""
    rests = [key[len(INITIAL_PREFIX) :] for key in keys if key.startswith(INITIAL_PREFIX)]
    return frozenset(keys).union(rests, (f"${rest}" for rest in rests))
