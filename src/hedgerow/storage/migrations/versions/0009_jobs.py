"""Jobs that run: how far they have come and who works on them; what destinations got; imports.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0009"
down_revision = "0008"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def _record(*, primary_key: bool = False) -> sa.Column[int]:
    own = sa.ForeignKey("pipeline_records.id")
    return sa.Column("record_id", Id, own, primary_key=primary_key, nullable=False)


def upgrade() -> None:
    for column in (
        sa.Column("cursor", Json),
        sa.Column("done", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("total", sa.BigInteger),
        sa.Column("rate", sa.Float, nullable=False, server_default="0"),
        sa.Column("details", Json, nullable=False, server_default="{}"),
        sa.Column("started_at", Moment),
        sa.Column("ended_at", Moment),
        sa.Column("holder", sa.Text),
        sa.Column("expires_at", Moment),
    ):
        op.add_column("pipeline_jobs", column)
    op.create_index("pipeline_jobs_open", "pipeline_jobs", ["status", "updated_at"])
    op.create_table(
        "delivered_events",
        sa.Column("id", Id, primary_key=True),
        _record(),
        sa.Column("second", sa.BigInteger, nullable=False),
        sa.Column("uuids", sa.LargeBinary, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("delivered_events_second", "delivered_events", ["record_id", "second"])
    is_dead = sa.text("status = 'dead'")
    op.create_index(
        "deliveries_dead",
        "deliveries",
        ["record_id", "uuid"],
        sqlite_where=is_dead,
        postgresql_where=is_dead,
    )
    op.create_table(
        "import_states",
        _record(primary_key=True),
        sa.Column("about", sa.Text, nullable=False),
        sa.Column("cursor", Json),
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("next_run_ms", sa.BigInteger),
    )
    op.create_table(
        "imported_files",
        _record(primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", sa.Text, nullable=False),
    )
