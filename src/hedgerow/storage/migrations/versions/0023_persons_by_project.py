"""The persons of a project in the order of their list, so that every page takes the same time.

Revision ID: 0023
Revises: 0020
"""

from alembic import op

revision = "0023"
down_revision = "0020"


def upgrade() -> None:
    op.create_index("persons_by_project", "persons", ["project_id", "id"])
