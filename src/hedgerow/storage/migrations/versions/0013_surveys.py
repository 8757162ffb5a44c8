"""Surveys.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0013"
down_revision = "0012"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "surveys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("schedule", sa.Text),
        sa.Column("linked_flag_id", Id, sa.ForeignKey("flags.id")),
        sa.Column("targeting_flag_id", Id, sa.ForeignKey("flags.id"), unique=True),
        sa.Column(
            "internal_targeting_flag_id",
            Id,
            sa.ForeignKey("flags.id"),
            nullable=False,
            unique=True,
        ),
        sa.Column("questions", Json, nullable=False),
        sa.Column("conditions", Json),
        sa.Column("appearance", Json),
        sa.Column("translations", Json),
        sa.Column("start_date", Moment),
        sa.Column("end_date", Moment),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("responses_limit", sa.Integer),
        sa.Column("iteration_count", sa.Integer),
        sa.Column("iteration_frequency_days", sa.Integer),
        sa.Column("current_iteration", sa.Integer),
        sa.Column("enable_partial_responses", sa.Boolean, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
    op.create_index("surveys_project", "surveys", ["project_id", "name"], unique=True)
