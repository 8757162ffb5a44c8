"""Open projects and keys on an existing database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hedgerow.app.state import State, build_state, ensure_data_dir, state_location
from hedgerow.errors import OperatorError
from hedgerow.settings import Settings
from hedgerow.storage.connect import open_database
from hedgerow.storage.migrations.state import SchemaState, inspect_schema


@asynccontextmanager
async def open_state(settings: Settings) -> AsyncIterator[State]:
    """Open the database of an existing installation and close it after the block."""
    database = open_database(state_location(settings))
    try:
        state = build_state(database)
        await state.directory.refresh()
        if not state.directory.list_projects():
            raise OperatorError("The database is empty. Run `hedgerow init` first.")
        yield state
    finally:
        await database.close()


def find_schema_state(settings: Settings) -> SchemaState | None:
    """Return the migrations that the database has and lacks; None if there is no database file."""
    location = state_location(settings)
    if location.is_sqlite:
        if not location.path.exists():
            return None
        ensure_data_dir(settings.data_dir)
    return inspect_schema(location)


def check_migrations(settings: Settings) -> SchemaState:
    """Return the migrations that the database has and lacks; an absent database lacks them all."""
    return inspect_schema(state_location(settings))
