"""Salts and states of visitors without cookies.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "cookieless_salts",
        sa.Column("day", sa.Text, primary_key=True),
        sa.Column("salt", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "cookieless_visitors",
        sa.Column("project_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("device", sa.Text, primary_key=True),
        sa.Column("day", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
    )
    op.create_index("cookieless_visitors_day", "cookieless_visitors", ["day"])
