"""Definitions of events and properties, with the schemas of events.

Revision ID: 0026
Revises: 0025
"""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0026"
down_revision = "0025"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def _details() -> list[Any]:
    return [
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("verified", sa.Boolean, nullable=False),
        sa.Column("verified_at", Moment),
        sa.Column("verified_by", sa.Text),
        sa.Column("hidden", sa.Boolean, nullable=False),
        sa.Column("first_seen_at", Moment),
        sa.Column("last_seen_at", Moment),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sa.Column("updated_by", sa.Text),
    ]


def upgrade() -> None:
    op.create_table(
        "event_definitions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("owner_id", sa.BigInteger),
        sa.Column("volume_30_day", sa.BigInteger, nullable=False),
        sa.Column("schema", Json),
        sa.Column("schema_mode", sa.Text, nullable=False),
        *_details(),
        sa.UniqueConstraint("project_id", "name"),
    )
    op.create_table(
        "property_definitions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("group_type_index", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("property_type", sa.Text),
        *_details(),
        sa.UniqueConstraint("project_id", "type", "group_type_index", "name"),
    )
    op.create_table(
        "event_properties",
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("event", sa.Text, primary_key=True),
        sa.Column("property", sa.Text, primary_key=True),
    )
    marks = op.create_table(
        "definition_marks",
        sa.Column("holder", sa.Text, primary_key=True),
        sa.Column("learned_until", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
    # A process that never existed: the events that are stored already are learned in its place.
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    op.bulk_insert(marks, [{"holder": "origin", "learned_until": epoch, "updated_at": epoch}])
