"""Open the definitions of an installation, to manage them as a file."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hedgerow.app.commands.state import open_state
from hedgerow.app.state import State
from hedgerow.definitions.as_code import DefinitionsAsCode
from hedgerow.definitions.documents import DefinitionDocuments
from hedgerow.settings import Settings
from hedgerow.storage.ingestion.definitions import SqlDefinitionStore


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionCommands:
    """Definitions of an installation, for commands."""

    state: State
    documents: DefinitionDocuments


@asynccontextmanager
async def open_definitions(settings: Settings) -> AsyncIterator[DefinitionCommands]:
    async with open_state(settings) as state:
        store = SqlDefinitionStore(state.database)
        yield DefinitionCommands(
            state=state, documents=DefinitionDocuments(DefinitionsAsCode(store))
        )
