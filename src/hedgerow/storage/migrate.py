"""Bring a database to the present: under one lock, in one transaction, whoever else is starting.

A step that fails leaves the database as it was. A database from a newer Hedgerow is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, exists, insert, select, text
from sqlalchemy.exc import DBAPIError

from hedgerow.errors import Unavailable, Unready
from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.bootstrap import FirstKeys, installation
from hedgerow.storage.connect import Place, plain_engine, translated
from hedgerow.storage.keys import insert_key
from hedgerow.storage.projects import insert_project
from hedgerow.storage.sqlite import is_damaged
from hedgerow.storage.tables import organizations, users

MIGRATIONS = Path(__file__).parent / "migrations"
# Any number will do, so long as all Hedgerow processes take the same one.
POSTGRES_LOCK = 0x48_45_44_47_45
# How long one try waits for another process that is migrating. Callers try again for as long as
# they like, so that Ctrl-C is heard in between.
LOCK_WAIT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """Where a database stands against this version's steps."""

    at: str | None
    newest: str
    pending: tuple[str, ...]

    @property
    def is_current(self) -> bool:
        return not self.pending


def schema_state(place: Place) -> SchemaState:
    """Look without changing anything; a missing SQLite file counts as empty."""
    if place.is_sqlite and not place.path.exists():
        return _state(None)
    with _friendly(place), plain_engine(place).connect() as connection:
        return _state(_revision(connection))


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
    with _friendly(place), plain_engine(place).connect() as connection, connection.begin():
        if place.is_sqlite:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {round(LOCK_WAIT_S * 1000)}")
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text(f"SET LOCAL lock_timeout = {round(LOCK_WAIT_S * 1000)}"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": POSTGRES_LOCK})
            connection.execute(text("SET LOCAL lock_timeout = 0"))
        yield connection


@contextmanager
def _friendly(place: Place) -> Iterator[None]:
    """Turns a driver's error into one of ours, with the driver's reason for whoever starts us."""
    try:
        if place.is_sqlite:
            # Only the owner may read it, whatever the folder's mode is.
            place.path.touch(mode=0o600, exist_ok=True)
        yield
    except (DBAPIError, OSError) as error:
        reason = str(getattr(error, "orig", error)).strip().partition("\n")[0]
        if isinstance(translated(error, place), Unavailable) and not is_damaged(error):
            raise Unavailable(f"The database is not available: {reason}") from error
        where = f" {place.path}" if place.is_sqlite else ""
        raise Unready(f"The database{where} cannot be used: {reason}") from error


def _upgrade(connection: Connection) -> SchemaState:
    before = _state(_revision(connection))
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


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _state(at: str | None) -> SchemaState:
    steps = ScriptDirectory.from_config(_alembic())
    known = [step.revision for step in steps.walk_revisions()][::-1]
    if at is not None and at not in known:
        raise Unready(
            f"The database is at step {at}, and this version of Hedgerow knows steps up to "
            f"{known[-1]}. It was used by a newer version: install that one, or restore a backup."
        )
    done = known.index(at) + 1 if at is not None else 0
    return SchemaState(at=at, newest=known[-1], pending=tuple(known[done:]))
