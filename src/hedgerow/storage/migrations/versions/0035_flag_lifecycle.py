"""References to flags in source code, flags that were reported as stale, and owners of flags.

Revision ID: 0035
Revises: 0034
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0035"
down_revision = "0034"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("flags", sa.Column("owners", Json))
    op.create_table(
        "code_references",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("repository", sa.Text, nullable=False),
        sa.Column("commit_sha", sa.Text, nullable=False),
        sa.Column("flag_key", sa.Text, nullable=False),
        sa.Column("file", sa.Text, nullable=False),
        sa.Column("line", sa.Integer, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_index("code_references_by_key", "code_references", ["project_id", "flag_key"])
    op.create_table(
        "stale_flags",
        sa.Column("flag_id", Id, sa.ForeignKey("flags.id"), primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_index("stale_flags_project", "stale_flags", ["project_id"])
