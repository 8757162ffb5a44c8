"""Secret keys of projects, and early access features.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0012"
down_revision = "0011"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "project_secrets",
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("is_backup", sa.Boolean, primary_key=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sa.Column("mask", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_table(
        "early_access_features",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("flag_id", Id, sa.ForeignKey("flags.id"), nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("documentation_url", sa.Text, nullable=False),
        sa.Column("payload", Json, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_index("early_access_features_project", "early_access_features", ["project_id"])
