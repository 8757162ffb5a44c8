"""Events that nobody could settle or store.

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "set_aside_events",
        sa.Column("id", Id, primary_key=True),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("bucket", sa.Integer, nullable=False),
        sa.Column("project_id", sa.BigInteger),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("distinct_id", sa.Text, nullable=False),
        sa.Column("events", sa.LargeBinary, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("set_aside_at", Moment, nullable=False),
        sqlite_autoincrement=True,
    )
    # They are counted again and again, without their bytes.
    op.create_index("set_aside_events_number", "set_aside_events", ["number"])
