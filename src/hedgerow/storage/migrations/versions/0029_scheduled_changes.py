"""Scheduled changes of flags.

Revision ID: 0029
Revises: 0028
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0029"
down_revision = "0028"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "scheduled_changes",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("flag_id", Id, sa.ForeignKey("flags.id"), nullable=False),
        sa.Column("payload", Json, nullable=False),
        sa.Column("scheduled_at", Moment, nullable=False),
        sa.Column("starts_at", Moment, nullable=False),
        sa.Column("recurrence_interval", sa.Text),
        sa.Column("cron_expression", sa.Text, nullable=False),
        sa.Column("end_date", Moment),
        sa.Column("executed_at", Moment),
        sa.Column("last_executed_at", Moment),
        sa.Column("failure_reason", sa.Text, nullable=False),
        sa.Column("author", Json, nullable=False),
        sa.Column("author_uuid", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
    op.create_index("scheduled_changes_project", "scheduled_changes", ["project_id", "flag_id"])
    op.create_index("scheduled_changes_due", "scheduled_changes", ["executed_at", "scheduled_at"])
