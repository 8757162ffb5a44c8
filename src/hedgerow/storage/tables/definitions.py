"""The tables of definitions: the events and properties of a project, and what is known of them."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)

from hedgerow.storage.tables.column_types import Json, Moment, metadata


def _details() -> list[Column[Any]]:
    return [
        Column("description", Text, nullable=False),
        # A JSON list as text, which both engines search alike.
        Column("tags", Text, nullable=False),
        Column("verified", Boolean, nullable=False),
        Column("verified_at", Moment),
        Column("verified_by", Text),
        Column("hidden", Boolean, nullable=False),
        # Null for a definition that was created before its first event.
        Column("first_seen_at", Moment),
        Column("last_seen_at", Moment),
        Column("created_at", Moment, nullable=False),
        Column("updated_at", Moment, nullable=False),
        Column("updated_by", Text),
    ]


event_definitions = Table(
    "event_definitions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("owner_id", BigInteger),
    Column("volume_30_day", BigInteger, nullable=False),
    Column("schema", Json),
    Column("schema_mode", Text, nullable=False),
    *_details(),
    UniqueConstraint("project_id", "name"),
)

# `group_type_index` is -1 unless `type` is group: a unique constraint treats nulls as different.
property_definitions = Table(
    "property_definitions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("type", Text, nullable=False),
    Column("group_type_index", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("property_type", Text),
    *_details(),
    UniqueConstraint("project_id", "type", "group_type_index", "name"),
)

# Which properties were seen with which events.
event_properties = Table(
    "event_properties",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("event", Text, primary_key=True),
    Column("property", Text, primary_key=True),
)

# The workers, each with the time of acceptance up to which it has saved what it learned. The row of
# a worker that died stays until another one has learned the events after that time again.
definition_marks = Table(
    "definition_marks",
    metadata,
    Column("holder", Text, primary_key=True),
    Column("learned_until", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)
