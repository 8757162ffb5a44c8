"""The inbox, what is ready for the event store, ingestion warnings; who is identified.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "inbox",
        sa.Column("id", Id, primary_key=True),
        sa.Column("bucket", sa.Integer, nullable=False),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("events", sa.LargeBinary, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("accepted_ms", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("inbox_by_bucket", "inbox", ["bucket", "id"])
    op.create_table(
        "ready_events",
        sa.Column("id", Id, primary_key=True),
        sa.Column("bucket", sa.Integer, nullable=False),
        sa.Column("events", sa.LargeBinary, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "inbox_leases",
        sa.Column("bucket", sa.Integer, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
    )
    op.create_table(
        "ingestion_warnings",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("distinct_id", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ingestion_warnings_by_project", "ingestion_warnings", ["project_id", "id"])
    op.add_column(
        "persons",
        sa.Column("is_identified", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.create_table(
        "flag_calls",
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("flag_key", sa.Text, primary_key=True),
        sa.Column("response", sa.Text, primary_key=True),
        sa.Column("calls", sa.BigInteger, nullable=False),
        sa.Column("last_called_at", Moment, nullable=False),
    )
