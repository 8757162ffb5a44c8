"""Experiments.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0014"
down_revision = "0013"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "experiments",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("flag_id", Id, sa.ForeignKey("flags.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("start_date", Moment),
        sa.Column("end_date", Moment),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("parameters", Json, nullable=False),
        sa.Column("metrics", Json, nullable=False),
        sa.Column("metrics_secondary", Json, nullable=False),
        sa.Column("exposure_criteria", Json, nullable=False),
        sa.Column("stats_config", Json, nullable=False),
        sa.Column("holdout", Json, nullable=False),
        sa.Column("rest", Json, nullable=False),
        sa.Column("conclusion", sa.Text, nullable=False),
        sa.Column("conclusion_comment", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("experiments_project", "experiments", ["project_id", "id"])
    op.create_index("experiments_flag", "experiments", ["flag_id"])
