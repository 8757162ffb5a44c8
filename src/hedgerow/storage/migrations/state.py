"""Compare a database with the migrations of this version, without running any."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from hedgerow.errors import OperatorError, Unavailable
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine, translate_error
from hedgerow.storage.engine.sqlite import is_damaged

MIGRATIONS_DIR = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """The migration a database is at, the newest one, and those pending."""

    at: str | None
    newest: str
    pending: tuple[str, ...]

    @property
    def is_current(self) -> bool:
        return not self.pending


def inspect_schema(location: DatabaseLocation) -> SchemaState:
    """Read the state without changing anything. A missing SQLite file counts as empty."""
    if location.is_sqlite and not location.path.exists():
        return _compare_to_migrations(None)
    with translate_database_errors(location), create_sync_engine(location).connect() as connection:
        return read_schema_state(connection)


def read_schema_state(connection: Connection) -> SchemaState:
    if not inspect(connection).has_table("alembic_version"):
        return _compare_to_migrations(None)
    return _compare_to_migrations(
        connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    )


def check_migration_is_known(migration: str) -> None:
    """Raise OperatorError if only a newer version of Hedgerow has this migration."""
    _compare_to_migrations(migration)


@contextmanager
def translate_database_errors(location: DatabaseLocation) -> Iterator[None]:
    """Convert driver errors to Unavailable or OperatorError, with the driver's reason."""
    try:
        if location.is_sqlite:
            # Only the owner may read the file, whatever the mode of the folder is.
            location.path.touch(mode=0o600, exist_ok=True)
        yield
    except (DBAPIError, OSError) as error:
        reason = str(getattr(error, "orig", error)).strip().partition("\n")[0]
        if isinstance(translate_error(error, location), Unavailable) and not is_damaged(error):
            raise Unavailable(f"The database is not available: {reason}") from error
        where = f" {location.path}" if location.is_sqlite else ""
        raise OperatorError(f"The database{where} cannot be used: {reason}") from error


def _compare_to_migrations(at: str | None) -> SchemaState:
    known = _list_migrations()
    if at is not None and at not in known:
        raise OperatorError(
            f"The database is at migration {at}, but this version of Hedgerow has migrations up to "
            f"{known[-1]}. A newer version used it: install that version, or restore a backup."
        )
    done = known.index(at) + 1 if at is not None else 0
    return SchemaState(at=at, newest=known[-1], pending=tuple(known[done:]))


def _list_migrations() -> list[str]:
    """List migrations by file name: Alembic would import them all."""
    return sorted(file.name[:4] for file in (MIGRATIONS_DIR / "versions").glob("[0-9]*.py"))
