"""Deliveries that share their event: events, batches of what waits, and rows of what has failed.

Revision ID: 0043
Revises: 0042
"""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
BATCH_SIZE = 1000

# Each delivery keeps its own copy of its event, and its id. Those that wait are put into batches.
_PLACE_WAITING = f"""
    CREATE TEMPORARY TABLE placed_deliveries AS
    SELECT id, record_id, created_ms, min(id) OVER (PARTITION BY record_id, part) AS segment
    FROM (
        SELECT id, record_id, created_ms,
            (row_number() OVER (PARTITION BY record_id ORDER BY id) - 1) / {BATCH_SIZE} AS part
        FROM deliveries WHERE status = 'waiting'
    ) AS parts
"""  # noqa: S608 - our own numbers
_KEEP_FAILED = """
    CREATE TEMPORARY TABLE failed_deliveries AS
    SELECT record_id, id, project_id, uuid, distinct_id, status, attempts, due_ms, error, created_ms
    FROM deliveries WHERE status <> 'waiting'
"""
_ADD_EVENTS = """
    INSERT INTO delivery_events (id, segment, project_id, uuid, distinct_id, event)
    SELECT d.id, coalesce(p.segment, d.id), d.project_id, d.uuid, d.distinct_id, d.event
    FROM deliveries AS d LEFT JOIN placed_deliveries AS p ON p.id = d.id ORDER BY d.id
"""
_ADD_BATCHES = """
    INSERT INTO delivery_batches (record_id, segment, event_ids, number, created_ms)
    SELECT record_id, segment, '[' || {ids} || ']', count(*), min(created_ms)
    FROM placed_deliveries GROUP BY record_id, segment ORDER BY segment
"""
_IDS = {"sqlite": "group_concat(id, ',')", "postgresql": "string_agg(CAST(id AS text), ',')"}
_ADD_FAILED = """
    INSERT INTO deliveries (record_id, event_id, project_id, uuid, distinct_id, status, attempts,
        due_ms, error, created_ms)
    SELECT record_id, id, project_id, uuid, distinct_id, status, attempts, due_ms, error, created_ms
    FROM failed_deliveries ORDER BY id
"""
_CONTINUE_IDS = """
    SELECT setval(pg_get_serial_sequence('delivery_events', 'id'), max(id)) FROM delivery_events
    HAVING max(id) IS NOT NULL
"""


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    _create_new_tables()
    op.execute(_PLACE_WAITING)
    op.execute("CREATE UNIQUE INDEX placed_deliveries_id ON placed_deliveries (id)")
    op.execute(_KEEP_FAILED)
    op.execute(_ADD_EVENTS)
    op.execute(_ADD_BATCHES.format(ids=_IDS[dialect]))
    if dialect == "postgresql":
        op.execute(_CONTINUE_IDS)
    op.drop_table("deliveries")
    _create_deliveries()
    op.execute(_ADD_FAILED)
    op.execute("DROP TABLE placed_deliveries")
    op.execute("DROP TABLE failed_deliveries")


def _create_new_tables() -> None:
    op.create_table(
        "delivery_events",
        sa.Column("id", Id, primary_key=True),
        sa.Column("segment", sa.BigInteger, nullable=False),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("distinct_id", sa.Text, nullable=False),
        sa.Column("event", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("delivery_events_segment", "delivery_events", ["segment"])
    op.create_index("delivery_events_person", "delivery_events", ["project_id", "distinct_id"])
    op.create_table(
        "delivery_batches",
        sa.Column("id", Id, primary_key=True),
        sa.Column("record_id", Id, sa.ForeignKey("pipeline_records.id"), nullable=False),
        sa.Column("segment", sa.BigInteger, nullable=False),
        sa.Column("event_ids", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("delivery_batches_queue", "delivery_batches", ["record_id", "id"])
    op.create_index("delivery_batches_segment", "delivery_batches", ["segment", "record_id"])


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", Id, primary_key=True),
        sa.Column("record_id", Id, sa.ForeignKey("pipeline_records.id"), nullable=False),
        sa.Column("event_id", sa.BigInteger, nullable=False),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("distinct_id", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("deliveries_event", "deliveries", ["event_id", "record_id"], unique=True)
    op.create_index("deliveries_queue", "deliveries", ["record_id", "status", "due_ms", "id"])
    is_retried, is_dead = sa.text("status = 'retrying'"), sa.text("status = 'dead'")
    op.create_index(
        "deliveries_retried",
        "deliveries",
        ["created_ms"],
        sqlite_where=is_retried,
        postgresql_where=is_retried,
    )
    op.create_index(
        "deliveries_dead",
        "deliveries",
        ["record_id", "uuid"],
        sqlite_where=is_dead,
        postgresql_where=is_dead,
    )
