"""Storage interfaces of this package."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import msgspec

from hedgerow.flags.evaluation.condition_matcher import Condition
from hedgerow.flags.evaluation.evaluation_context import NO_BEHAVIORS, PersonBehaviors
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.persons.model import PersonId
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagWrite:
    """A flag to store; a new one has no id yet. `build_entry` returns the activity entry."""

    flag: Flag
    build_entry: Callable[[Flag], ActivityEntry | None]


class FlagStore(Protocol):
    async def generation(self, project_id: ProjectId) -> int: ...

    async def generations(self) -> Mapping[ProjectId, int]:
        """Return the generation of every project that has flags."""
        ...

    async def definitions(self, project_id: ProjectId, timezone: str) -> FlagDefinitions:
        """Return all definitions that are not deleted."""
        ...

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None:
        """Return a flag, even if it is deleted."""
        ...

    async def deletion_blockers(self, project_id: ProjectId) -> Mapping[FlagId, str]:
        """Return the reasons why flags cannot be deleted, for those that other resources need."""
        ...

    async def call_counts(self, project_id: ProjectId, flag_key: str) -> Mapping[str, int]:
        """Return how often SDKs reported calls of a flag, by its value."""
        ...

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[FlagDefinitions, Callable[[FlagId], Flag | None]], FlagWrite],
        now: datetime,
    ) -> Flag:
        """Store the result of `decide`, which gets the present definitions, while the project is
        locked."""
        ...

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[FlagDefinitions, Callable[[FlagWrite], Flag]], None],
        now: datetime,
    ) -> None:
        """Let `work` store several flags, all or none, while the project is locked. The store
        function returns each flag with its id, so that later flags can refer to it."""
        ...


class PendingEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Accepted events that change stored data and are not processed: the first of their positions
    in the inbox, the last position of all events, and the buckets of the inbox that hold them."""

    first: int
    last: int
    buckets: Sequence[int]


class StoredData(msgspec.Struct, frozen=True, kw_only=True):
    """The stored data about a person; empty for an unknown one. It is stale if accepted events that
    change it are not processed. If several processes share the inbox, `pending` are these.
    `behaviors` is None for a person with too many distinct ids."""

    person_id: int | None
    properties: Mapping[str, Any]
    cohorts: frozenset[int]
    hash_keys: Mapping[str, str]
    groups: Mapping[int, Mapping[str, Any]]
    is_stale: bool = False
    pending: PendingEvents | None = None
    behaviors: PersonBehaviors | None = NO_BEHAVIORS


class EvaluationDataStore(Protocol):
    def load(
        self,
        project_id: ProjectId,
        distinct_id: str,
        groups: Mapping[int, str],
        *,
        cohorts: bool = True,
        hash_keys: bool = True,
        behaviors: bool = True,
    ) -> Coroutine[Any, Any, StoredData]:
        """Load static cohorts, hash keys and behaviors only if requested."""
        ...

    async def list_distinct_ids(self, project_id: ProjectId, distinct_id: str) -> Sequence[str]:
        """Return the distinct ids of the same person, but not of one with very many."""
        ...

    async def wait_for_group_types(self, project_id: ProjectId, names: Sequence[str]) -> None:
        """Wait for accepted events that may create these group types."""
        ...

    async def save_hash_keys(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        hash_key: str,
        flags: Sequence[str],
    ) -> None:
        """Save the hash key of each flag for the persons of these ids. An existing hash key is
        kept."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonPage:
    """Persons, newest first, with at least the properties of these keys. Static cohorts, hash keys
    and behaviors are loaded only if requested."""

    project_id: ProjectId
    limit: int
    older_than: PersonId | None
    property_keys: frozenset[str]
    cohorts: bool
    hash_keys: bool
    behaviors: bool


class EvaluatedPerson(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What flags depend on. `distinct_id` is the first one of the person, or its uuid."""

    id: PersonId
    distinct_id: str
    properties: Mapping[str, Any]
    cohorts: frozenset[int]
    hash_keys: Mapping[str, str]
    behaviors: PersonBehaviors


class EvaluatedPersonStore(Protocol):
    """Reads many persons for flags, without what flags do not depend on."""

    async def count_persons(self, project_id: ProjectId) -> int: ...

    async def load_page(self, page: PersonPage) -> Sequence[EvaluatedPerson]: ...


class ScanResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many of `total` persons or groups match. `ids` is the requested page of the persons that
    match, newest first. `total` is unknown, and `matching` the known count, if the query has
    one."""

    ids: Sequence[PersonId] = ()
    matching: int
    total: int = 0


class PersonScanner(Protocol):
    """Reads all persons or groups of a project, in a process that can be killed. Raises Invalid if
    that takes too long."""

    async def scan_persons(self, query: PersonQuery, condition: Condition) -> ScanResult:
        """Find the persons of the query that match the condition."""
        ...

    async def scan_groups(self, project_id: ProjectId, condition: Condition) -> ScanResult:
        """Count the groups that match the condition, of the type that it names."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagEvaluation:
    """A flag and everything that its value depends on. A key has the distinct id if
    `has_distinct_id`, then the key of each group type in `group_indexes`, empty for none."""

    flag_key: str
    definitions: FlagDefinitions
    now: datetime
    has_distinct_id: bool
    group_indexes: Sequence[int]


class KeyEvaluator(Protocol):
    """Evaluates a flag for many keys, in a process that can be killed. Raises Invalid if that takes
    too long."""

    async def evaluate_keys(
        self, project_id: ProjectId, evaluation: FlagEvaluation, keys: Sequence[Sequence[str]]
    ) -> Mapping[str, Sequence[bytes]]:
        """Return the encoded keys by the value of the flag."""
        ...
