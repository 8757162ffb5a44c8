"""Deliveries: what grows old is found without searching for it; notifications that are to be sent.

Revision ID: 0010
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    retried = sa.text("status = 'retrying'")
    op.create_index(
        "deliveries_retried",
        "deliveries",
        ["created_ms"],
        sqlite_where=retried,
        postgresql_where=retried,
    )
    op.create_index("delivery_counts_hour", "delivery_counts", ["hour_ms"])
    op.create_table(
        "notifications",
        sa.Column("id", Id, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("notifications_due", "notifications", ["due_ms"])
