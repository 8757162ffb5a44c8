"""Pipeline records, their jobs, deliveries and imports."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    Table,
    Text,
)

from hedgerow.storage.tables.column_types import Id, Json, Moment, metadata

pipeline_records = Table(
    "pipeline_records",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("family", Text, nullable=False),
    Column("component_id", Integer, nullable=False),
    Column("component_version", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("order", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("config", Json, nullable=False),
    Column("web_token", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    # When it was enabled or disabled, in milliseconds. Records from older versions have none.
    Column("switches", Json),
)

components = Table(
    "components",
    metadata,
    Column("key", Text, primary_key=True),
    Column("id", Integer, nullable=False),
    Column("first_seen_at", Moment, nullable=False),
)

pipeline_jobs = Table(
    "pipeline_jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("record_id", ForeignKey("pipeline_records.id"), nullable=False),
    Column("type", Text, nullable=False),
    Column("payload", Json, nullable=False),
    Column("status", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    # Where to continue, and the progress.
    Column("cursor", Json),
    Column("done", BigInteger, nullable=False, default=0),
    Column("total", BigInteger),
    Column("rate", Float, nullable=False, default=0.0),
    Column("details", Json, nullable=False, default=dict),
    Column("started_at", Moment),
    Column("ended_at", Moment),
    # The process that holds the lease, and when the lease expires.
    Column("holder", Text),
    Column("expires_at", Moment),
    # Since its last step: processes that died while they held it, and the time it has run. It waits
    # until `run_after`.
    Column("crashes", Integer, nullable=False, default=0, server_default="0"),
    Column("stalled_s", Float, nullable=False, default=0.0, server_default="0"),
    Column("run_after", Moment),
)

# Events on their way to destinations: one row each, however many destinations get it. Ids are not
# used again. `segment` is the id of the first event that was added in the same transaction.
delivery_events = Table(
    "delivery_events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("segment", BigInteger, nullable=False),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("uuid", Text, nullable=False),
    Column("distinct_id", Text, nullable=False),
    Column("event", LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)

# What waits for its first attempt: the events of a segment that a destination gets, as JSON.
delivery_batches = Table(
    "delivery_batches",
    metadata,
    Column("id", Id, primary_key=True),
    Column("record_id", ForeignKey("pipeline_records.id"), nullable=False),
    Column("segment", BigInteger, nullable=False),
    Column("event_ids", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

# Deliveries that have failed: those that are retried, and the dead ones.
deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    Column("record_id", ForeignKey("pipeline_records.id"), nullable=False),
    Column("event_id", BigInteger, nullable=False),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("uuid", Text, nullable=False),
    Column("distinct_id", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("error", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

# The process that sends the deliveries of a record.
delivery_leases = Table(
    "delivery_leases",
    metadata,
    Column("record_id", Id, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("expires_at", Moment, nullable=False),
)

# Health of a destination: consecutive failures, and until when it is paused. For a transformation,
# only its last error.
destination_states = Table(
    "destination_states",
    metadata,
    Column("record_id", ForeignKey("pipeline_records.id"), primary_key=True),
    Column("error", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("paused_until_ms", BigInteger, nullable=False),
)

# Operator notifications that are not sent yet.
notifications = Table(
    "notifications",
    metadata,
    Column("id", Id, primary_key=True),
    Column("body", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

# Results of deliveries by hour; `latencies` is a histogram of request durations.
delivery_counts = Table(
    "delivery_counts",
    metadata,
    Column("record_id", ForeignKey("pipeline_records.id"), primary_key=True),
    Column("hour_ms", BigInteger, primary_key=True),
    Column("delivered", BigInteger, nullable=False),
    Column("retried", BigInteger, nullable=False),
    Column("dead", BigInteger, nullable=False),
    Column("latencies", Json, nullable=False),
)

# Results of transformations by hour.
transformation_counts = Table(
    "transformation_counts",
    metadata,
    Column("record_id", ForeignKey("pipeline_records.id"), primary_key=True),
    Column("hour_ms", BigInteger, primary_key=True),
    Column("changed", BigInteger, nullable=False),
    Column("dropped", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
)

# Log lines of destinations and transformations.
delivery_logs = Table(
    "delivery_logs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("record_id", ForeignKey("pipeline_records.id"), nullable=False),
    Column("level", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("uuid", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)

# UUIDs of delivered events by the second of their timestamp, 16 bytes each, concatenated. A replay
# skips them.
delivered_events = Table(
    "delivered_events",
    metadata,
    Column("id", Id, primary_key=True),
    Column("record_id", ForeignKey("pipeline_records.id"), nullable=False),
    Column("second", BigInteger, nullable=False),
    Column("uuids", LargeBinary, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

# Import progress of a record, and when the next import is due. The cursor is valid for the settings
# in `about`.
import_states = Table(
    "import_states",
    metadata,
    Column("record_id", ForeignKey("pipeline_records.id"), primary_key=True),
    Column("about", Text, nullable=False),
    Column("cursor", Json),
    Column("schedule", Text, nullable=False),
    Column("next_run_ms", BigInteger),
)

# Completely imported files, with the version that was imported.
imported_files = Table(
    "imported_files",
    metadata,
    Column("record_id", ForeignKey("pipeline_records.id"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("version", Text, nullable=False),
)
