"""Whom flags are evaluated for: identifiers, properties, groups, and what is still unknown."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hedgerow.filters.values import MISSING, comparable
from hedgerow.flags.bucket import hasher_for, identifier_bytes
from hedgerow.flags.model import DISTINCT_ID_MAX, FlagId, Outcome

INITIAL = "$initial_"


class NeedsStored(Exception):
    """The answer depends on something that is stored and has not been read."""


class Known(dict[str, Any]):
    """Properties of which no more are stored: what is not here is missing."""

    def __missing__(self, key: str) -> Any:
        if key.startswith(INITIAL):
            rest = key[len(INITIAL) :]
            return self.get(f"${rest}", self.get(rest, MISSING))
        return MISSING


class Partial(dict[str, Any]):
    """Properties that a request brought: what is not here may be stored."""

    def __missing__(self, key: str) -> Any:
        raise NeedsStored


class HashKeys(dict[str, bytes]):
    """By which identifier a person counts in flags that outlast a login; `usual` in all others."""

    def __init__(self, stored: Mapping[str, str], usual: bytes) -> None:
        super().__init__()
        for flag, key in stored.items():
            self[flag] = identifier_bytes(key)
        self._usual = usual

    def __missing__(self, key: str) -> bytes:
        return self._usual


class UnknownHashKeys(dict[str, bytes]):
    def __missing__(self, key: str) -> bytes:
        raise NeedsStored


_unknown_hash_keys = UnknownHashKeys()


class Subject:
    """One person at one moment. Starts with what the request says; `complete` adds what is
    stored."""

    __slots__ = (
        "_anonymous",
        "_given",
        "_given_groups",
        "cohorts",
        "device",
        "distinct_id",
        "group_properties",
        "groups",
        "has_errors",
        "hash",
        "hash_keys",
        "id",
        "in_cohorts",
        "needs_stored",
        "now",
        "person",
        "results",
    )

    def __init__(  # noqa: PLR0913 - one value of seven parts, all named
        self,
        *,
        distinct_id: str,
        now: datetime,
        person_properties: Mapping[str, Any] = {},
        groups: Mapping[int, str] = {},
        group_properties: Mapping[int, Mapping[str, Any]] = {},
        anonymous_id: str | None = None,
        device_id: str | None = None,
    ) -> None:
        self.distinct_id = distinct_id[:DISTINCT_ID_MAX]
        self.id = identifier_bytes(self.distinct_id)
        self.hash = hasher_for(self.id)
        self.now = now
        self.device = identifier_bytes(device_id) if device_id else None
        self.groups = groups
        self.needs_stored = False
        self.has_errors = False
        self.results: dict[FlagId, Outcome] = {}
        self.in_cohorts: dict[int, bool] = {}
        self._anonymous = anonymous_id
        self._given = comparable(person_properties)
        self._given_groups = (
            {index: comparable(given) for index, given in group_properties.items()}
            if group_properties
            else group_properties
        )
        person = Partial(self._given)
        person.setdefault("distinct_id", self.distinct_id)
        self.person: Mapping[str, Any] = person
        self.group_properties: Mapping[int, Mapping[str, Any]] = {
            index: Partial(self._given_groups.get(index, {}), **{"$group_key": key})
            for index, key in groups.items()
        }
        self.cohorts: frozenset[int] | None = None
        self.hash_keys: Mapping[str, bytes] = _unknown_hash_keys

    def complete(
        self,
        person: Mapping[str, Any],
        *,
        groups: Mapping[int, Mapping[str, Any]],
        cohorts: frozenset[int],
        hash_keys: Mapping[str, str],
    ) -> None:
        """Add what is stored; what the request says goes over it, key by key."""
        known = Known(comparable(person))
        known.update(self._given)
        known.setdefault("distinct_id", self.distinct_id)
        self.person = known
        self.group_properties = {
            index: Known(
                {
                    **comparable(groups.get(index, {})),
                    **self._given_groups.get(index, {}),
                    "$group_key": key,
                }
            )
            for index, key in self.groups.items()
        }
        self.cohorts = cohorts
        usual = identifier_bytes(self._anonymous) if self._anonymous else self.id
        self.hash_keys = HashKeys(hash_keys, usual)
        self.needs_stored = self.has_errors = False
        self.results = {}
        self.in_cohorts = {}
