"""What each process used of the rate limits that all processes share.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "rate_usage",
        sa.Column("holder", sa.Text, primary_key=True),
        sa.Column("bucket", sa.Text, primary_key=True),
        sa.Column("used", sa.Float, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
