"""Open the dead letters of an installation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hedgerow.app.commands.state import open_state
from hedgerow.settings import Settings
from hedgerow.storage.ingestion.dead_letters import SqlDeadLetterStore, decode_content

__all__ = ["decode_content", "open_dead_letters"]


@asynccontextmanager
async def open_dead_letters(settings: Settings) -> AsyncIterator[SqlDeadLetterStore]:
    async with open_state(settings) as state:
        yield SqlDeadLetterStore(state.database)
