"""Open the dead letters of an installation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from hedgerow.app.commands.state import open_state
from hedgerow.settings import Settings
from hedgerow.storage.ingestion.dead_letters import SqlDeadLetterStore, decode_content


@asynccontextmanager
async def open_dead_letters(settings: Settings) -> AsyncIterator[SqlDeadLetterStore]:
    async with open_state(settings) as state:
        yield SqlDeadLetterStore(state.database)


def read_content(content: bytes) -> Any:
    """Return the events of a dead letter as JSON values, as the API does."""
    return msgspec.to_builtins(decode_content(content))
