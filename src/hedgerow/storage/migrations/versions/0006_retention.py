"""How long a project keeps its events.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("projects", sa.Column("retention_days", sa.Integer, nullable=True))
