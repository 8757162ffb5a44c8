"""Projects, keys, the audit trail.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "organizations",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_table(
        "users",
        sa.Column("id", Id, primary_key=True),
        sa.Column("uuid", sa.Text, nullable=False, unique=True),
        sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), nullable=False),
        sa.Column("first_name", sa.Text, nullable=False),
        sa.Column("email", sa.Text, nullable=False, unique=True),
        sa.Column("distinct_id", sa.Text, nullable=False, unique=True),
        sa.Column("created_at", Moment, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "projects",
        sa.Column("id", Id, primary_key=True),
        sa.Column("uuid", sa.Text, nullable=False, unique=True),
        sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("timezone", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "project_tokens",
        sa.Column("value", sa.Text, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("expires_at", Moment),
    )
    op.create_index("project_tokens_by_project", "project_tokens", ["project_id"])
    op.create_table(
        "personal_keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("user_id", Id, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sa.Column("mask", sa.Text, nullable=False),
        sa.Column("scopes", Json, nullable=False),
        sa.Column("project_ids", Json, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("last_used_at", Moment),
        sa.Column("last_rolled_at", Moment),
    )
    op.create_table(
        "activity",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("item_id", sa.Text, nullable=False),
        sa.Column("item_name", sa.Text, nullable=False),
        sa.Column("activity", sa.Text, nullable=False),
        sa.Column("actor", Json, nullable=False),
        sa.Column("changes", Json, nullable=False),
        sa.Column("detail", Json, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("activity_by_project", "activity", ["project_id", "id"])
    op.create_index("activity_by_item", "activity", ["scope", "item_id", "id"])
    op.create_table(
        "generations",
        sa.Column("topic", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
