"""Evaluate a flag for many combinations of distinct id and groups, for `flag('key')` in HogQL."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.query.flag_values import DISTINCT_ID, FlagEvaluator, encode_key
from hedgerow.flags.evaluation.compile import ENROLLMENT, CompiledFlag
from hedgerow.flags.evaluation.condition_matcher import add_fallbacks
from hedgerow.flags.evaluation.evaluation_context import (
    NO_BEHAVIORS,
    EvaluationContext,
    PersonBehaviors,
)
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.evaluation.snapshot import FlagSnapshot, build_snapshot
from hedgerow.flags.model import Bucketing, FlagDefinitions
from hedgerow.flags.store import FlagEvaluation, KeyEvaluator
from hedgerow.flags.validate import condition_sets
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS, MAX_GROUP_TYPES
from hedgerow.projects.model import Project

GROUP_COLUMN = "$group_"
_INDEX = "aggregation_group_type_index"
# They make a flag depend on the person even if all its conditions are about groups.
_PERSON_FIELDS = ("feature_enrollment", "super_groups", "holdout", "holdout_groups")


class StoredFlagEvaluator(FlagEvaluator):
    """Evaluates flags as `/decide` does for a request with nothing but a distinct id and groups."""

    def __init__(self, flag_cache: FlagCache, evaluator: KeyEvaluator) -> None:
        self._flag_cache = flag_cache
        self._evaluator = evaluator

    async def list_key_columns(self, project: Project, flag_key: str) -> Sequence[str] | None:
        snapshot = await self._flag_cache.refresh(project)
        compiled = snapshot.get(flag_key)
        if compiled is None:
            return None
        if not compiled.flag.active:
            return ()
        flags = snapshot.select([flag_key])
        for each in flags:
            if each.flag.bucketing_identifier is Bucketing.DEVICE_ID:
                detail = f"Flag '{each.flag.key}' depends on the device, which events do not tell."
                raise Invalid(detail, code="not_supported")
        indexes = [f"{GROUP_COLUMN}{index}" for index in list_group_indexes(flags)]
        return indexes if is_about_groups(flags) else [DISTINCT_ID, *indexes]

    async def evaluate(
        self, project: Project, flag_key: str, keys: Sequence[Sequence[str]], now: datetime
    ) -> Mapping[str, Sequence[bytes]]:
        snapshot = await self._flag_cache.refresh(project)
        flags = snapshot.select([flag_key])
        evaluation = FlagEvaluation(
            flag_key=flag_key,
            definitions=replace(snapshot.definitions, flags=[each.flag for each in flags]),
            now=now,
            has_distinct_id=not is_about_groups(flags),
            group_indexes=list_group_indexes(flags),
        )
        return await self._evaluator.evaluate_keys(project.id, evaluation, keys)


def list_group_indexes(flags: Iterable[CompiledFlag]) -> list[int]:
    """Return the group types that the flags depend on."""
    found: set[Any] = set()
    for each in flags:
        filters = each.flag.filters
        found.add(filters.get(_INDEX))
        found.update(condition.get(_INDEX) for condition in condition_sets(filters))
        for condition in each.conditions:
            found.update(filter.get("group_type_index") for filter in condition.filters)
    return sorted(index for index in found if index in range(MAX_GROUP_TYPES))


def is_about_groups(flags: Sequence[CompiledFlag]) -> bool:
    """Return whether the distinct id makes no difference to the value."""
    return all(
        each.flag.filters.get(_INDEX) is not None
        and not any(each.flag.filters.get(name) for name in _PERSON_FIELDS)
        and all(
            condition.group_index is not None
            and all(filter.get("type") == "group" for filter in condition.filters)
            for condition in each.conditions
        )
        for each in flags
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonData:
    properties: Mapping[str, Any]
    cohorts: frozenset[int]
    hash_keys: Mapping[str, str]
    behaviors: PersonBehaviors


NO_PERSON = PersonData(properties={}, cohorts=frozenset(), hash_keys={}, behaviors=NO_BEHAVIORS)


def list_property_keys(snapshot: FlagSnapshot) -> frozenset[str]:
    """Return the properties of persons and groups that the flags depend on."""
    return add_fallbacks(
        snapshot.predicates.property_keys
        | {
            ENROLLMENT + each.flag.key
            for each in snapshot.all_flags
            if each.flag.filters.get("feature_enrollment")
        }
    )


class FlagMatcher:
    """Evaluates one flag for one person after another. Pure: runs in a worker process.
    `property_keys` are the properties of persons and groups that the value depends on. Without
    `needs_persons`, it depends on nothing that is stored with persons."""

    def __init__(self, flag_key: str, definitions: FlagDefinitions, now: datetime) -> None:
        self._flag_key = flag_key
        self._now = now
        self.snapshot: FlagSnapshot = build_snapshot(definitions)
        self._flags = self.snapshot.all_flags
        self.property_keys = list_property_keys(self.snapshot)
        self.needs_persons = bool(
            self.property_keys - {DISTINCT_ID}
            or self.snapshot.has_static_cohorts
            or self.snapshot.continuity_keys
            or self.snapshot.uses_behaviors
        )

    def evaluate(
        self,
        distinct_id: str,
        groups: Mapping[int, str],
        person: PersonData,
        group_properties: Mapping[int, Mapping[str, Any]],
    ) -> str:
        """Return the value of the flag as text."""
        context = EvaluationContext(distinct_id=distinct_id, now=self._now, groups=groups)
        context.add_stored_data(
            person.properties,
            groups=group_properties,
            cohorts=person.cohorts,
            hash_keys=person.hash_keys,
            behaviors=person.behaviors,
        )
        for outcome in self.snapshot.evaluate(self._flags, context):
            if outcome.flag.key == self._flag_key:
                return outcome.value if isinstance(outcome.value, str) else _text(outcome.value)
        return _text(False)


class KeyMatcher(FlagMatcher):
    """Evaluates one flag for one key after another."""

    def __init__(self, evaluation: FlagEvaluation) -> None:
        super().__init__(evaluation.flag_key, evaluation.definitions, evaluation.now)
        self._evaluation = evaluation
        self.needs_persons = evaluation.has_distinct_id and self.needs_persons
        self._found: dict[str, list[bytes]] = {}

    def split_key(self, key: Sequence[str]) -> tuple[str, dict[int, str]]:
        """Return the distinct id, empty without one, and the groups."""
        evaluation = self._evaluation
        start = int(evaluation.has_distinct_id)
        groups = dict(zip(evaluation.group_indexes, key[start:], strict=True))
        given = {index: each for index, each in groups.items() if each}
        return (key[0][:DISTINCT_ID_MAX_CHARS] if start else ""), given

    def add(
        self,
        key: Sequence[str],
        groups: Mapping[int, str],
        person: PersonData,
        group_properties: Mapping[int, Mapping[str, Any]],
    ) -> None:
        """Evaluate the flag for a key with these groups."""
        distinct_id = key[0] if self._evaluation.has_distinct_id else ""
        value = self.evaluate(distinct_id, groups, person, group_properties)
        self._found.setdefault(value, []).append(encode_key(key))

    def collect(self) -> dict[str, bytes]:
        """Return the encoded keys by the value of the flag."""
        return {value: b"".join(keys) for value, keys in self._found.items()}


def _text(value: bool) -> str:
    return "true" if value else "false"
