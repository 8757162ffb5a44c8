"""The definitions that an edge process holds, as the stores that the engine reads from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.edge.sources import EdgeSource
from hedgerow.errors import Unavailable
from hedgerow.flags.edge.document import EdgeDocument
from hedgerow.flags.model import Flag, FlagDefinitions, FlagId
from hedgerow.flags.store import FlagWrite, StoredData
from hedgerow.lib import jsonio
from hedgerow.projects.model import KeyId, Project, ProjectId, ProjectToken
from hedgerow.projects.roles import BUILT_IN_ROLES
from hedgerow.projects.store import DirectorySnapshot

NO_ORIGIN = "The origin of this edge process is not available. Try again shortly."


class NeedsOrigin(Exception):
    """The answer depends on what only the origin has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    project: Project
    document: EdgeDocument
    config: bytes
    secret_hashes: Sequence[str]


class EdgeState:
    """Projects, keys and SDK configurations, by the source that they come from."""

    def __init__(self) -> None:
        self._held: dict[EdgeSource, _Held] = {}
        self._refused: set[EdgeSource] = set()
        self.change_count = 0

    def replace_document(
        self, source: EdgeSource, document: EdgeDocument, secret_hashes: Sequence[str]
    ) -> Project:
        """Hold a new document of a source, and return its project. Its secret keys open the
        definitions for SDKs."""
        self.change_count += 1
        shown = document.project
        project = Project(
            id=shown.id,
            uuid=shown.uuid,
            organization_id="",
            name=shown.name,
            timezone=shown.timezone,
            api_token=shown.api_token,
            created_at=shown.created_at,
            updated_at=shown.updated_at,
        )
        # The engine compiles definitions of another generation, whatever the origin counts.
        definitions = replace(document.definitions, generation=self.change_count)
        held = EdgeDocument(format=document.format, project=shown, definitions=definitions)
        config = b"," + jsonio.encode(shown.config)[1:-1] if shown.config else b""
        self._held[source] = _Held(
            project=project, document=held, config=config, secret_hashes=secret_hashes
        )
        return project

    def refuse_key(self, source: EdgeSource, *, is_refused: bool) -> None:
        """Stop or resume accepting the key of a source, which the origin has refused."""
        if is_refused != (source in self._refused):
            self.change_count += 1
            (self._refused.add if is_refused else self._refused.discard)(source)

    def remove(self, source: EdgeSource) -> None:
        if self._held.pop(source, None) is not None:
            self.change_count += 1

    def get_project(self, source: EdgeSource) -> Project | None:
        held = self._held.get(source)
        return None if held is None else held.project

    def find_only_project_id(self) -> ProjectId | None:
        """Return the project if there is only one."""
        return next(iter(self._held.values())).project.id if len(self._held) == 1 else None

    def find_key(self, id: ProjectId) -> str:
        """Return the key of a project, "" if the origin refuses it."""
        return next(
            (
                source.key
                for source, each in self._held.items()
                if each.project.id == id and source not in self._refused
            ),
            "",
        )

    def find(self, id: ProjectId) -> EdgeDocument | None:
        return next((each.document for each in self._held.values() if each.project.id == id), None)

    def render_fields(self, project_id: ProjectId) -> bytes:
        """Render the common fields of the SDK configuration."""
        return next(
            (each.config for each in self._held.values() if each.project.id == project_id), b""
        )

    def build_snapshot(self) -> DirectorySnapshot:
        return DirectorySnapshot(
            generation=self.change_count,
            users={},
            projects={each.project.id: each.project for each in self._held.values()},
            keys_by_hash={},
            tokens={
                token.value: ProjectToken(
                    value=token.value, project_id=each.project.id, expires_at=token.expires_at
                )
                for each in self._held.values()
                for token in each.document.project.tokens
            },
            secrets_by_hash={
                hash: each.project.id
                for source, each in self._held.items()
                if source not in self._refused
                for hash in each.secret_hashes
            },
            roles=BUILT_IN_ROLES,
            sessions_by_hash={},
        )


class EdgeDirectoryStore:
    def __init__(self, state: EdgeState) -> None:
        self._state = state

    async def generation(self) -> int:
        return self._state.change_count

    async def snapshot(self) -> DirectorySnapshot:
        return self._state.build_snapshot()

    async def save_last_use(self, used: Mapping[KeyId, datetime]) -> None: ...

    async def save_session_use(self, used: Mapping[str, datetime]) -> None: ...


class EdgeFlagStore:
    """Reads flags only: they are changed at the origin."""

    def __init__(self, state: EdgeState) -> None:
        self._state = state

    async def generation(self, project_id: ProjectId) -> int:
        return self._get(project_id).generation

    async def generations(self) -> Mapping[ProjectId, int]:
        ids = self._state.build_snapshot().projects
        return {id: self._get(id).generation for id in ids}

    async def definitions(self, project_id: ProjectId, timezone: str) -> FlagDefinitions:
        return self._get(project_id)

    async def flag(self, project_id: ProjectId, id: FlagId) -> Flag | None:
        return next((each for each in self._get(project_id).flags if each.id == id), None)

    async def deletion_blockers(self, project_id: ProjectId) -> Mapping[FlagId, str]:
        raise Unavailable(NO_ORIGIN)

    async def call_counts(self, project_id: ProjectId, flag_key: str) -> Mapping[str, int]:
        raise Unavailable(NO_ORIGIN)

    async def write(
        self,
        project_id: ProjectId,
        decide: Callable[[FlagDefinitions, Callable[[FlagId], Flag | None]], FlagWrite],
        now: datetime,
    ) -> Flag:
        raise Unavailable(NO_ORIGIN)

    async def write_all(
        self,
        project_id: ProjectId,
        work: Callable[[FlagDefinitions, Callable[[FlagWrite], Flag]], None],
        now: datetime,
    ) -> None:
        raise Unavailable(NO_ORIGIN)

    def _get(self, project_id: ProjectId) -> FlagDefinitions:
        document = self._state.find(project_id)
        if document is None:
            raise Unavailable(NO_ORIGIN)
        return document.definitions


class AbsentData:
    """Stored data, of which an edge process has none. Reading it raises what `build_error`
    returns."""

    def __init__(self, build_error: Callable[[], Exception]) -> None:
        self._build_error = build_error

    async def load(
        self,
        project_id: ProjectId,
        distinct_id: str,
        groups: Mapping[int, str],
        *,
        cohorts: bool = True,
        hash_keys: bool = True,
        behaviors: bool = True,
    ) -> StoredData:
        raise self._build_error()

    async def list_distinct_ids(self, project_id: ProjectId, distinct_id: str) -> Sequence[str]:
        raise self._build_error()

    async def wait_for_group_types(self, project_id: ProjectId, names: Sequence[str]) -> None:
        """A new group type arrives with the next definitions."""

    async def save_hash_keys(
        self,
        project_id: ProjectId,
        distinct_ids: Sequence[str],
        hash_key: str,
        flags: Sequence[str],
    ) -> None:
        raise self._build_error()


def build_unavailable() -> Exception:
    return Unavailable(NO_ORIGIN)


async def refuse_visitor(error: Callable[[], Exception], *_: Any) -> str:
    """Visitors without cookies get their id from secrets of the origin."""
    raise error()
