"""What persons did, as far as cohorts use it."""

from sqlalchemy import Column, ForeignKey, Integer, Table, Text

from hedgerow.storage.tables.column_types import Id, Json, Moment, metadata

behaviors = Table(
    "behaviors",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("reference", Text, nullable=False),
    Column("definition", Json, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("done", Integer, nullable=False),
    Column("total", Integer, nullable=False),
    Column("cursor", Text, nullable=False),
    Column("doubted_at", Moment),
    Column("created_at", Moment, nullable=False),
    # Processes remember behaviors by id.
    sqlite_autoincrement=True,
)

# The occurrences of behaviors by distinct id: persons are merged and split, their ids are not.
behavior_times = Table(
    "behavior_times",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("distinct_id", Text, primary_key=True),
    Column("times", Text, nullable=False),
)
