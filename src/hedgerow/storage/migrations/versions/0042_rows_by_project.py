"""Waiting events are found by their project.

Revision ID: 0042
Revises: 0041
"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    op.add_column(
        "ready_events",
        sa.Column("project_id", sa.BigInteger, nullable=False, server_default="0"),
    )
    for table in ("inbox", "ready_events"):
        op.create_index(f"{table}_by_project", table, ["bucket", "project_id", "id"])
