"""Saved insights, dashboards, annotations, shared links and kept results.

Revision ID: 0024
Revises: 0023
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0024"
down_revision = "0023"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "saved_insights",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("short_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("derived_name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("query", Json, nullable=False),
        sa.Column("favorited", sa.Boolean, nullable=False),
        sa.Column("saved", sa.Boolean, nullable=False),
        sa.Column("tags", Json, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("last_modified_by", sa.Text, nullable=False),
        sa.Column("last_modified_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
    op.create_table(
        "dashboards",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("pinned", sa.Boolean, nullable=False),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("tags", Json, nullable=False),
        sa.Column("filters", Json, nullable=False),
        sa.Column("restriction_level", sa.Integer, nullable=False),
        sa.Column("creation_mode", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("last_modified_by", sa.Text, nullable=False),
        sa.Column("last_modified_at", Moment, nullable=False),
    )
    op.create_table(
        "dashboard_tiles",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("dashboard_id", Id, sa.ForeignKey("dashboards.id"), nullable=False),
        sa.Column("insight_id", Id, sa.ForeignKey("saved_insights.id")),
        sa.Column("text", sa.Text),
        sa.Column("layouts", Json, nullable=False),
        sa.Column("color", sa.Text),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("last_modified_by", sa.Text, nullable=False),
        sa.Column("last_modified_at", Moment, nullable=False),
    )
    op.create_table(
        "annotations",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("date_marker", Moment),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("creation_type", sa.Text, nullable=False),
        sa.Column("insight_id", Id, sa.ForeignKey("saved_insights.id")),
        sa.Column("dashboard_id", Id, sa.ForeignKey("dashboards.id")),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
    op.create_table(
        "shared_links",
        sa.Column("id", Id, primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("insight_id", Id, sa.ForeignKey("saved_insights.id")),
        sa.Column("dashboard_id", Id, sa.ForeignKey("dashboards.id")),
        sa.Column("access_token", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("settings", Json, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_table(
        "insight_results",
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("result_bytes", sa.BigInteger, nullable=False),
        sa.Column("computed_at", Moment),
        sa.Column("used_at", Moment, nullable=False),
        sa.Column("wanted_at", Moment),
        sa.Column("claimed_until", Moment),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("query", Json, nullable=False),
        sa.Column("result", sa.LargeBinary),
    )
    for name, table, columns, is_unique in (
        ("saved_insights_of_project", "saved_insights", ["project_id", "short_id"], True),
        ("dashboards_of_project", "dashboards", ["project_id", "id"], False),
        ("dashboard_tiles_of_project", "dashboard_tiles", ["project_id", "dashboard_id"], False),
        ("dashboard_tiles_of_insight", "dashboard_tiles", ["insight_id"], False),
        ("annotations_of_project", "annotations", ["project_id", "id"], False),
        ("shared_links_of_project", "shared_links", ["project_id"], False),
        ("shared_links_of_token", "shared_links", ["access_token"], True),
        ("insight_results_wanted", "insight_results", ["wanted_at"], False),
        ("insight_results_used", "insight_results", ["used_at"], False),
    ):
        op.create_index(name, table, columns, unique=is_unique)
