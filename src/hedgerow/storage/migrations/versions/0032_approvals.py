"""Approval policies and change requests.

Revision ID: 0032
Revises: 0031
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0032"
down_revision = "0031"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "approval_policies",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("action_key", sa.Text, nullable=False),
        sa.Column("conditions", Json, nullable=False),
        sa.Column("approvers", Json, nullable=False),
        sa.Column("expires_after_s", sa.BigInteger, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
    op.create_index("approval_policies_project", "approval_policies", ["project_id"])
    op.create_table(
        "change_requests",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("resource_type", sa.Text, nullable=False),
        sa.Column("resource_id", sa.Text),
        sa.Column("resource_name", sa.Text, nullable=False),
        sa.Column("action_key", sa.Text, nullable=False),
        sa.Column("fields", Json, nullable=False),
        sa.Column("original", Json, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("required", Json, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("author", Json, nullable=False),
        sa.Column("author_uuid", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
        sa.Column("applied_at", Moment),
        sa.Column("applied_by", Json),
        sa.Column("apply_error", sa.Text, nullable=False),
        sa.Column("result", Json, nullable=False),
        sa.Column("what_if", Json),
    )
    op.create_index(
        "change_requests_project", "change_requests", ["project_id", "state", "created_at"]
    )
    op.create_table(
        "change_request_votes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("request_id", sa.Text, sa.ForeignKey("change_requests.id"), nullable=False),
        sa.Column("user_uuid", sa.Text, nullable=False),
        sa.Column("voter", Json, nullable=False),
        sa.Column("decision", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_table(
        "change_request_comments",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("request_id", sa.Text, sa.ForeignKey("change_requests.id"), nullable=False),
        sa.Column("author", Json, nullable=False),
        sa.Column("author_uuid", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_index(
        "change_request_votes_once",
        "change_request_votes",
        ["request_id", "user_uuid"],
        unique=True,
    )
    op.create_index(
        "change_request_comments_request", "change_request_comments", ["request_id", "created_at"]
    )
