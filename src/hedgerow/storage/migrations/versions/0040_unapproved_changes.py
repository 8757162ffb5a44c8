"""Changes of flags and cohorts that a policy by consequence let pass, and counts with later ones.

Revision ID: 0040
Revises: 0039
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0040"
down_revision = "0039"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "unapproved_changes",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("object_id", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("before", Json, nullable=False),
        sa.Column("approved_by", Json, nullable=False),
        sa.Column("counts_until", Moment, nullable=False),
    )
    op.create_index("unapproved_changes_project", "unapproved_changes", ["project_id"])
