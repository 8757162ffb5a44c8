"""What persons did, as far as cohorts use it.

Revision ID: 0033
Revises: 0032
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0033"
down_revision = "0032"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "behaviors",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("reference", sa.Text, nullable=False),
        sa.Column("definition", Json, nullable=False),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("done", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("cursor", sa.Text, nullable=False),
        sa.Column("doubted_at", Moment),
        sa.Column("created_at", Moment, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("behaviors_project", "behaviors", ["project_id"])
    op.create_table(
        "behavior_times",
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("distinct_id", sa.Text, primary_key=True),
        sa.Column("times", sa.Text, nullable=False),
    )
