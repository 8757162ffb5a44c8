"""Actions: named sets of events."""

from sqlalchemy import Boolean, Column, ForeignKey, Table, Text

from hedgerow.storage.tables.column_types import Id, Json, Moment, metadata

actions = Table(
    "actions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("steps", Json, nullable=False),
    Column("tags", Json, nullable=False),
    Column("slack_message_format", Text, nullable=False),
    Column("pinned_at", Moment),
    Column("deleted", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)
