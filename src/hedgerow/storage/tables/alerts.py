"""Alerts with their checks, and subscriptions with the pictures of their messages."""

from sqlalchemy import Boolean, Column, Float, ForeignKey, Integer, LargeBinary, Table, Text

from hedgerow.storage.tables.column_types import Id, Json, Moment, metadata

# A process that checks an alert claims it until `claimed_until`.
alerts = Table(
    "alerts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("insight_id", ForeignKey("saved_insights.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("condition", Json, nullable=False),
    Column("config", Json, nullable=False),
    Column("calculation_interval", Text, nullable=False),
    Column("skip_weekend", Boolean, nullable=False),
    Column("snoozed_until", Moment),
    Column("subscribed_users", Json, nullable=False),
    # Ids of pipeline records.
    Column("destinations", Json, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_checked_at", Moment),
    Column("next_check_at", Moment, nullable=False),
    Column("last_notified_at", Moment),
    Column("last_value", Float),
    Column("claimed_until", Moment),
)

alert_checks = Table(
    "alert_checks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("alert_id", ForeignKey("alerts.id"), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("value", Float),
    Column("state", Text, nullable=False),
    Column("breaches", Json, nullable=False),
    Column("error", Text, nullable=False),
    Column("notified", Json, nullable=False),
)

# Of an insight or of a dashboard. `next_delivery_date` is null when no more is due.
subscriptions = Table(
    "subscriptions",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("insight_id", ForeignKey("saved_insights.id")),
    Column("dashboard_id", ForeignKey("dashboards.id")),
    Column("title", Text, nullable=False),
    Column("target_type", Text, nullable=False),
    Column("destination_id", ForeignKey("pipeline_records.id"), nullable=False),
    Column("frequency", Text, nullable=False),
    Column("interval", Integer, nullable=False),
    Column("byweekday", Json, nullable=False),
    Column("bysetpos", Integer),
    Column("count", Integer),
    Column("start_date", Moment, nullable=False),
    Column("until_date", Moment),
    Column("enabled", Boolean, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("next_delivery_date", Moment),
    Column("last_delivery_date", Moment),
    Column("last_error", Text, nullable=False),
    Column("claimed_until", Moment),
)

# Pictures that a message shows by a link: anyone who has the token may read it.
chart_pictures = Table(
    "chart_pictures",
    metadata,
    Column("token", Text, primary_key=True),
    Column("subscription_id", ForeignKey("subscriptions.id"), nullable=False),
    Column("picture", LargeBinary, nullable=False),
    Column("created_at", Moment, nullable=False),
)
