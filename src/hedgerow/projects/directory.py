"""Who is asking, and for which project, answered from memory.

The directory holds a snapshot of all projects and keys. It is replaced whole when the stored
generation moves, so a check reads no database and sees no half of a change. Every process asks for
the generation twice a second: a revoked key stops working everywhere within one second.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from hedgerow.errors import Unavailable
from hedgerow.lib.clock import Clock
from hedgerow.lib.tokens import token_hash
from hedgerow.projects.model import KeyId, PersonalKey, Project, ProjectId, User
from hedgerow.projects.store import DirectoryStore, Snapshot

POLL_S = 0.5
# An unknown key may have been made a moment ago by another process, so it is worth a look at the
# database; this is how far apart such looks are, however many unknown keys arrive.
MISS_POLL_S = 0.05
USE_NOTED_EVERY = timedelta(hours=1)

EMPTY = Snapshot(
    generation=-1, users={}, projects={}, keys_by_hash={}, tokens={}, secrets_by_hash={}
)


class Directory:
    def __init__(self, store: DirectoryStore, clock: Clock, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._snapshot = EMPTY
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()
        # Why the last look failed, for those who waited for it beside the one who looked.
        self._failure: Unavailable | None = None
        self._last_use: dict[KeyId, datetime] = {}
        self._unsaved_use: dict[KeyId, datetime] = {}

    async def refresh(self) -> None:
        """Bring the snapshot up to date with what is stored now."""
        asked_at = self._monotonic()
        async with self._looking:
            if self._looked_at > asked_at and self._failure is None:
                return  # somebody looked while we waited, and saw all that we would
            await self._look()

    async def watch(self) -> None:
        """One turn of the background loop: see changes, save when keys were last used."""
        await self.refresh()
        if self._unsaved_use:
            used = dict(self._unsaved_use)
            await self._store.note_use(used)
            for id in used:
                del self._unsaved_use[id]

    def find_key(self, value: str) -> PersonalKey | None:
        """The personal key with this value, from memory."""
        key = self._snapshot.keys_by_hash.get(token_hash(value))
        if key is not None:
            self._note_use(key)
        return key

    async def find_new_key(self, value: str) -> PersonalKey | None:
        """Like find_key for a value that memory does not know: looks at the database first."""
        await self._look_after_miss()
        return self.find_key(value)

    def find_token(self, value: str) -> Project | None:
        """The project that this public key opens, from memory."""
        token = self._snapshot.tokens.get(value)
        if token is None or (token.expires_at is not None and not token.is_valid(self._clock())):
            return None
        return self._snapshot.projects.get(token.project_id)

    async def find_new_token(self, value: str) -> Project | None:
        await self._look_after_miss()
        return self.find_token(value)

    def find_secret(self, value: str) -> Project | None:
        """The project of this secret key, from memory."""
        id = self._snapshot.secrets_by_hash.get(token_hash(value))
        return None if id is None else self._snapshot.projects.get(id)

    async def find_new_secret(self, value: str) -> Project | None:
        await self._look_after_miss()
        return self.find_secret(value)

    def project(self, id: ProjectId) -> Project | None:
        return self._snapshot.projects.get(id)

    async def find_new_project(self, id: ProjectId) -> Project | None:
        await self._look_after_miss()
        return self.project(id)

    def projects_for(self, key: PersonalKey) -> list[Project]:
        """The projects that a key may see, oldest first."""
        return [p for p in self._snapshot.projects.values() if key.may_see(p.id)]

    def all_projects(self) -> list[Project]:
        return list(self._snapshot.projects.values())

    def all_keys(self) -> list[PersonalKey]:
        """All personal keys, newest first, with the last use that memory knows of."""
        keys = (self.with_last_use(key) for key in self._snapshot.keys_by_hash.values())
        return sorted(keys, key=lambda key: (key.created_at, key.id), reverse=True)

    def key(self, id: KeyId) -> PersonalKey | None:
        return next((key for key in self.all_keys() if key.id == id), None)

    def user(self, id: int) -> User:
        return self._snapshot.users[id]

    def email_of(self, id: int) -> str:
        """Empty for whom nobody knows."""
        user = self._snapshot.users.get(id)
        return "" if user is None else user.email

    def owner(self) -> User:
        """The installation's first person, to whom keys made at the terminal belong."""
        return self._snapshot.users[min(self._snapshot.users)]

    async def _look(self) -> None:
        looked_at = self._monotonic()
        self._failure = None
        try:
            if await self._store.generation() != self._snapshot.generation:
                self._snapshot = await self._store.snapshot()
        except Unavailable as error:
            self._failure = error
            raise
        finally:
            self._looked_at = looked_at

    async def _look_after_miss(self) -> None:
        asked_at = self._monotonic()
        async with self._looking:
            if self._looked_at > asked_at:
                if self._failure is not None:
                    raise self._failure
                return
            await asyncio.sleep(max(0.0, self._looked_at + MISS_POLL_S - self._monotonic()))
            await self._look()

    def _note_use(self, key: PersonalKey) -> None:
        now = self._clock()
        last = self._last_use.get(key.id) or key.last_used_at
        if last is None or now - last >= USE_NOTED_EVERY:
            self._last_use[key.id] = self._unsaved_use[key.id] = now

    def with_last_use(self, key: PersonalKey) -> PersonalKey:
        """The key with its last use, which memory knows before the database does."""
        seen = self._last_use.get(key.id)
        if seen is None or (key.last_used_at is not None and seen <= key.last_used_at):
            return key
        return replace(key, last_used_at=seen)
