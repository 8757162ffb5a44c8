"""The tables of ingestion: events on their way to the event store, and what processes share."""

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    Table,
    Text,
)

from hedgerow.storage.tables.column_types import Id, Moment, metadata

# Captured events that wait for processing, one row per request. Rows of one bucket are processed in
# order; a distinct id is always in the same bucket.
inbox = Table(
    "inbox",
    metadata,
    Column("id", Id, primary_key=True),
    Column("bucket", Integer, nullable=False),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("events", LargeBinary, nullable=False),
    Column("number", Integer, nullable=False),
    Column("accepted_ms", BigInteger, nullable=False),
)

# The persons and groups that the events of an inbox row change, as hashes of their ids. PostgreSQL
# only: the one process on SQLite knows them.
unprocessed_ids = Table(
    "unprocessed_ids",
    metadata,
    Column("key", BigInteger, primary_key=True, autoincrement=False),
    Column("inbox_id", BigInteger, primary_key=True, autoincrement=False),
    Column("bucket", Integer, nullable=False),
)

# Processed events that wait for the event store. `project_id` is 0 in rows of earlier versions,
# which have events of several projects.
ready_events = Table(
    "ready_events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("bucket", Integer, nullable=False),
    Column("project_id", BigInteger, nullable=False, server_default="0"),
    Column("events", LargeBinary, nullable=False),
    Column("number", Integer, nullable=False),
    Column("accepted_ms", BigInteger),
)

# Stored events whose deliveries are not created yet.
unrouted_events = Table(
    "unrouted_events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", BigInteger, nullable=False),
    Column("events", LargeBinary, nullable=False),
    Column("number", Integer, nullable=False),
)

# The process that stores the events of a bucket, and the last row of the batch that it stores.
inbox_leases = Table(
    "inbox_leases",
    metadata,
    Column("bucket", Integer, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("last_id", BigInteger),
)

# The processes that share the buckets.
inbox_workers = Table(
    "inbox_workers",
    metadata,
    Column("holder", Text, primary_key=True),
    Column("expires_at", Moment, nullable=False),
)

# How far the inbox stream is processed, if NATS JetStream holds the captured events: the last row
# of a bucket, and how many events of the next one. `era` is part of the stream's subject.
inbox_positions = Table(
    "inbox_positions",
    metadata,
    Column("era", Text, primary_key=True),
    Column("bucket", Integer, primary_key=True, autoincrement=False),
    Column("last_id", BigInteger, nullable=False),
    Column("events", Integer, nullable=False),
)

# What each process used of the rate limits that all processes share.
rate_usage = Table(
    "rate_usage",
    metadata,
    Column("holder", Text, primary_key=True),
    Column("bucket", Text, primary_key=True),
    Column("used", Float, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

# Dead letters: events that could not be processed or stored, encoded as in their source table. If a
# row cannot be decoded, nothing is known of it; its project may not exist.
set_aside_events = Table(
    "set_aside_events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("stage", Text, nullable=False),
    Column("bucket", Integer, nullable=False),
    Column("project_id", BigInteger),
    Column("uuid", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("distinct_id", Text, nullable=False),
    Column("events", LargeBinary, nullable=False),
    Column("number", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("set_aside_at", Moment, nullable=False),
    sqlite_autoincrement=True,
)

ingestion_warnings = Table(
    "ingestion_warnings",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("type", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("uuid", Text, nullable=False),
    Column("distinct_id", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)

# The keys of the hashes that identify visitors without cookies, by calendar day. Deleted when the
# day is over everywhere.
cookieless_salts = Table(
    "cookieless_salts",
    metadata,
    Column("day", Text, primary_key=True),
    Column("salt", LargeBinary, nullable=False),
)

# Visitors without cookies, by their hash. Deleted with the salt of their day.
cookieless_visitors = Table(
    "cookieless_visitors",
    metadata,
    Column("project_id", BigInteger, primary_key=True, autoincrement=False),
    Column("device", Text, primary_key=True),
    Column("day", Text, nullable=False),
    Column("state", Text, nullable=False),
)

# Deletions, until their data is gone from the disk. `person_uuid` is empty for events alone.
deletions = Table(
    "deletions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", BigInteger, nullable=False),
    Column("person_uuid", Text, nullable=False),
    Column("requested_at", Moment, nullable=False),
    Column("deleted_at", Moment),
    Column("purged_at", Moment),
)

# Deleted projects. Their rows in `projects` stay, so that no later project gets their ids and an
# event in flight still has a project. `holder` is the process that deletes the data.
project_deletions = Table(
    "project_deletions",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("requested_at", Moment, nullable=False),
    Column("rows_deleted", BigInteger, nullable=False),
    # Null until they are counted.
    Column("events_deleted", BigInteger),
    Column("purged_at", Moment),
    Column("holder", Text),
    Column("expires_at", Moment),
)

# When a process last began a task that only one of all processes runs.
task_claims = Table(
    "task_claims",
    metadata,
    Column("task", Text, primary_key=True),
    Column("claimed_at", Moment, nullable=False),
)
