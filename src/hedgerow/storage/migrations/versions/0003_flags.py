"""Flags, cohorts, persons and groups.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def _project() -> "sa.Column[int]":
    return sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False)


def upgrade() -> None:
    op.create_table(
        "flags",
        sa.Column("id", Id, primary_key=True),
        _project(),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("filters", Json, nullable=False),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("ensure_experience_continuity", sa.Boolean, nullable=False),
        sa.Column("is_remote_configuration", sa.Boolean, nullable=False),
        sa.Column("has_encrypted_payloads", sa.Boolean, nullable=False),
        sa.Column("evaluation_runtime", sa.Text, nullable=False),
        sa.Column("bucketing_identifier", sa.Text, nullable=False),
        sa.Column("evaluation_contexts", Json, nullable=False),
        sa.Column("tags", Json, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("last_modified_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sa.Column("last_called_at", Moment),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "flags_by_key",
        "flags",
        ["project_id", "key"],
        unique=True,
        sqlite_where=sa.text("NOT deleted"),
        postgresql_where=sa.text("NOT deleted"),
    )
    op.create_table(
        "cohorts",
        sa.Column("id", Id, primary_key=True),
        _project(),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("is_static", sa.Boolean, nullable=False),
        sa.Column("definition", Json, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("cohorts_by_project", "cohorts", ["project_id", "id"])
    op.create_table(
        "persons",
        sa.Column("id", Id, primary_key=True),
        _project(),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("properties", Json, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("persons_by_uuid", "persons", ["project_id", "uuid"], unique=True)
    op.create_table(
        "person_distinct_ids",
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("distinct_id", sa.Text, primary_key=True),
        sa.Column("person_id", Id, sa.ForeignKey("persons.id", ondelete="CASCADE"), nullable=False),
    )
    op.create_index("person_distinct_ids_by_person", "person_distinct_ids", ["person_id"])
    op.create_table(
        "cohort_people",
        sa.Column(
            "person_id", Id, sa.ForeignKey("persons.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("cohort_id", Id, sa.ForeignKey("cohorts.id"), primary_key=True),
    )
    op.create_index("cohort_people_by_cohort", "cohort_people", ["cohort_id", "person_id"])
    op.create_table(
        "group_types",
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.UniqueConstraint("project_id", "name"),
    )
    op.create_table(
        "groups",
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("type_index", sa.Integer, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("properties", Json, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
    op.create_table(
        "flag_hash_keys",
        sa.Column(
            "person_id", Id, sa.ForeignKey("persons.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("flag_key", sa.Text, primary_key=True),
        sa.Column("hash_key", sa.Text, nullable=False),
    )
