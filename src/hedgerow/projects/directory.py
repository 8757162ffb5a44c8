"""Projects, people and keys in memory, for authentication.

The directory holds a snapshot of all projects, people, keys and sessions and replaces it when the
stored generation changes, so a check reads no database and never sees a partial change. Every
process polls the generation twice a second: a revoked key or session stops working everywhere
within one second, and so does a role that is taken away.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from hedgerow.errors import Unavailable
from hedgerow.lib.clock import Clock
from hedgerow.lib.tokens import hash_token
from hedgerow.projects.caller import Caller, call_with_key, call_with_session
from hedgerow.projects.model import (
    KeyId,
    LoginSession,
    PersonalKey,
    Project,
    ProjectId,
    ProjectToken,
    Role,
    User,
)
from hedgerow.projects.roles import BUILT_IN_ROLES
from hedgerow.projects.store import DirectorySnapshot, DirectoryStore

POLL_INTERVAL_S = 0.5
# Another process may just have created an unknown key, so a miss checks the database. This is the
# minimum interval of such checks, however many unknown keys arrive.
MISS_POLL_INTERVAL_S = 0.05
LAST_USE_RESOLUTION = timedelta(hours=1)
SESSION_IDLE_TIME = timedelta(days=14)

EMPTY_SNAPSHOT = DirectorySnapshot(
    generation=-1,
    users={},
    projects={},
    keys_by_hash={},
    tokens={},
    secrets_by_hash={},
    roles=BUILT_IN_ROLES,
    sessions_by_hash={},
)


class Directory:
    def __init__(self, store: DirectoryStore, clock: Clock, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._snapshot = EMPTY_SNAPSHOT
        # The callers with personal keys that were seen since the snapshot was read, by hash.
        self._callers: dict[str, Caller] = {}
        self._reloaded_at = float("-inf")
        self._reload_lock = asyncio.Lock()
        # The error of the last reload, for requests that waited for it.
        self._failure: Unavailable | None = None
        self._last_use: dict[KeyId, datetime] = {}
        self._unsaved_use: dict[KeyId, datetime] = {}
        # The same of sessions.
        self._session_use: dict[str, datetime] = {}
        self._unsaved_session_use: dict[str, datetime] = {}

    async def refresh(self) -> None:
        """Load the stored projects and keys if they changed."""
        requested_at = self._monotonic()
        async with self._reload_lock:
            if self._reloaded_at > requested_at and self._failure is None:
                return  # another request reloaded after this one started
            await self._reload()

    async def refresh_and_save_usage(self) -> None:
        """Refresh, and save when keys and sessions were last used. A background task calls it."""
        await self.refresh()
        if self._unsaved_session_use:
            sessions = dict(self._unsaved_session_use)
            await self._store.save_session_use(sessions)
            for session_id in sessions:
                del self._unsaved_session_use[session_id]
        if self._unsaved_use:
            used = dict(self._unsaved_use)
            await self._store.save_last_use(used)
            for id in used:
                del self._unsaved_use[id]

    def find_key(self, value: str) -> PersonalKey | None:
        """Return the personal API key with this value, from memory."""
        key = self._snapshot.keys_by_hash.get(hash_token(value))
        if key is not None:
            self._record_use(key)
        return key

    async def find_new_key(self, value: str) -> PersonalKey | None:
        """Like `find_key` for a value that is not in memory: checks the database first."""
        await self._reload_after_miss()
        return self.find_key(value)

    def identify_key(self, key: PersonalKey) -> Caller:
        caller = self._callers.get(key.hash)
        if caller is None:
            caller = self._callers[key.hash] = call_with_key(key, self.get_user(key.user_id))
        return caller

    def find_session(self, value: str) -> Caller | None:
        """Return the person with this session, from memory, unless the session is over."""
        session = self._snapshot.sessions_by_hash.get(hash_token(value))
        if session is None or not self.is_open(session):
            return None
        self._record_session_use(session)
        return call_with_session(session, self.get_user(session.user_id))

    async def find_new_session(self, value: str) -> Caller | None:
        await self._reload_after_miss()
        return self.find_session(value)

    def has_same_rights(self, caller: Caller) -> bool:
        """Whether a caller of a moment ago still exists, with the rights that it had."""
        user = self._snapshot.users.get(caller.user.id)
        if user is None or user.organization_role != caller.user.organization_role:
            return False
        if user.project_roles != caller.user.project_roles:
            return False
        if caller.session is not None:
            return caller.session.hash in self._snapshot.sessions_by_hash
        key = self._snapshot.keys_by_hash.get(caller.key.hash) if caller.key else None
        rights = (caller.scopes, caller.project_ids)
        return key is not None and (key.scopes, key.project_ids) == rights

    def is_open(self, session: LoginSession) -> bool:
        now = self._clock()
        return now < session.expires_at and now - self.get_session_use(session) < SESSION_IDLE_TIME

    def get_session_use(self, session: LoginSession) -> datetime:
        """Return the last use of a session, which memory knows before the database does."""
        return max(session.last_used_at, self._session_use.get(session.id, session.last_used_at))

    def list_sessions(self, user_id: int) -> list[LoginSession]:
        """Return the open sessions of a person, newest first."""
        sessions = self._snapshot.sessions_by_hash.values()
        found = [each for each in sessions if each.user_id == user_id and self.is_open(each)]
        return sorted(found, key=lambda each: (each.created_at, each.id), reverse=True)

    def find_token(self, value: str) -> Project | None:
        """Return the project with this public token, from memory."""
        token = self._snapshot.tokens.get(value)
        if token is None or (token.expires_at is not None and not token.is_valid(self._clock())):
            return None
        return self._snapshot.projects.get(token.project_id)

    def find_project_id(self, token: str) -> ProjectId | None:
        """Return the id of the project with this public token, valid or expired, from memory."""
        found = self._snapshot.tokens.get(token)
        return None if found is None else found.project_id

    def list_all_tokens(self) -> list[ProjectToken]:
        return list(self._snapshot.tokens.values())

    def list_tokens(self, id: ProjectId) -> list[ProjectToken]:
        """Return the public tokens of a project, valid or expired."""
        return [each for each in self._snapshot.tokens.values() if each.project_id == id]

    def list_secret_hashes(self) -> Mapping[str, ProjectId]:
        """Return the hashes of the secret keys of all projects."""
        return self._snapshot.secrets_by_hash

    async def find_new_token(self, value: str) -> Project | None:
        await self._reload_after_miss()
        return self.find_token(value)

    def find_secret(self, value: str) -> Project | None:
        """Return the project with this secret key, from memory."""
        id = self._snapshot.secrets_by_hash.get(hash_token(value))
        return None if id is None else self._snapshot.projects.get(id)

    async def find_new_secret(self, value: str) -> Project | None:
        await self._reload_after_miss()
        return self.find_secret(value)

    def get_project(self, id: ProjectId) -> Project | None:
        return self._snapshot.projects.get(id)

    async def find_new_project(self, id: ProjectId) -> Project | None:
        await self._reload_after_miss()
        return self.get_project(id)

    def list_projects_for(self, caller: Caller) -> list[Project]:
        """Return the projects that a caller can access, oldest first."""
        return [p for p in self._snapshot.projects.values() if caller.may_see(p.id)]

    @property
    def project_count(self) -> int:
        return len(self._snapshot.projects)

    def list_projects(self) -> list[Project]:
        return list(self._snapshot.projects.values())

    def list_keys(self) -> list[PersonalKey]:
        """Return all personal API keys, newest first, with their last use."""
        keys = (self.add_last_use(key) for key in self._snapshot.keys_by_hash.values())
        return sorted(keys, key=lambda key: (key.created_at, key.id), reverse=True)

    def get_key(self, id: KeyId) -> PersonalKey | None:
        return next((key for key in self.list_keys() if key.id == id), None)

    def get_user(self, id: int) -> User:
        return self._snapshot.users[id]

    def get_email(self, id: int) -> str:
        """Return the email of a user, or an empty string."""
        user = self._snapshot.users.get(id)
        return "" if user is None else user.email

    def get_owner(self) -> User:
        """Return the first owner of the installation, whose are the keys created on the command
        line."""
        return next(user for user in self.list_users() if user.is_owner)

    def list_users(self) -> list[User]:
        """Return all people, oldest first."""
        return [self._snapshot.users[id] for id in sorted(self._snapshot.users)]

    def find_user(self, *, email: str = "", uuid: str = "") -> User | None:
        """Return the person with this email, which is in lower case, or with this uuid."""
        users = self._snapshot.users.values()
        return next((each for each in users if email == each.email or uuid == each.uuid), None)

    def find_user_by_id(self, id: int) -> User | None:
        return self._snapshot.users.get(id)

    @property
    def roles(self) -> Mapping[str, Role]:
        """All roles by id: the built-in ones, and those of the organization."""
        return self._snapshot.roles

    async def _reload(self) -> None:
        reloaded_at = self._monotonic()
        self._failure = None
        try:
            if await self._store.generation() != self._snapshot.generation:
                self._snapshot = await self._store.snapshot()
                self._callers = {}
        except Unavailable as error:
            self._failure = error
            raise
        finally:
            self._reloaded_at = reloaded_at

    async def _reload_after_miss(self) -> None:
        requested_at = self._monotonic()
        async with self._reload_lock:
            if self._reloaded_at > requested_at:
                if self._failure is not None:
                    raise self._failure
                return
            await asyncio.sleep(
                max(0.0, self._reloaded_at + MISS_POLL_INTERVAL_S - self._monotonic())
            )
            await self._reload()

    def _record_use(self, key: PersonalKey) -> None:
        now = self._clock()
        last = self._last_use.get(key.id) or key.last_used_at
        if last is None or abs(now - last) >= LAST_USE_RESOLUTION:
            self._last_use[key.id] = self._unsaved_use[key.id] = now

    def _record_session_use(self, session: LoginSession) -> None:
        now = self._clock()
        if abs(now - self.get_session_use(session)) >= LAST_USE_RESOLUTION:
            self._session_use[session.id] = self._unsaved_session_use[session.id] = now

    def add_last_use(self, key: PersonalKey) -> PersonalKey:
        """Return the key with its last use, which memory knows before the database does."""
        last_use = self._last_use.get(key.id)
        if last_use is None or (key.last_used_at is not None and last_use <= key.last_used_at):
            return key
        return replace(key, last_used_at=last_use)
