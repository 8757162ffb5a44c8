"""The tables of the state database, as the current version uses them.

Migrations define tables themselves: a change here needs a new migration.
"""

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

from hedgerow.storage import ingestion_tables as ingestion_tables  # completes the metadata
from hedgerow.storage.column_types import Id, Json, Moment
from hedgerow.storage.column_types import metadata as metadata

organizations = Table(
    "organizations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)

users = Table(
    "users",
    metadata,
    Column("id", Id, primary_key=True),
    Column("uuid", Text, nullable=False),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    Column("first_name", Text, nullable=False),
    Column("email", Text, nullable=False),
    Column("distinct_id", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)

projects = Table(
    "projects",
    metadata,
    Column("id", Id, primary_key=True),
    Column("uuid", Text, nullable=False),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    # How long events are kept; null means forever.
    Column("retention_days", Integer),
    Column("test_account_filters", Json),
)

project_tokens = Table(
    "project_tokens",
    metadata,
    Column("value", Text, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
)

# The secret key of a project and, after a rotation, the previous one.
project_secrets = Table(
    "project_secrets",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("is_backup", Boolean, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("mask", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)

personal_keys = Table(
    "personal_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("label", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("mask", Text, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("project_ids", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_used_at", Moment),
    Column("last_rolled_at", Moment),
)

activity = Table(
    "activity",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", Id),
    Column("scope", Text, nullable=False),
    Column("item_id", Text, nullable=False),
    Column("item_name", Text, nullable=False),
    Column("activity", Text, nullable=False),
    Column("actor", Json, nullable=False),
    Column("changes", Json, nullable=False),
    Column("detail", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
)

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

# One value encrypted with the first key of the installation: only that key decrypts it.
sealing_check = Table(
    "sealing_check",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("sealed", Text, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("family", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("record_id", ForeignKey("pipeline_records.id"), nullable=False),
    Column("created_at", Moment, nullable=False),
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
)

# One row per topic that processes cache; its number increases with every change.
generations = Table(
    "generations",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)

flags = Table(
    "flags",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("key", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("filters", Json, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    Column("ensure_experience_continuity", Boolean, nullable=False),
    Column("is_remote_configuration", Boolean, nullable=False),
    Column("has_encrypted_payloads", Boolean, nullable=False),
    Column("evaluation_runtime", Text, nullable=False),
    Column("bucketing_identifier", Text, nullable=False),
    Column("evaluation_contexts", Json, nullable=False),
    Column("tags", Json, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("last_modified_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("last_called_at", Moment),
)

early_access_features = Table(
    "early_access_features",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("flag_id", ForeignKey("flags.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("documentation_url", Text, nullable=False),
    Column("payload", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
)

surveys = Table(
    "surveys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("schedule", Text),
    Column("linked_flag_id", ForeignKey("flags.id")),
    Column("targeting_flag_id", ForeignKey("flags.id")),
    Column("internal_targeting_flag_id", ForeignKey("flags.id"), nullable=False),
    Column("questions", Json, nullable=False),
    Column("conditions", Json),
    Column("appearance", Json),
    Column("translations", Json),
    Column("start_date", Moment),
    Column("end_date", Moment),
    Column("archived", Boolean, nullable=False),
    Column("responses_limit", Integer),
    Column("iteration_count", Integer),
    Column("iteration_frequency_days", Integer),
    Column("current_iteration", Integer),
    Column("enable_partial_responses", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

experiments = Table(
    "experiments",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("flag_id", ForeignKey("flags.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("start_date", Moment),
    Column("end_date", Moment),
    Column("archived", Boolean, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("parameters", Json, nullable=False),
    Column("metrics", Json, nullable=False),
    Column("metrics_secondary", Json, nullable=False),
    Column("exposure_criteria", Json, nullable=False),
    Column("stats_config", Json, nullable=False),
    Column("holdout", Json, nullable=False),
    Column("rest", Json, nullable=False),
    Column("conclusion", Text, nullable=False),
    Column("conclusion_comment", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

cohorts = Table(
    "cohorts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("is_static", Boolean, nullable=False),
    Column("definition", Json, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

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

# The hash key of a person in a flag that persists across login.
flag_hash_keys = Table(
    "flag_hash_keys",
    metadata,
    Column("person_id", ForeignKey("persons.id", ondelete="CASCADE"), primary_key=True),
    Column("flag_key", Text, primary_key=True),
    Column("hash_key", Text, nullable=False),
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

# Number of calls per flag and response.
flag_calls = Table(
    "flag_calls",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("flag_key", Text, primary_key=True),
    Column("response", Text, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("last_called_at", Moment, nullable=False),
)

# The delivery queue, one row per event and destination. `due_ms` is 0 before the first attempt.
deliveries = Table(
    "deliveries",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("record_id", ForeignKey("pipeline_records.id"), nullable=False),
    Column("uuid", Text, nullable=False),
    Column("distinct_id", Text, nullable=False),
    Column("event", LargeBinary, nullable=False),
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
