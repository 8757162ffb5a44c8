"""Deliveries to destinations, how destinations fare, and when a record was enabled or disabled.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0008"
down_revision = "0007"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def _record(*, primary_key: bool = False) -> sa.Column[int]:
    own = sa.ForeignKey("pipeline_records.id")
    return sa.Column("record_id", Id, own, primary_key=primary_key, nullable=False)


def upgrade() -> None:
    op.add_column("pipeline_records", sa.Column("switches", Json, nullable=True))
    op.create_table(
        "deliveries",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        _record(),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("distinct_id", sa.Text, nullable=False),
        sa.Column("event", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("deliveries_queue", "deliveries", ["record_id", "status", "due_ms", "id"])
    op.create_table(
        "delivery_leases",
        sa.Column("record_id", Id, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
    )
    op.create_table(
        "destination_states",
        _record(primary_key=True),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("paused_until_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "delivery_counts",
        _record(primary_key=True),
        sa.Column("hour_ms", sa.BigInteger, primary_key=True),
        sa.Column("delivered", sa.BigInteger, nullable=False),
        sa.Column("retried", sa.BigInteger, nullable=False),
        sa.Column("dead", sa.BigInteger, nullable=False),
        sa.Column("latencies", Json, nullable=False),
    )
    op.create_table(
        "delivery_logs",
        sa.Column("id", Id, primary_key=True),
        _record(),
        sa.Column("level", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_index("delivery_logs_record", "delivery_logs", ["record_id", "id"])
