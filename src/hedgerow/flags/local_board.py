"""What SDKs that evaluate flags by themselves are told, kept as bytes until something changes."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import msgspec

from hedgerow.flags.board import FlagCache
from hedgerow.flags.local import Audience, local_definitions
from hedgerow.flags.snapshot import Snapshot
from hedgerow.lib import jsonio
from hedgerow.projects.model import Project, ProjectId


class Told(msgspec.Struct, frozen=True):
    """`etag` is the same for as long as the body is, whichever process is asked."""

    body: bytes
    etag: str


Made = tuple[int, str]
Elsewhere = Callable[[Callable[[], Told]], Awaitable[Told]]


class LocalBoard:
    """Most who ask know the answer already, and nothing is read or written for them."""

    def __init__(self, board: FlagCache, elsewhere: Elsewhere) -> None:
        self._board = board
        self._elsewhere = elsewhere
        # With what it was made of, by number: a snapshot is too large to be held for this.
        self._told: dict[tuple[ProjectId, Audience], tuple[Made, Told]] = {}
        self._making = asyncio.Lock()

    def at_hand(self, project: Project, audience: Audience) -> Told | None:
        snapshot = self._board.get_cached(project)
        kept = self._told.get((project.id, audience))
        if snapshot is None or kept is None or kept[0] != _made_of(snapshot):
            return None
        return kept[1]

    async def told(self, project: Project, audience: Audience) -> Told:
        found = self.at_hand(project, audience)
        if found is not None:
            return found
        async with self._making:
            snapshot = await self._board.snapshot(project)
            found = self.at_hand(project, audience)
            if found is None:
                definitions = snapshot.definitions
                found = await self._elsewhere(
                    lambda: _written(jsonio.encode(local_definitions(definitions, audience)))
                )
                self._told[project.id, audience] = (_made_of(snapshot), found)
            return found


def _made_of(snapshot: Snapshot) -> Made:
    return (snapshot.definitions.generation, snapshot.definitions.timezone)


def _written(body: bytes) -> Told:
    return Told(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
