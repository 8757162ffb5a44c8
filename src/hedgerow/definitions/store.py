"""Storage interfaces of this package, and the values that they exchange."""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol

from hedgerow.definitions.model import (
    EventDefinition,
    EventSchema,
    PropertyDefinition,
    PropertyKind,
    PropertyValueType,
    SeenEvent,
)
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId


class PropertyKey(NamedTuple):
    """The identity of a property in its project. `group_type_index` is -1 for other kinds."""

    kind: PropertyKind
    group_type_index: int
    name: str


class LearnedEvent(NamedTuple):
    """When an event was seen, and how often in the last 30 days."""

    first_seen_at: datetime
    last_seen_at: datetime
    number: int

    def merge(self, other: "LearnedEvent") -> "LearnedEvent":
        return LearnedEvent(
            min(self.first_seen_at, other.first_seen_at),
            max(self.last_seen_at, other.last_seen_at),
            self.number + other.number,
        )


class LearnedProperty(NamedTuple):
    first_seen_at: datetime
    last_seen_at: datetime
    property_type: PropertyValueType | None

    def merge(self, other: "LearnedProperty") -> "LearnedProperty":
        return LearnedProperty(
            min(self.first_seen_at, other.first_seen_at),
            max(self.last_seen_at, other.last_seen_at),
            self.property_type or other.property_type,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedNames:
    """What a worker has learned. `pairs` are events and the properties that they were seen with."""

    events: Mapping[tuple[ProjectId, str], LearnedEvent] = field(default_factory=dict)
    properties: Mapping[tuple[ProjectId, PropertyKey], LearnedProperty] = field(
        default_factory=dict
    )
    pairs: Set[tuple[ProjectId, str, str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventQuery:
    """Which event definitions to list. `order` is a column, descending if `is_descending`."""

    project_id: ProjectId
    search: str = ""
    names: Collection[str] | None = None
    is_posthog: bool | None = None
    verified: bool | None = None
    tags: Collection[str] = ()
    includes_hidden: bool = True
    order: str = ""
    is_descending: bool = False
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyQuery:
    """Which property definitions to list. `events` asks whether they were seen with one of these
    events, and `is_filtered_by_events` leaves out the others."""

    project_id: ProjectId
    kind: PropertyKind | None = PropertyKind.EVENT
    group_type_index: int | None = None
    search: str = ""
    names: Collection[str] | None = None
    excluded: Collection[str] = ()
    events: Collection[str] | None = None
    is_filtered_by_events: bool = False
    is_feature_flag: bool | None = None
    is_numerical: bool | None = None
    excludes_core: bool = False
    verified: bool | None = None
    tags: Collection[str] = ()
    includes_hidden: bool = True
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDefinitions:
    """All definitions of a project, by their identities."""

    events: Mapping[str, EventDefinition]
    properties: Mapping[PropertyKey, PropertyDefinition]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionWrites:
    """Definitions to store, new or changed, and to delete, with the entries of the activity log."""

    stored: Sequence[EventDefinition | PropertyDefinition] = ()
    deleted: Sequence[EventDefinition | PropertyDefinition] = ()
    entries: Sequence[ActivityEntry] = ()


class DefinitionStore(Protocol):
    async def save_learned(self, learned: LearnedNames, now: datetime) -> None:
        """Add new definitions and update known ones. Names beyond the limits are left out, with an
        ingestion warning."""
        ...

    async def set_volumes(
        self, project_id: ProjectId, events: Mapping[str, LearnedEvent], now: datetime
    ) -> None:
        """Replace the volumes of all events of a project, and add missing definitions."""
        ...

    async def list_events(self, query: EventQuery) -> tuple[list[EventDefinition], int]:
        """Return one page and the total number."""
        ...

    async def list_properties(self, query: PropertyQuery) -> tuple[list[PropertyDefinition], int]:
        """Return one page and the total number."""
        ...

    async def find_event(self, project_id: ProjectId, id: str) -> EventDefinition | None: ...

    async def find_property(self, project_id: ProjectId, id: str) -> PropertyDefinition | None: ...

    async def load_all(self, project_id: ProjectId) -> StoredDefinitions: ...

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[["DefinitionLookup"], DefinitionWrites],
        now: datetime,
    ) -> DefinitionWrites:
        """Store the result of `decide`, in a transaction that is exclusive for the project."""
        ...


class DefinitionLookup(Protocol):
    """The stored definitions, within the transaction of a change."""

    def find_event(self, id: str) -> EventDefinition | None: ...

    def find_event_by_name(self, name: str) -> EventDefinition | None: ...

    def find_property(self, id: str) -> PropertyDefinition | None: ...

    def count_events(self) -> int: ...

    def load_all(self) -> StoredDefinitions: ...


class SchemaStore(Protocol):
    async def generations_of(self, project_ids: Collection[ProjectId]) -> Mapping[ProjectId, int]:
        """Return the generations of the schemas, 0 for a project that never had one."""
        ...

    async def schemas(self, project_ids: Collection[ProjectId]) -> Sequence[EventSchema]:
        """Return the schemas that are not off."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningMark:
    """A worker, and the time of acceptance up to which it has saved what it learned."""

    holder: str
    learned_until: datetime
    updated_at: datetime


class MarkStore(Protocol):
    async def advance(self, holder: str, learned_until: datetime, now: datetime) -> None:
        """Create or update the mark of a living worker."""
        ...

    async def remove(self, holder: str) -> None: ...

    async def list_abandoned(self, holder: str, updated_before: datetime) -> Sequence[LearningMark]:
        """Return the marks of other workers that have not been updated since."""
        ...

    async def claim(
        self, mark: LearningMark, learned_until: datetime, now: datetime
    ) -> LearningMark | None:
        """Advance the mark of another worker; None if another process has changed it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPage:
    """Stored events of one time range, by project. `until` is where the next page begins; None if
    there are no more."""

    events: Mapping[ProjectId, Sequence[SeenEvent]]
    until: datetime | None


class StoredEventSource(Protocol):
    @property
    def has_events(self) -> bool:
        """Whether there may be stored events at all."""
        ...

    async def read_page(self, after: datetime, until: datetime, limit: int) -> StoredPage:
        """Read about `limit` events that were accepted after `after` and up to `until`."""
        ...

    async def count_events(
        self, project_id: ProjectId, since: datetime, limit: int
    ) -> Mapping[str, LearnedEvent]:
        """Return the most frequent events of a project, with their number since `since`."""
        ...
