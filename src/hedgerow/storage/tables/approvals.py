"""Approval policies and change requests."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Table, Text

from hedgerow.storage.tables.column_types import Id, Json, Moment, metadata

approval_policies = Table(
    "approval_policies",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("action_key", Text, nullable=False),
    Column("conditions", Json, nullable=False),
    Column("approvers", Json, nullable=False),
    Column("expires_after_s", BigInteger, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

change_requests = Table(
    "change_requests",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("resource_type", Text, nullable=False),
    Column("resource_id", Text),
    Column("resource_name", Text, nullable=False),
    Column("action_key", Text, nullable=False),
    Column("fields", Json, nullable=False),
    Column("original", Json, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("required", Json, nullable=False),
    Column("state", Text, nullable=False),
    Column("author", Json, nullable=False),
    Column("author_uuid", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("applied_at", Moment),
    Column("applied_by", Json),
    Column("apply_error", Text, nullable=False),
    Column("result", Json, nullable=False),
    Column("what_if", Json),
)

# One vote per person and request.
change_request_votes = Table(
    "change_request_votes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("request_id", ForeignKey("change_requests.id"), nullable=False),
    Column("user_uuid", Text, nullable=False),
    Column("voter", Json, nullable=False),
    Column("decision", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)

change_request_comments = Table(
    "change_request_comments",
    metadata,
    Column("id", Text, primary_key=True),
    Column("request_id", ForeignKey("change_requests.id"), nullable=False),
    Column("author", Json, nullable=False),
    Column("author_uuid", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)

# What a flag or a cohort was before a change that a policy by consequence let pass. It counts
# together with later changes, except for the policies in `approved_by`.
unapproved_changes = Table(
    "unapproved_changes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("object_id", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("before", Json, nullable=False),
    # Ids of policies.
    Column("approved_by", Json, nullable=False),
    Column("counts_until", Moment, nullable=False),
)
