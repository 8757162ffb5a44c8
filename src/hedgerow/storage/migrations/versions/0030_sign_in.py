"""People who log in with a provider, and mail that waits to be sent.

Revision ID: 0030
Revises: 0029
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "user_identities",
        sa.Column("issuer", sa.Text, primary_key=True),
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("user_id", Id, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("created_at", Moment, nullable=False),
    )
    op.create_index(
        "user_identities_by_user", "user_identities", ["user_id", "issuer"], unique=True
    )
    op.create_table(
        "outgoing_mail",
        sa.Column("id", Id, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("recipient", sa.Text, nullable=False),
        sa.Column("details", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", Moment, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
    )
    op.create_index("outgoing_mail_by_due_at", "outgoing_mail", ["due_at"])
    op.add_column(
        "invites", sa.Column("is_mailed", sa.Boolean, nullable=False, server_default=sa.false())
    )
