"""Which persons and groups have unprocessed events, so that every process knows what to wait for.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.create_table(
        "unprocessed_ids",
        sa.Column("key", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("inbox_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("bucket", sa.Integer, nullable=False),
    )
    op.create_index("unprocessed_ids_by_inbox_id", "unprocessed_ids", ["inbox_id"])
