"""The evaluation context of flags: identifiers, properties and groups of one person."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from hedgerow.filters.values import MISSING, bound_values
from hedgerow.flags.evaluation.bucket import encode_identifier, select_hasher
from hedgerow.flags.model import FlagId, FlagOutcome
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS

INITIAL_PREFIX = "$initial_"

PersonBehaviors = Mapping[int, Sequence[bytes]]
NO_BEHAVIORS: PersonBehaviors = {}


class NeedsStoredData(Exception):
    """The result depends on stored data that has not been loaded."""


class BudgetExceeded(Exception):
    """The evaluation of a flag takes too long."""


class EvaluationBudget:
    """Limits the time of an evaluation. This one does not; see `budget.py`."""

    def check(self) -> None:
        """Raise BudgetExceeded if the present flag takes too long."""

    def begin_match(self) -> None:
        """Begin a slow match. Raises BudgetExceeded if there is no time for one."""

    def end_match(self) -> None:
        """End a slow match."""


_unlimited = EvaluationBudget()


class CompleteProperties(dict[str, Any]):
    """Properties with all stored data: an absent one is missing."""

    def __missing__(self, key: str) -> Any:
        if key.startswith(INITIAL_PREFIX):
            rest = key[len(INITIAL_PREFIX) :]
            return self.get(f"${rest}", self.get(rest, MISSING))
        return MISSING


class PartialProperties(dict[str, Any]):
    """Properties from the request: an absent one may be stored."""

    def __missing__(self, key: str) -> Any:
        raise NeedsStoredData


class HashKeyOverrides(dict[str, bytes]):
    """The stored identifiers of flags with experience continuity; `default` for any other flag."""

    def __init__(self, stored: Mapping[str, str], default: bytes) -> None:
        super().__init__()
        for flag, key in stored.items():
            self[flag] = encode_identifier(key)
        self._default = default

    def __missing__(self, key: str) -> bytes:
        return self._default


class PendingHashKeyOverrides(dict[str, bytes]):
    def __missing__(self, key: str) -> bytes:
        raise NeedsStoredData


_pending_hash_keys = PendingHashKeyOverrides()


class EvaluationContext:
    """One person at one time. Starts with the data of the request; `add_stored_data` adds the
    rest."""

    __slots__ = (
        "_anonymous",
        "_request_group_properties",
        "_request_properties",
        "behaviors",
        "budget",
        "cohort_results",
        "device_identifier",
        "distinct_id",
        "group_properties",
        "groups",
        "has_errors",
        "hash_keys",
        "hasher",
        "identifier",
        "is_over_budget",
        "is_refused",
        "needs_stored_data",
        "now",
        "person",
        "results",
        "static_cohorts",
    )

    def __init__(  # noqa: PLR0913 - seven parts, all named
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
        self.distinct_id = distinct_id[:DISTINCT_ID_MAX_CHARS]
        self.identifier = encode_identifier(self.distinct_id)
        self.hasher = select_hasher(self.identifier)
        self.now = now
        self.device_identifier = encode_identifier(device_id) if device_id else None
        self.groups = groups
        self.needs_stored_data = False
        self.has_errors = False
        self.budget: EvaluationBudget = _unlimited
        # A flag failed because of a budget; the next flags fail without being evaluated.
        self.is_over_budget = False
        self.is_refused = False
        self.results: dict[FlagId, FlagOutcome] = {}
        # None: the result depends on stored data.
        self.cohort_results: dict[int, bool | None] = {}
        self._anonymous = anonymous_id
        self._request_properties = bound_values(person_properties)
        self._request_group_properties = (
            {index: bound_values(each) for index, each in group_properties.items()}
            if group_properties
            else group_properties
        )
        person = PartialProperties(self._request_properties)
        person.setdefault("distinct_id", self.distinct_id)
        self.person: Mapping[str, Any] = person
        self.group_properties: Mapping[int, Mapping[str, Any]] = {
            index: PartialProperties(
                self._request_group_properties.get(index, {}), **{"$group_key": key}
            )
            for index, key in groups.items()
        }
        self.static_cohorts: frozenset[int] | None = None
        # Packed occurrences by behavior, of each distinct id of the person.
        self.behaviors: PersonBehaviors | None = None
        self.hash_keys: Mapping[str, bytes] = _pending_hash_keys

    def add_stored_data(
        self,
        person: Mapping[str, Any],
        *,
        groups: Mapping[int, Mapping[str, Any]],
        cohorts: frozenset[int],
        hash_keys: Mapping[str, str],
        behaviors: PersonBehaviors | None = NO_BEHAVIORS,
    ) -> None:
        """Add stored data. Each property of the request takes precedence."""
        properties = CompleteProperties(bound_values(person))
        properties.update(self._request_properties)
        properties.setdefault("distinct_id", self.distinct_id)
        self.person = properties
        self.group_properties = {
            index: CompleteProperties(
                {
                    **bound_values(groups.get(index, {})),
                    **self._request_group_properties.get(index, {}),
                    "$group_key": key,
                }
            )
            for index, key in self.groups.items()
        }
        self.static_cohorts = cohorts
        self.behaviors = behaviors
        default = encode_identifier(self._anonymous) if self._anonymous else self.identifier
        self.hash_keys = HashKeyOverrides(hash_keys, default)
        self.needs_stored_data = self.has_errors = False
        self.results = {}
        self.cohort_results = {}
