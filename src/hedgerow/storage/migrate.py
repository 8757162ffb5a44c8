"""Bring a database to the present: under one lock, in one transaction, whoever else is starting.

A step that fails leaves the database as it was. A database from a newer Hedgerow is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, exists, insert, select, text

from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.bootstrap import FirstKeys, installation
from hedgerow.storage.connect import Place, plain_engine
from hedgerow.storage.keys import insert_key
from hedgerow.storage.projects import insert_project
from hedgerow.storage.schema import MIGRATIONS, SchemaState, friendly, state_in
from hedgerow.storage.tables import organizations, users

# Any number will do, so long as all Hedgerow processes take the same one.
POSTGRES_LOCK = 0x48_45_44_47_45
# How long one try waits for another process that is migrating. Callers try again for as long as
# they like, so that Ctrl-C is heard in between.
LOCK_WAIT_S = 1.0


def migrate(place: Place) -> SchemaState:
    """Run every step that is missing. Returns where the database stood before."""
    with _alone(place) as connection:
        return _upgrade(connection)


def prepare(place: Place, keys: FirstKeys, now: datetime) -> bool:
    """Migrate, and fill an empty installation with its first project and keys.

    True when it was empty: `keys` are then in force, and otherwise they are not.
    """
    with _alone(place) as connection:
        _upgrade(connection)
        return _fill_if_empty(connection, keys, now)


@contextmanager
def _alone(place: Place) -> Iterator[Connection]:
    """One transaction that no other migrating process can be in at the same time."""
    with friendly(place), plain_engine(place).connect() as connection, connection.begin():
        if place.is_sqlite:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(LOCK_WAIT_S * 1000)}")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text(f"SET LOCAL lock_timeout = {round(LOCK_WAIT_S * 1000)}"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": POSTGRES_LOCK})
            connection.execute(text("SET LOCAL lock_timeout = 0"))
        yield connection


def _upgrade(connection: Connection) -> SchemaState:
    before = state_in(connection)
    if not before.is_current:
        config = _alembic()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return before


def _fill_if_empty(connection: Connection, keys: FirstKeys, now: datetime) -> bool:
    if connection.execute(select(exists().select_from(organizations))).scalar():
        return False
    first = installation(keys, now)
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
        },
    )
    insert_project(connection, first.project, SYSTEM, now)
    insert_key(connection, first.key, SYSTEM, now)
    return True


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config
