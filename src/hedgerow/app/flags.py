"""What the terminal does with flags, joined with their storage."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hedgerow.app.state import State, opened_state
from hedgerow.flags.as_code import FlagsAsCode
from hedgerow.flags.board import FlagCache
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.settings import Settings
from hedgerow.storage.flags import FlagRecords
from hedgerow.storage.subjects import SubjectRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRooms:
    """What the terminal does with flags, on an open database."""

    board: FlagCache
    subjects: SubjectRecords
    as_code: FlagsAsCode


@asynccontextmanager
async def opened_flags(settings: Settings) -> AsyncIterator[tuple[State, FlagRooms]]:
    """For verbs that work on flags of a prepared database."""
    async with opened_state(settings) as state:
        store = FlagRecords(state.database)
        yield (
            state,
            FlagRooms(
                board=FlagCache(store, in_daemon_thread),
                subjects=SubjectRecords(state.database),
                as_code=FlagsAsCode(store),
            ),
        )
