"""Since when events wait for the event store.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("ready_events", sa.Column("accepted_ms", sa.BigInteger, nullable=True))
