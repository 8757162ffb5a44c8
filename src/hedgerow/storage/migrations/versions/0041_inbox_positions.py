"""How far the inbox stream on NATS JetStream is processed.

Revision ID: 0041
Revises: 0040
"""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    op.create_table(
        "inbox_positions",
        sa.Column("era", sa.Text, primary_key=True),
        sa.Column("bucket", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("last_id", sa.BigInteger, nullable=False),
        sa.Column("events", sa.Integer, nullable=False),
    )
