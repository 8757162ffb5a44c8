"""Flags and what builds on them: cohorts, experiments, surveys, early access."""

from sqlalchemy import BigInteger, Boolean, Column, Float, ForeignKey, Integer, Table, Text

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
    # Flags of older versions have none.
    Column("owners", Json),
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
    Column("change_request_id", Text),
)

# A process that checks a plan claims it until `claimed_until`.
rollout_plans = Table(
    "rollout_plans",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("flag_id", ForeignKey("flags.id"), nullable=False),
    Column("condition_index", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("steps", Json, nullable=False),
    Column("metrics", Json, nullable=False),
    Column("alpha", Float, nullable=False),
    Column("window_s", Integer, nullable=False),
    Column("on_harm", Text, nullable=False),
    Column("on_no_data", Text, nullable=False),
    # Ids of pipeline records.
    Column("destinations", Json, nullable=False),
    Column("author", Json, nullable=False),
    Column("author_uuid", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("step_index", Integer),
    Column("step_started_at", Moment),
    Column("percentage_before", Float),
    Column("started_at", Moment),
    Column("ended_at", Moment),
    Column("next_check_at", Moment),
    Column("last_checked_at", Moment),
    Column("metrics_found", Json, nullable=False),
    Column("version", Integer, nullable=False),
    Column("claimed_until", Moment),
)

rollout_evaluations = Table(
    "rollout_evaluations",
    metadata,
    Column("id", Id, primary_key=True),
    Column("plan_id", ForeignKey("rollout_plans.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("step_index", Integer),
    Column("percentage", Float),
    Column("why", Text, nullable=False),
    Column("metrics", Json, nullable=False),
)

# A process that reallocates a bandit claims it until `claimed_until`.
bandits = Table(
    "bandits",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("flag_id", ForeignKey("flags.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("metric", Json, nullable=False),
    Column("exposure_criteria", Json, nullable=False),
    Column("floor_percent", Integer, nullable=False),
    Column("interval_s", Integer, nullable=False),
    Column("min_persons", Integer, nullable=False),
    Column("author", Json, nullable=False),
    Column("author_uuid", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    # Pairs of variant and percentage, in the order of the flag.
    Column("split", Json, nullable=False),
    Column("learning_since", Moment),
    Column("started_at", Moment),
    Column("ended_at", Moment),
    Column("next_check_at", Moment),
    Column("last_checked_at", Moment),
    Column("variants_found", Json, nullable=False),
    Column("change_request_id", Text),
    Column("version", Integer, nullable=False),
    Column("claimed_until", Moment),
)

bandit_allocations = Table(
    "bandit_allocations",
    metadata,
    Column("id", Id, primary_key=True),
    Column("bandit_id", ForeignKey("bandits.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("why", Text, nullable=False),
    Column("variants", Json, nullable=False),
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

# Experiments and flags have a copy of the share.
experiment_holdouts = Table(
    "experiment_holdouts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("exclusion_percentage", Float, nullable=False),
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

# Where source code names flags. A key need not be that of a flag.
code_references = Table(
    "code_references",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("repository", Text, nullable=False),
    Column("commit_sha", Text, nullable=False),
    Column("flag_key", Text, nullable=False),
    Column("file", Text, nullable=False),
    Column("line", Integer, nullable=False),
    Column("created_at", Moment, nullable=False),
)

# Flags that the activity log says are stale.
stale_flags = Table(
    "stale_flags",
    metadata,
    Column("flag_id", ForeignKey("flags.id"), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("created_at", Moment, nullable=False),
)
