"""The persons of a project in the order of their list, so that every page takes the same time.

Revision ID: 0022
Revises: 0021
"""

from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.create_index("persons_by_project", "persons", ["project_id", "id"])
