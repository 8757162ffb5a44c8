"""People: passwords, sessions, roles and invites. The only user so far becomes the owner.

Revision ID: 0028
Revises: 0027
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0028"
down_revision = "0027"

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
Json = sa.JSON().with_variant(JSONB(), "postgresql")
Moment = sa.DateTime(timezone=True)


def upgrade() -> None:
    _extend_users()
    _create_logins()
    _create_roles()


def _extend_users() -> None:
    for column in (
        sa.Column("organization_role", sa.Text, nullable=False, server_default="member"),
        sa.Column("password_hash", sa.Text),
        sa.Column("totp_secret", sa.Text),
        sa.Column("totp_pending", sa.Text),
        sa.Column("totp_step", sa.BigInteger),
        sa.Column("last_login_at", Moment),
    ):
        op.add_column("users", column)
    op.execute("UPDATE users SET organization_role = 'owner'")
    op.create_index("users_by_email", "users", ["email"], unique=True)


def _create_logins() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("user_id", Id, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("last_used_at", Moment, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("user_agent", sa.Text, nullable=False),
    )
    op.create_index("sessions_by_hash", "sessions", ["hash"], unique=True)
    op.create_index("sessions_by_user", "sessions", ["user_id"])
    op.create_table(
        "recovery_codes",
        sa.Column("user_id", Id, sa.ForeignKey("users.id"), primary_key=True),
        sa.Column("hash", sa.Text, primary_key=True),
    )
    op.create_table(
        "password_links",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("user_id", Id, sa.ForeignKey("users.id"), nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
    )
    op.create_table(
        "login_attempts",
        sa.Column("bucket", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
    )


def _create_roles() -> None:
    op.create_table(
        "invites",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("first_name", sa.Text, nullable=False),
        sa.Column("organization_role", sa.Text, nullable=False),
        sa.Column("project_roles", Json, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("expires_at", Moment, nullable=False),
    )
    op.create_index("invites_by_hash", "invites", ["hash"], unique=True)
    op.create_table(
        "roles",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("scopes", Json, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
    )
    op.create_index("roles_by_name", "roles", ["name"], unique=True)
    op.create_table(
        "project_members",
        sa.Column("user_id", Id, sa.ForeignKey("users.id"), primary_key=True),
        sa.Column("project_id", Id, sa.ForeignKey("projects.id"), primary_key=True),
        sa.Column("role_id", sa.Text, nullable=False),
    )
    op.create_index("project_members_by_project", "project_members", ["project_id"])
