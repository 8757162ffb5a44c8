"""The workers that share the buckets of the inbox, and the last row of a batch that is stored.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "inbox_workers",
        sa.Column("holder", sa.Text, primary_key=True),
        sa.Column("expires_at", Moment, nullable=False),
    )
    op.add_column("inbox_leases", sa.Column("last_id", sa.BigInteger))
