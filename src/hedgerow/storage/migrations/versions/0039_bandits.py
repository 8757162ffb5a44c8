"""Bandits, which move the split of a flag, and the history of their allocations.

Revision ID: 0039
Revises: 0038
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0039"
down_revision = "0038"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "bandits",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("flag_id", Id, sa.ForeignKey("flags.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("metric", Json, nullable=False),
        sa.Column("exposure_criteria", Json, nullable=False),
        sa.Column("floor_percent", sa.Integer, nullable=False),
        sa.Column("interval_s", sa.Integer, nullable=False),
        sa.Column("min_persons", sa.Integer, nullable=False),
        sa.Column("author", Json, nullable=False),
        sa.Column("author_uuid", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("split", Json, nullable=False),
        sa.Column("learning_since", Moment),
        sa.Column("started_at", Moment),
        sa.Column("ended_at", Moment),
        sa.Column("next_check_at", Moment),
        sa.Column("last_checked_at", Moment),
        sa.Column("variants_found", Json, nullable=False),
        sa.Column("change_request_id", sa.Text),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("claimed_until", Moment),
    )
    op.create_index("bandits_project", "bandits", ["project_id", "flag_id"])
    op.create_index("bandits_flag", "bandits", ["flag_id"])
    op.create_index("bandits_due", "bandits", ["next_check_at"])
    op.create_table(
        "bandit_allocations",
        sa.Column("id", Id, primary_key=True),
        sa.Column("bandit_id", Id, sa.ForeignKey("bandits.id"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("variants", Json, nullable=False),
    )
    op.create_index("bandit_allocations_bandit", "bandit_allocations", ["bandit_id", "id"])
