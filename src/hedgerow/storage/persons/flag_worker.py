"""Load what a flag depends on, and evaluate it for a list of keys, or two versions for people.

These functions run in a worker process. Like `scan_worker.py`, they do without SQLAlchemy.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hedgerow.flags.evaluation.comparison import (
    ComparedPerson,
    ComparisonCounts,
    FlagComparer,
    FlagComparison,
)
from hedgerow.flags.evaluation.flag_values import (
    NO_PERSON,
    FlagMatcher,
    KeyMatcher,
    PersonData,
)
from hedgerow.flags.store import FlagEvaluation
from hedgerow.persons.behaviors.times import join_behaviors
from hedgerow.projects.model import ProjectId
from hedgerow.storage.persons.scan_source import ScanSource, Select
from hedgerow.storage.persons.scan_worker import FIRST_DISTINCT_ID, ScanPart, build_decoder

# SQLite allows 32,766 variables in a statement.
BATCH_SIZE = 500

_PERSONS_OF = (
    "SELECT d.distinct_id, p.id, CAST(p.properties AS text)"
    " FROM person_distinct_ids AS d JOIN persons AS p ON p.id = d.person_id"
    " WHERE d.project_id = ? AND d.distinct_id IN"
)
_BEHAVIORS_OF = (
    "SELECT d.person_id, b.times FROM person_distinct_ids AS d JOIN behavior_times AS b"
    " ON b.project_id = d.project_id AND b.distinct_id = d.distinct_id"
)
_GROUPS_OF = (
    "SELECT key, CAST(properties AS text) FROM groups"
    " WHERE project_id = ? AND type_index = ? AND key IN"
)

Key = Sequence[str]


def evaluate_keys(
    source: ScanSource, project_id: ProjectId, evaluation: FlagEvaluation, keys: Sequence[Key]
) -> dict[str, bytes]:
    """Return the encoded keys by the value of the flag."""
    matcher = KeyMatcher(evaluation)
    with source.open() as select:
        data = _StoredData(select, project_id, [matcher], matcher.property_keys)
        for start in range(0, len(keys), BATCH_SIZE):
            batch = keys[start : start + BATCH_SIZE]
            split = [matcher.split_key(key) for key in batch]
            persons = data.load_persons([id for id, _ in split]) if matcher.needs_persons else {}
            groups = data.load_groups([groups for _, groups in split])
            for key, (id, own) in zip(batch, split, strict=True):
                properties = {
                    index: groups[index, each]
                    for index, each in own.items()
                    if (index, each) in groups
                }
                matcher.add(key, own, persons.get(id, NO_PERSON), properties)
    return matcher.collect()


def compare_people(
    source: ScanSource,
    project_id: ProjectId,
    comparison: FlagComparison,
    people: Sequence[tuple[Any, ...]],
    budget_s: float,
) -> ComparisonCounts:
    """Evaluate two versions of a flag for these people, as many as the time allows. A row has the
    person, its distinct id, its groups and the number of metric events."""
    compared = [
        ComparedPerson(person_id=id, distinct_id=distinct_id, groups=groups, metric_events=events)
        for id, distinct_id, *groups, events in people
    ]
    batches = (compared[start : start + BATCH_SIZE] for start in range(0, len(people), BATCH_SIZE))
    with source.open() as select:
        return _compare(select, project_id, comparison, batches, budget_s)


def compare_persons(
    source: ScanSource,
    project_id: ProjectId,
    comparison: FlagComparison,
    part: ScanPart,
    budget_s: float,
) -> ComparisonCounts:
    """Evaluate two versions of a flag for the stored persons of one part."""
    with source.open() as select:
        batches = _iterate_persons(select, project_id, part)
        return _compare(select, project_id, comparison, batches, budget_s)


def _iterate_persons(
    select: Select, project_id: ProjectId, part: ScanPart
) -> Iterator[Sequence[ComparedPerson]]:
    sql = (
        f"SELECT p.id, coalesce({FIRST_DISTINCT_ID}, '') FROM persons AS p"  # noqa: S608
        f" WHERE p.project_id = ? AND p.id > ? AND {part.select('p.id')}"
        f" ORDER BY p.id LIMIT {BATCH_SIZE}"
    )
    last = 0
    while rows := list(select(sql, project_id, last)):
        last = rows[-1][0]
        yield [ComparedPerson(person_id=str(id), distinct_id=own) for id, own in rows]


def _compare(
    select: Select,
    project_id: ProjectId,
    comparison: FlagComparison,
    batches: Iterable[Sequence[ComparedPerson]],
    budget_s: float,
) -> ComparisonCounts:
    ends_at_s = time.monotonic() + budget_s
    comparer = FlagComparer(comparison)
    data = _StoredData(select, project_id, comparer.matchers, comparer.property_keys)
    for batch in batches:
        if time.monotonic() > ends_at_s:
            comparer.counts.is_out_of_time = True
            break
        ids = [each.distinct_id for each in batch]
        persons = data.load_persons(ids) if comparer.needs_persons else {}
        groups = data.load_groups([comparer.select_groups(each) for each in batch])
        for person in batch:
            own = comparer.select_groups(person).items()
            properties = {index: groups[index, key] for index, key in own if (index, key) in groups}
            comparer.add(person, persons.get(person.distinct_id, NO_PERSON), properties)
    return comparer.counts


class _StoredData:
    def __init__(
        self,
        select: Select,
        project_id: ProjectId,
        matchers: Sequence[FlagMatcher],
        property_keys: frozenset[str],
    ) -> None:
        self._select = select
        self._project_id = project_id
        self._has_static_cohorts = any(each.snapshot.has_static_cohorts for each in matchers)
        self._has_continuity = any(each.snapshot.continuity_keys for each in matchers)
        self._uses_behaviors = any(each.snapshot.uses_behaviors for each in matchers)
        self._decode = build_decoder(property_keys)

    def load_persons(self, ids: Sequence[str]) -> Mapping[str, PersonData]:
        """Return the persons of distinct ids. Ids without a person are left out."""
        rows = list(self._select(f"{_PERSONS_OF} ({_marks(ids)})", self._project_id, *ids))
        numbers = list({id for _, id, _ in rows})
        cohorts = self._load_cohorts(numbers)
        hash_keys = self._load_hash_keys(numbers)
        behaviors = self._load_behaviors(numbers)
        return {
            distinct_id: PersonData(
                properties=self._decode(properties),
                cohorts=frozenset(cohorts.get(id, ())),
                hash_keys=hash_keys.get(id, {}),
                behaviors=join_behaviors(behaviors.get(id, ())),
            )
            for distinct_id, id, properties in rows
        }

    def _load_cohorts(self, persons: Sequence[int]) -> Mapping[int, set[int]]:
        found: defaultdict[int, set[int]] = defaultdict(set)
        if self._has_static_cohorts:
            for person, cohort in self._select_of(
                "SELECT person_id, cohort_id FROM cohort_people", persons
            ):
                found[person].add(cohort)
        return found

    def _load_hash_keys(self, persons: Sequence[int]) -> Mapping[int, dict[str, str]]:
        found: defaultdict[int, dict[str, str]] = defaultdict(dict)
        if self._has_continuity:
            for person, flag, key in self._select_of(
                "SELECT person_id, flag_key, hash_key FROM flag_hash_keys", persons
            ):
                found[person][flag] = key
        return found

    def _load_behaviors(self, persons: Sequence[int]) -> Mapping[int, list[str]]:
        found: defaultdict[int, list[str]] = defaultdict(list)
        if self._uses_behaviors:
            for person, times in self._select_of(_BEHAVIORS_OF, persons):
                found[person].append(times)
        return found

    def _select_of(self, sql: str, persons: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        if not persons:
            return iter(())
        return self._select(f"{sql} WHERE person_id IN ({_marks(persons)})", *persons)

    def load_groups(
        self, groups: Sequence[Mapping[int, str]]
    ) -> Mapping[tuple[int, str], Mapping[str, Any]]:
        found: dict[tuple[int, str], Mapping[str, Any]] = {}
        wanted: defaultdict[int, set[str]] = defaultdict(set)
        for own in groups:
            for index, key in own.items():
                wanted[index].add(key)
        for index, keys in wanted.items():
            sql = f"{_GROUPS_OF} ({_marks(list(keys))})"
            rows = self._select(sql, self._project_id, index, *keys)
            found |= {(index, key): self._decode(properties) for key, properties in rows}
        return found


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
