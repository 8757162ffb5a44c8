"""Saved insights, dashboards, annotations, shared links and kept results."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Integer, LargeBinary, Table, Text

from hedgerow.storage.tables.column_types import Id, Json, Moment, metadata

saved_insights = Table(
    "saved_insights",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("short_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("derived_name", Text, nullable=False),
    Column("description", Text, nullable=False),
    # As it was sent: a query kind, or a node that shows one.
    Column("query", Json, nullable=False),
    Column("favorited", Boolean, nullable=False),
    Column("saved", Boolean, nullable=False),
    Column("tags", Json, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_modified_by", Text, nullable=False),
    Column("last_modified_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

dashboards = Table(
    "dashboards",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("deleted", Boolean, nullable=False),
    Column("tags", Json, nullable=False),
    Column("filters", Json, nullable=False),
    Column("restriction_level", Integer, nullable=False),
    Column("creation_mode", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_modified_by", Text, nullable=False),
    Column("last_modified_at", Moment, nullable=False),
)

# A tile shows an insight or a text.
dashboard_tiles = Table(
    "dashboard_tiles",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("dashboard_id", ForeignKey("dashboards.id"), nullable=False),
    Column("insight_id", ForeignKey("saved_insights.id")),
    Column("text", Text),
    Column("layouts", Json, nullable=False),
    Column("color", Text),
    Column("created_by", Text, nullable=False),
    Column("last_modified_by", Text, nullable=False),
    Column("last_modified_at", Moment, nullable=False),
)

annotations = Table(
    "annotations",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("content", Text, nullable=False),
    Column("date_marker", Moment),
    Column("scope", Text, nullable=False),
    Column("creation_type", Text, nullable=False),
    Column("insight_id", ForeignKey("saved_insights.id")),
    Column("dashboard_id", ForeignKey("dashboards.id")),
    Column("deleted", Boolean, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

# A link that shows an insight or a dashboard without a key. The token is not a secret of the
# project: it reads one object, and another one replaces it.
shared_links = Table(
    "shared_links",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("insight_id", ForeignKey("saved_insights.id")),
    Column("dashboard_id", ForeignKey("dashboards.id")),
    Column("access_token", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("settings", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
)

# The last result of a query of an insight, and the queue of those to compute: rows with
# `wanted_at`. `state` identifies what the query read. The result comes last: SQLite reads a row
# up to the last column that it needs.
insight_results = Table(
    "insight_results",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("result_bytes", BigInteger, nullable=False),
    Column("computed_at", Moment),
    Column("used_at", Moment, nullable=False),
    Column("wanted_at", Moment),
    Column("claimed_until", Moment),
    Column("failures", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("query", Json, nullable=False),
    Column("result", LargeBinary),
)
