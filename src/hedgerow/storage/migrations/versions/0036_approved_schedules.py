"""Change requests whose approvals count for scheduled changes.

Revision ID: 0036
Revises: 0035
"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    op.add_column("scheduled_changes", sa.Column("change_request_id", sa.Text))
