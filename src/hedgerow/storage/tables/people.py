"""People: how they log in, their sessions, and their roles."""

from sqlalchemy import Boolean, Column, ForeignKey, Integer, Table, Text, false

from hedgerow.storage.tables.column_types import Id, Json, Moment, metadata

sessions = Table(
    "sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("hash", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_used_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("address", Text, nullable=False),
    Column("user_agent", Text, nullable=False),
)

# Codes that replace a lost authenticator, each once.
recovery_codes = Table(
    "recovery_codes",
    metadata,
    Column("user_id", ForeignKey("users.id"), primary_key=True),
    Column("hash", Text, primary_key=True),
)

# Links that let a person choose a password: of the first start, or after a reset.
password_links = Table(
    "password_links",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("purpose", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
)

invites = Table(
    "invites",
    metadata,
    Column("id", Text, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("email", Text, nullable=False),
    Column("first_name", Text, nullable=False),
    Column("organization_role", Text, nullable=False),
    # The role in each project, by the id of the project.
    Column("project_roles", Json, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
    Column("is_mailed", Boolean, nullable=False, server_default=false()),
)

# The roles that the organization defines. Those of every installation are in the code.
roles = Table(
    "roles",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

project_members = Table(
    "project_members",
    metadata,
    Column("user_id", ForeignKey("users.id"), primary_key=True),
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("role_id", Text, nullable=False),
)

# Attempts to log in, counted per account and per address.
login_attempts = Table(
    "login_attempts",
    metadata,
    Column("bucket", Text, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("expires_at", Moment, nullable=False),
)

# Who a person is at an OpenID Connect provider.
user_identities = Table(
    "user_identities",
    metadata,
    Column("issuer", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("created_at", Moment, nullable=False),
)

# Mail that waits to be sent. `details` are encrypted.
outgoing_mail = Table(
    "outgoing_mail",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("recipient", Text, nullable=False),
    Column("details", Text),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Moment, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment, nullable=False),
)
