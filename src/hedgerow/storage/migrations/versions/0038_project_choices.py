"""What a project chooses for all its events and insights: what happens to events that break their
schema, and on which day a week begins. Definitions without a schema follow the project.

Revision ID: 0038
Revises: 0037
"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    op.add_column("projects", sa.Column("schema_mode", sa.Text, nullable=True))
    op.add_column("projects", sa.Column("week_start_day", sa.Integer, nullable=True))
    # Definitions that have a schema keep what they have.
    op.execute(
        "UPDATE event_definitions SET schema_mode = 'project'"
        " WHERE schema_mode = 'warn' AND (schema IS NULL OR CAST(schema AS TEXT) = 'null')"
    )
