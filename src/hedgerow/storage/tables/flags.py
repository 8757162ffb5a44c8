"""Flags and what builds on them: cohorts, experiments, surveys, early access."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Integer, Table, Text

from hedgerow.storage.tables.column_types import Id, Json, Moment, metadata

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

scheduled_changes = Table(
    "scheduled_changes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("flag_id", ForeignKey("flags.id"), nullable=False),
    Column("payload", Json, nullable=False),
    Column("scheduled_at", Moment, nullable=False),
    Column("starts_at", Moment, nullable=False),
    Column("recurrence_interval", Text),
    Column("cron_expression", Text, nullable=False),
    Column("end_date", Moment),
    Column("executed_at", Moment),
    Column("last_executed_at", Moment),
    Column("failure_reason", Text, nullable=False),
    Column("author", Json, nullable=False),
    Column("author_uuid", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
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

# The hash key of a person in a flag that persists across login.
flag_hash_keys = Table(
    "flag_hash_keys",
    metadata,
    Column("person_id", ForeignKey("persons.id", ondelete="CASCADE"), primary_key=True),
    Column("flag_key", Text, primary_key=True),
    Column("hash_key", Text, nullable=False),
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
