"""Migrate a database: under one lock and in one transaction, safe when several processes start.

A failing migration leaves the database unchanged. A database of a newer Hedgerow is rejected.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module

from sqlalchemy import Connection, exists, insert, select, text
from sqlalchemy.exc import DBAPIError

from hedgerow.errors import OperatorError
from hedgerow.lib.clock import Clock
from hedgerow.people.logins import build_link
from hedgerow.people.passwords import hash_password
from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.bootstrap import InitialKeys, build_installation
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.migrations.schema_check import build_alembic_config, check_columns
from hedgerow.storage.migrations.state import (
    SchemaState,
    read_schema_state,
    translate_database_errors,
)
from hedgerow.storage.people.logins import insert_link
from hedgerow.storage.projects.keys import insert_key
from hedgerow.storage.projects.projects import insert_project
from hedgerow.storage.tables import organizations, users

# An arbitrary number that all Hedgerow processes share.
POSTGRES_LOCK_ID = 0x48_45_44_47_45
# How long one attempt waits for another migrating process. Callers retry, so that Ctrl-C is handled
# between attempts.
LOCK_TIMEOUT_S = 1.0
# No later migration was changed or skipped: a test pins them.
LAST_CHANGED_MIGRATION = "0017"
SKIPPED_MIGRATIONS_MODULE = "hedgerow.storage.migrations.skipped_migrations"
_CONFLICT = re.compile("already exists|duplicate column", re.IGNORECASE)
DATABASE_NOT_EMPTY = (
    "The database already holds an installation. Create an empty database and set "
    "HEDGEROW_DATABASE_URL to it."
)


def migrate(location: DatabaseLocation) -> SchemaState:
    """Run all pending migrations and return the state before."""
    with _exclusive_transaction(location) as connection:
        return _upgrade(connection)


def prepare_database(location: DatabaseLocation, keys: InitialKeys, clock: Clock) -> bool:
    """Migrate, and create the first project and keys in an empty installation.

    Returns True if it was empty; only then `keys` are stored and valid.
    """
    with _exclusive_transaction(location) as connection:
        _upgrade(connection)
        return _create_installation_if_empty(connection, keys, clock())


@contextmanager
def fill_empty_database(location: DatabaseLocation, migration: str) -> Iterator[Connection]:
    """Migrate an empty database to a migration, let the caller fill it, and run the later ones, all
    in one transaction. Raises OperatorError if the database is not empty."""
    with _exclusive_transaction(location) as connection:
        if read_schema_state(connection).at is not None:
            raise OperatorError(DATABASE_NOT_EMPTY)
        _upgrade(connection, migration)
        yield connection
        _upgrade(connection)


@contextmanager
def _exclusive_transaction(location: DatabaseLocation) -> Iterator[Connection]:
    """Open a transaction that excludes other migrating processes."""
    with (
        translate_database_errors(location),
        create_sync_engine(location).connect() as connection,
        connection.begin(),
    ):
        if location.is_sqlite:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(LOCK_TIMEOUT_S * 1000)}")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text(f"SET LOCAL lock_timeout = {round(LOCK_TIMEOUT_S * 1000)}"))
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": POSTGRES_LOCK_ID}
            )
            connection.execute(text("SET LOCAL lock_timeout = 0"))
        yield connection


def _upgrade(connection: Connection, target: str = "head") -> SchemaState:
    """Run pending migrations. Raises OperatorError if the schema is not as they leave it."""
    before = read_schema_state(connection)
    if before.at is not None and before.at <= LAST_CHANGED_MIGRATION:
        import_module(SKIPPED_MIGRATIONS_MODULE).add_skipped_parts(connection, before.at)
    if not before.is_current:
        config = build_alembic_config()
        config.attributes["connection"] = connection
        with _explain_conflicts(before.at):
            # Imported on demand: a database that is current needs none of it.
            import_module("alembic.command").upgrade(config, target)
    if target == "head":
        check_columns(connection)
    return before


@contextmanager
def _explain_conflicts(at: str | None) -> Iterator[None]:
    """Between two releases, branches had different migrations of the same number."""
    try:
        yield
    except DBAPIError as error:
        reason = str(error.orig).partition("\n")[0]
        if not _CONFLICT.search(reason):
            raise
        raise OperatorError(
            f"The database is at migration {at or 'none'}, and the next ones do not fit: {reason}. "
            "An unreleased version of Hedgerow, or another program, has changed it: use that "
            "version, or restore a backup."
        ) from error


def _create_installation_if_empty(connection: Connection, keys: InitialKeys, now: datetime) -> bool:
    if connection.execute(select(exists().select_from(organizations))).scalar():
        return False
    first = build_installation(keys, now)
    organization, owner = first.organization, first.owner
    connection.execute(
        insert(organizations),
        {"id": organization.id, "name": organization.name, "created_at": now},
    )
    connection.execute(
        insert(users),
        {
            "uuid": owner.uuid,
            "organization_id": organization.id,
            "first_name": owner.first_name,
            "email": owner.email,
            "distinct_id": owner.distinct_id,
            "created_at": now,
            "organization_role": owner.organization_role,
            "password_hash": hash_password(keys.owner_password) if keys.owner_password else None,
        },
    )
    if keys.setup_token:
        insert_link(connection, build_link(keys.setup_token, owner.id, "setup", now))
    insert_project(connection, first.project, SYSTEM, now)
    insert_key(connection, first.key, SYSTEM, now)
    return True
