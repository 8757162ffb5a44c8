"""Products, and the projects that are their environments.

Revision ID: 0031
Revises: 0030
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "products",
        sa.Column("id", Id, primary_key=True),
        sa.Column("organization_id", sa.Text, sa.ForeignKey("organizations.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
    op.create_index("products_name", "products", ["organization_id", "name"], unique=True)
    op.create_table(
        "environments",
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("product_id", Id, sa.ForeignKey("products.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("is_protected", sa.Boolean, nullable=False),
    )
    op.create_index("environments_name", "environments", ["product_id", "name"], unique=True)
