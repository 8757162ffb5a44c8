"""Compare two definitions of a flag for many people, one after another. Pure: runs in a worker
process."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hedgerow.filters.values import as_text
from hedgerow.flags.evaluation.condition_matcher import add_fallbacks
from hedgerow.flags.evaluation.evaluation_context import EvaluationContext
from hedgerow.flags.evaluation.flag_values import NO_PERSON, FlagMatcher, PersonData
from hedgerow.flags.model import FlagDefinitions

# Further values of a segment are counted together.
MAX_SEGMENTS = 1_000
SEGMENT_MAX_CHARS = 200
MAX_SAMPLED = 5
OTHER = "(other)"
NO_VALUE = "(none)"
NO_FLAG_VALUE = "false"

# The value before, the value after, the segment.
ChangeKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagVersionDefinitions:
    """A flag and everything that its value depends on."""

    flag_key: str
    definitions: FlagDefinitions


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagComparison:
    """Two versions of a flag. None stands for no flag, which is false for everyone. `segment` is
    the person property to count by, "" for none. Only persons who match `filters` are counted."""

    before: FlagVersionDefinitions | None
    after: FlagVersionDefinitions | None
    now: datetime
    group_indexes: Sequence[int] = ()
    segment: str = ""
    filters: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPerson:
    """A person under the distinct id that it used last, with the groups of that event in the order
    of the comparison, "" for none, and the number of metric events."""

    person_id: str
    distinct_id: str
    groups: Sequence[str] = ()
    metric_events: int = 0


@dataclass(slots=True, kw_only=True)
class ComparisonCounts:
    """What was counted. Can be added to the counts of another part."""

    evaluated: int = 0
    persons: Counter[ChangeKey] = field(default_factory=Counter)
    metric_persons: Counter[ChangeKey] = field(default_factory=Counter)
    metric_events: Counter[ChangeKey] = field(default_factory=Counter)
    samples: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)
    is_out_of_time: bool = False

    @property
    def changed(self) -> int:
        return sum(count for (before, after, _), count in self.persons.items() if before != after)

    def merge(self, other: "ComparisonCounts") -> None:
        self.evaluated += other.evaluated
        self.persons += other.persons
        self.metric_persons += other.metric_persons
        self.metric_events += other.metric_events
        for pair, found in other.samples.items():
            self.samples[pair] = [*self.samples.get(pair, ()), *found][:MAX_SAMPLED]
        self.is_out_of_time |= other.is_out_of_time


class FlagComparer:
    """`property_keys` are the person and group properties that matter. Without `needs_persons`,
    nothing that is stored with persons does."""

    def __init__(self, comparison: FlagComparison) -> None:
        self._comparison = comparison
        self._sides = [
            None if side is None else FlagMatcher(side.flag_key, side.definitions, comparison.now)
            for side in (comparison.before, comparison.after)
        ]
        self.matchers = [side for side in self._sides if side is not None]
        self._is_counted = None
        keys = frozenset[str]().union(*(side.property_keys for side in self.matchers))
        if comparison.filters:
            predicates = self.matchers[0].snapshot.predicates.copy_empty()
            _, self._is_counted = predicates.compile_all(comparison.filters)
            keys |= add_fallbacks(predicates.property_keys)
        self.property_keys = keys | ({comparison.segment} if comparison.segment else set())
        self.needs_persons = bool(comparison.segment or comparison.filters) or any(
            side.needs_persons for side in self.matchers
        )
        self._segments: set[str] = set()
        self.counts = ComparisonCounts()

    def add(
        self,
        person: ComparedPerson,
        data: PersonData = NO_PERSON,
        group_properties: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> None:
        """Evaluate both versions for a person."""
        if self._is_counted is not None and not self._is_counted(self._build_context(person, data)):
            return
        groups = self.select_groups(person)
        properties = group_properties or {}
        before, after = (
            NO_FLAG_VALUE
            if side is None
            else side.evaluate(person.distinct_id, groups, data, properties)
            for side in self._sides
        )
        self._count(person, before, after, self._choose_segment(data))

    def select_groups(self, person: ComparedPerson) -> dict[int, str]:
        pairs = zip(self._comparison.group_indexes, person.groups, strict=True)
        return {index: key for index, key in pairs if key}

    def _build_context(self, person: ComparedPerson, data: PersonData) -> EvaluationContext:
        context = EvaluationContext(distinct_id=person.distinct_id, now=self._comparison.now)
        context.add_stored_data(data.properties, groups={}, cohorts=data.cohorts, hash_keys={})
        return context

    def _choose_segment(self, data: PersonData) -> str:
        if not self._comparison.segment:
            return ""
        value = data.properties.get(self._comparison.segment)
        text = NO_VALUE if value is None else as_text(value)[:SEGMENT_MAX_CHARS]
        if text not in self._segments:
            if len(self._segments) >= MAX_SEGMENTS:
                return OTHER
            self._segments.add(text)
        return text

    def _count(self, person: ComparedPerson, before: str, after: str, segment: str) -> None:
        counts, key = self.counts, (before, after, segment)
        counts.evaluated += 1
        counts.persons[key] += 1
        if person.metric_events:
            counts.metric_persons[key] += 1
            counts.metric_events[key] += person.metric_events
        if before != after:
            sample = counts.samples.setdefault((before, after), [])
            if len(sample) < MAX_SAMPLED:
                sample.append((person.distinct_id, person.person_id))
