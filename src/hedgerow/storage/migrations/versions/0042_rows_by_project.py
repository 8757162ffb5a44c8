"""Waiting events are found by their project, and some wait for their deliveries.

Revision ID: 0042
Revises: 0041
"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"


Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.add_column(
        "ready_events",
        sa.Column("project_id", sa.BigInteger, nullable=False, server_default="0"),
    )
    for table in ("inbox", "ready_events"):
        op.create_index(f"{table}_by_project", table, ["bucket", "project_id", "id"])
    op.create_table(
        "unrouted_events",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.Column("events", sa.LargeBinary, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
    )
    op.create_index("unrouted_events_by_project", "unrouted_events", ["project_id", "id"])
