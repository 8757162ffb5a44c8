"""Alerts and subscriptions.

Revision ID: 0027
Revises: 0026
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0027"
down_revision = "0026"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("insight_id", Id, sa.ForeignKey("saved_insights.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("condition", Json, nullable=False),
        sa.Column("config", Json, nullable=False),
        sa.Column("calculation_interval", sa.Text, nullable=False),
        sa.Column("skip_weekend", sa.Boolean, nullable=False),
        sa.Column("snoozed_until", Moment),
        sa.Column("subscribed_users", Json, nullable=False),
        sa.Column("destinations", Json, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("last_checked_at", Moment),
        sa.Column("next_check_at", Moment, nullable=False),
        sa.Column("last_notified_at", Moment),
        sa.Column("last_value", sa.Float),
        sa.Column("claimed_until", Moment),
    )
    op.create_index("alerts_project", "alerts", ["project_id", "created_at"])
    op.create_index("alerts_insight", "alerts", ["insight_id"])
    op.create_index("alerts_due", "alerts", ["next_check_at"])
    op.create_table(
        "alert_checks",
        sa.Column("id", Id, primary_key=True),
        sa.Column("alert_id", sa.Text, sa.ForeignKey("alerts.id"), nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("value", sa.Float),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("breaches", Json, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("notified", Json, nullable=False),
    )
    op.create_index("alert_checks_alert", "alert_checks", ["alert_id", "id"])
    op.create_table(
        "subscriptions",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("insight_id", Id, sa.ForeignKey("saved_insights.id")),
        sa.Column("dashboard_id", Id, sa.ForeignKey("dashboards.id")),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("target_type", sa.Text, nullable=False),
        sa.Column("destination_id", Id, sa.ForeignKey("pipeline_records.id"), nullable=False),
        sa.Column("frequency", sa.Text, nullable=False),
        sa.Column("interval", sa.Integer, nullable=False),
        sa.Column("byweekday", Json, nullable=False),
        sa.Column("bysetpos", sa.Integer),
        sa.Column("count", sa.Integer),
        sa.Column("start_date", Moment, nullable=False),
        sa.Column("until_date", Moment),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("next_delivery_date", Moment),
        sa.Column("last_delivery_date", Moment),
        sa.Column("last_error", sa.Text, nullable=False),
        sa.Column("claimed_until", Moment),
    )
    op.create_index("subscriptions_project", "subscriptions", ["project_id"])
    op.create_index("subscriptions_insight", "subscriptions", ["insight_id"])
    op.create_index("subscriptions_dashboard", "subscriptions", ["dashboard_id"])
    op.create_index("subscriptions_destination", "subscriptions", ["destination_id"])
    op.create_index("subscriptions_due", "subscriptions", ["next_delivery_date"])
    op.create_table(
        "chart_pictures",
        sa.Column("token", sa.Text, primary_key=True),
        sa.Column("subscription_id", Id, sa.ForeignKey("subscriptions.id"), nullable=False),
        sa.Column("picture", sa.LargeBinary, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_index("chart_pictures_subscription", "chart_pictures", ["subscription_id"])
    op.create_index("chart_pictures_created", "chart_pictures", ["created_at"])
