"""Deleted projects, until their data is gone and after.

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "project_deletions",
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("requested_at", Moment, nullable=False),
        sa.Column("rows_deleted", sa.BigInteger, nullable=False),
        sa.Column("events_deleted", sa.BigInteger),
        sa.Column("purged_at", Moment),
        sa.Column("holder", sa.Text),
        sa.Column("expires_at", Moment),
    )
