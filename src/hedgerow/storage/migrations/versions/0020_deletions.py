"""Deletions, until their data is gone from the disk, and claims of tasks that one process runs.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "deletions",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.Column("person_uuid", sa.Text, nullable=False),
        sa.Column("requested_at", Moment, nullable=False),
        sa.Column("deleted_at", Moment),
        sa.Column("purged_at", Moment),
    )
    op.create_index("deletions_of_project", "deletions", ["project_id", "id"])
    op.create_table(
        "task_claims",
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("claimed_at", Moment, nullable=False),
    )
