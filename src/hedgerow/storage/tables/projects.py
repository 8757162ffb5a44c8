"""The organization, its projects and keys, and what concerns all projects."""

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Integer, Table, Text

from hedgerow.storage.tables.column_types import Id, Json, Moment, metadata

organizations = Table(
    "organizations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)

users = Table(
    "users",
    metadata,
    Column("id", Id, primary_key=True),
    Column("uuid", Text, nullable=False),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    Column("first_name", Text, nullable=False),
    Column("email", Text, nullable=False),
    Column("distinct_id", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    # "owner" or "member".
    Column("organization_role", Text, nullable=False),
    # Null for people who have not chosen one yet.
    Column("password_hash", Text),
    # Encrypted. The pending one is not confirmed yet.
    Column("totp_secret", Text),
    Column("totp_pending", Text),
    # The time step of the last code, which is not accepted again.
    Column("totp_step", BigInteger),
    Column("last_login_at", Moment),
)

projects = Table(
    "projects",
    metadata,
    Column("id", Id, primary_key=True),
    Column("uuid", Text, nullable=False),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("timezone", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    # How long events are kept; null means forever.
    Column("retention_days", Integer),
    Column("test_account_filters", Json),
    # Null is the default.
    Column("schema_mode", Text),
    Column("week_start_day", Integer),
)

# A product is a set of projects, which are its environments.
products = Table(
    "products",
    metadata,
    Column("id", Id, primary_key=True),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
)

environments = Table(
    "environments",
    metadata,
    # A project is an environment of at most one product.
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("product_id", ForeignKey("products.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("position", Integer, nullable=False),
    # Whether changes of its flags need an approval.
    Column("is_protected", Boolean, nullable=False),
)

project_tokens = Table(
    "project_tokens",
    metadata,
    Column("value", Text, primary_key=True),
    Column("project_id", ForeignKey("projects.id"), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
)

# The secret key of a project and, after a rotation, the previous one.
project_secrets = Table(
    "project_secrets",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("is_backup", Boolean, primary_key=True),
    Column("hash", Text, nullable=False),
    Column("mask", Text, nullable=False),
    Column("created_at", Moment, nullable=False),
)

personal_keys = Table(
    "personal_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("label", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("mask", Text, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("project_ids", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("last_used_at", Moment),
    Column("last_rolled_at", Moment),
)

activity = Table(
    "activity",
    metadata,
    Column("id", Id, primary_key=True),
    Column("project_id", Id),
    Column("scope", Text, nullable=False),
    Column("item_id", Text, nullable=False),
    Column("item_name", Text, nullable=False),
    Column("activity", Text, nullable=False),
    Column("actor", Json, nullable=False),
    Column("changes", Json, nullable=False),
    Column("detail", Json, nullable=False),
    Column("created_at", Moment, nullable=False),
)

# One value encrypted with the first key of the installation: only that key decrypts it.
sealing_check = Table(
    "sealing_check",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("sealed", Text, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("project_id", ForeignKey("projects.id"), primary_key=True),
    Column("family", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("record_id", ForeignKey("pipeline_records.id"), nullable=False),
    Column("created_at", Moment, nullable=False),
)

# One row per topic that processes cache; its number increases with every change.
generations = Table(
    "generations",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
