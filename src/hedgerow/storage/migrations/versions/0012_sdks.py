"""Secret keys of projects, and early access features.

Revision ID: 0012
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0008"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
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
