"""Rollout plans of flags, and the history of their evaluations.

Revision ID: 0034
Revises: 0033
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0034"
down_revision = "0033"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "rollout_plans",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("flag_id", Id, sa.ForeignKey("flags.id"), nullable=False),
        sa.Column("condition_index", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("steps", Json, nullable=False),
        sa.Column("metrics", Json, nullable=False),
        sa.Column("alpha", sa.Float, nullable=False),
        sa.Column("window_s", sa.Integer, nullable=False),
        sa.Column("on_harm", sa.Text, nullable=False),
        sa.Column("on_no_data", sa.Text, nullable=False),
        sa.Column("destinations", Json, nullable=False),
        sa.Column("author", Json, nullable=False),
        sa.Column("author_uuid", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("step_index", sa.Integer),
        sa.Column("step_started_at", Moment),
        sa.Column("percentage_before", sa.Float),
        sa.Column("started_at", Moment),
        sa.Column("ended_at", Moment),
        sa.Column("next_check_at", Moment),
        sa.Column("last_checked_at", Moment),
        sa.Column("metrics_found", Json, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("claimed_until", Moment),
    )
    op.create_index("rollout_plans_project", "rollout_plans", ["project_id", "flag_id"])
    op.create_index("rollout_plans_due", "rollout_plans", ["next_check_at"])
    op.create_table(
        "rollout_evaluations",
        sa.Column("id", Id, primary_key=True),
        sa.Column("plan_id", Id, sa.ForeignKey("rollout_plans.id"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("step_index", sa.Integer),
        sa.Column("percentage", sa.Float),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("metrics", Json, nullable=False),
    )
    op.create_index("rollout_evaluations_plan", "rollout_evaluations", ["plan_id", "id"])
