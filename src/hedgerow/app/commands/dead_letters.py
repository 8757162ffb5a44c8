"""Open the dead letters of an installation."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hedgerow.app.commands.state import open_state
from hedgerow.settings import Settings
from hedgerow.storage.ingestion.dead_letters import SqlDeadLetterStore
from hedgerow.storage.ingestion.inbox_packing import DECODE_ERRORS, unpack_untyped


@asynccontextmanager
async def open_dead_letters(settings: Settings) -> AsyncIterator[SqlDeadLetterStore]:
    async with open_state(settings) as state:
        yield SqlDeadLetterStore(state.database)


def decode_content(content: bytes) -> Any:
    """Return the events of a dead letter as JSON values, or its bytes if they are damaged."""
    try:
        return unpack_untyped(content)
    except DECODE_ERRORS:
        return {"base64": b64encode(content).decode()}
