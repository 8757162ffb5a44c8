"""Components, pipeline records and their jobs.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "components",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("id", sa.Integer, nullable=False, unique=True),
        sa.Column("first_seen_at", Moment, nullable=False),
    )
    op.create_table(
        "pipeline_records",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("component_id", sa.Integer, nullable=False),
        sa.Column("component_version", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("order", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("config", Json, nullable=False),
        sa.Column("web_token", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "pipeline_records_in_order",
        "pipeline_records",
        ["project_id", "family", "deleted", "order", "id"],
    )
    op.create_table(
        "sealing_check",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("sealed", sa.Text, nullable=False),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("family", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("record_id", Id, sa.ForeignKey("pipeline_records.id"), nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_table(
        "pipeline_jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("record_id", Id, sa.ForeignKey("pipeline_records.id"), nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("payload", Json, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("requested_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
    op.create_index("pipeline_jobs_by_record", "pipeline_jobs", ["record_id", "created_at", "id"])
