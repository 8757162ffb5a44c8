"""Pipeline records.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "pipeline_records",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("component_id", sa.Integer, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("order", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "pipeline_records_in_order",
        "pipeline_records",
        ["project_id", "family", "deleted", "order", "id"],
    )
