"""A definition: what is known of an event or a property, and what people have written about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from hedgerow.projects.model import ProjectId, SchemaMode

NAME_MAX_CHARS = 400
DESCRIPTION_MAX_CHARS = 4000
TAG_MAX_CHARS = 255
MAX_TAGS = 100
# Names beyond these limits are not recorded: a client can invent any number of them.
MAX_EVENTS = 10_000
MAX_PROPERTIES = 20_000
MAX_EVENT_PROPERTIES = 200_000
VOLUME_PERIOD = timedelta(days=30)


class PropertyKind(StrEnum):
    """What has the property."""

    EVENT = "event"
    PERSON = "person"
    GROUP = "group"


class PropertyValueType(StrEnum):
    STRING = "String"
    NUMERIC = "Numeric"
    BOOLEAN = "Boolean"
    DATETIME = "DateTime"


class EventSchemaMode(StrEnum):
    """What happens to an event that breaks its schema: what the project chooses, or another
    mode."""

    PROJECT = "project"
    OFF = "off"
    WARN = "warn"
    REJECT = "reject"


class SeenEvent(NamedTuple):
    """A processed event. `sent_properties` are those before Hedgerow derived others from them.
    `group_type_index` is of the group that the event describes."""

    event: str
    properties: Mapping[str, Any]
    sent_properties: Mapping[str, Any]
    timestamp: datetime
    accepted_at: datetime
    group_type_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What people write about a definition."""

    description: str = ""
    tags: tuple[str, ...] = ()
    verified: bool = False
    verified_at: datetime | None = None
    verified_by: str | None = None
    hidden: bool = False
    updated_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDefinition(Details):
    id: str
    project_id: ProjectId
    name: str
    owner_id: int | None = None
    first_seen_at: datetime | None = None
    last_seen_at: datetime | None = None
    volume_30_day: int = 0
    schema: Mapping[str, Any] | None = None
    schema_mode: EventSchemaMode = EventSchemaMode.PROJECT
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyDefinition(Details):
    """`is_seen_on_events` is None unless the reader asked about events."""

    id: str
    project_id: ProjectId
    type: PropertyKind
    group_type_index: int | None = None
    name: str
    property_type: PropertyValueType | None = None
    first_seen_at: datetime | None = None
    last_seen_at: datetime | None = None
    created_at: datetime
    updated_at: datetime
    is_seen_on_events: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSchema:
    """The schema of an event, in the form that the worker uses: JSON text."""

    project_id: ProjectId
    event: str
    text: str
    mode: SchemaMode
