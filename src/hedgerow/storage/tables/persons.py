"""Persons, groups and the members of cohorts."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Integer, Table, Text

from hedgerow.storage.tables.column_types import Id, Json, Moment, metadata

persons = Table(
    "persons",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("uuid", Text, nullable=False),
    Column("properties", Json, nullable=False),
    # Whether the person was identified. An identified person is not merged into another.
    Column("is_identified", Boolean, nullable=False, default=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

person_distinct_ids = Table(
    "person_distinct_ids",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("distinct_id", Text, primary_key=True),
    Column("person_id", ForeignKey("persons.id", ondelete="CASCADE"), nullable=False),
)

# The members of static cohorts.
cohort_people = Table(
    "cohort_people",
    metadata,
    Column("person_id", ForeignKey("persons.id", ondelete="CASCADE"), primary_key=True),
    Column("cohort_id", ForeignKey("cohorts.id"), primary_key=True),
)

group_types = Table(
    "group_types",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("index", Integer, primary_key=True),
    Column("name", Text, nullable=False),
)

groups = Table(
    "groups",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("type_index", Integer, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("properties", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

# Keys of changed persons, distinct ids, groups and cohort members, to be replicated to the event
# store. Database triggers fill it. See persons/replication_queue.py.
mirror_queue = Table(
    "mirror_queue",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("project_id", Id, nullable=False),
    Column("number", Id, nullable=False),
    Column("name", Text, nullable=False),
    # The version of the replica, if it is not the id of this row.
    Column("version", BigInteger),
)
