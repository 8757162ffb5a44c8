"""What transformations did to events.

Revision ID: 0011
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "transformation_counts",
        sa.Column("record_id", Id, sa.ForeignKey("pipeline_records.id"), primary_key=True),
        sa.Column("hour_ms", sa.BigInteger, primary_key=True),
        sa.Column("changed", sa.BigInteger, nullable=False),
        sa.Column("dropped", sa.BigInteger, nullable=False),
        sa.Column("failed", sa.BigInteger, nullable=False),
    )
