"""Load what a flag depends on, and evaluate it for a list of keys.

This function runs in a worker process. Like `scan_worker.py`, it does without SQLAlchemy.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hedgerow.flags.evaluation.flag_values import (
    NOBODY,
    KeyMatcher,
    PersonData,
)
from hedgerow.flags.store import FlagEvaluation
from hedgerow.projects.model import ProjectId
from hedgerow.storage.persons.scan_source import ScanSource, Select
from hedgerow.storage.persons.scan_worker import build_decoder

# SQLite allows 32,766 variables in a statement.
BATCH_SIZE = 500

_PERSONS_OF = (
    "SELECT d.distinct_id, p.id, CAST(p.properties AS text)"
    " FROM person_distinct_ids AS d JOIN persons AS p ON p.id = d.person_id"
    " WHERE d.project_id = ? AND d.distinct_id IN"
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
        data = _StoredData(select, project_id, matcher)
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
                matcher.add(key, own, persons.get(id, NOBODY), properties)
    return matcher.collect()


class _StoredData:
    def __init__(self, select: Select, project_id: ProjectId, matcher: KeyMatcher) -> None:
        self._select = select
        self._project_id = project_id
        self._snapshot = matcher.snapshot
        self._decode = build_decoder(matcher.property_keys)

    def load_persons(self, ids: Sequence[str]) -> Mapping[str, PersonData]:
        """Return the persons of distinct ids. Ids without a person are left out."""
        rows = list(self._select(f"{_PERSONS_OF} ({_marks(ids)})", self._project_id, *ids))
        numbers = list({id for _, id, _ in rows})
        cohorts = self._load_cohorts(numbers)
        hash_keys = self._load_hash_keys(numbers)
        return {
            distinct_id: PersonData(
                properties=self._decode(properties),
                cohorts=frozenset(cohorts.get(id, ())),
                hash_keys=hash_keys.get(id, {}),
            )
            for distinct_id, id, properties in rows
        }

    def _load_cohorts(self, persons: Sequence[int]) -> Mapping[int, set[int]]:
        found: defaultdict[int, set[int]] = defaultdict(set)
        if self._snapshot.has_static_cohorts:
            for person, cohort in self._select_of(
                "SELECT person_id, cohort_id FROM cohort_people", persons
            ):
                found[person].add(cohort)
        return found

    def _load_hash_keys(self, persons: Sequence[int]) -> Mapping[int, dict[str, str]]:
        found: defaultdict[int, dict[str, str]] = defaultdict(dict)
        if self._snapshot.continuity_keys:
            for person, flag, key in self._select_of(
                "SELECT person_id, flag_key, hash_key FROM flag_hash_keys", persons
            ):
                found[person][flag] = key
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
