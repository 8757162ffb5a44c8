"""Where a database stands against this version's migration steps, seen without running any."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from hedgerow.errors import Unavailable, Unready
from hedgerow.storage.connect import Place, plain_engine, translated
from hedgerow.storage.sqlite import is_damaged

MIGRATIONS = Path(__file__).parent / "migrations"


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
    with friendly(place), plain_engine(place).connect() as connection:
        return state_in(connection)


def state_in(connection: Connection) -> SchemaState:
    if not inspect(connection).has_table("alembic_version"):
        return _state(None)
    return _state(connection.execute(text("SELECT version_num FROM alembic_version")).scalar())


@contextmanager
def friendly(place: Place) -> Iterator[None]:
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


def _state(at: str | None) -> SchemaState:
    known = _known_steps()
    if at is not None and at not in known:
        raise Unready(
            f"The database is at step {at}, and this version of Hedgerow knows steps up to "
            f"{known[-1]}. It was used by a newer version: install that one, or restore a backup."
        )
    done = known.index(at) + 1 if at is not None else 0
    return SchemaState(at=at, newest=known[-1], pending=tuple(known[done:]))


def _known_steps() -> list[str]:
    """By the files' names: Alembic would run them all to ask for their numbers."""
    return sorted(file.name[:4] for file in (MIGRATIONS / "versions").glob("[0-9]*.py"))
