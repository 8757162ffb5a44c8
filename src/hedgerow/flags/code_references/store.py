"""References to flags in source code as they are stored, and the operations on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hedgerow.flags.code_references.scanner import CodeReference
from hedgerow.flags.model import FlagId
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import ProjectId

MAX_PROJECT_REFERENCES = 50_000
SCOPE = "CodeReferences"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeScan:
    """All references in a repository at one commit."""

    repository: str
    commit: str
    references: Sequence[CodeReference]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReference:
    id: int
    repository: str
    commit: str
    reference: CodeReference
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedFlag:
    """A flag that no reference names."""

    id: FlagId
    key: str
    name: str
    active: bool
    last_called_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownKey:
    """A key that references name and no flag has. `file` and `line` are those of one reference."""

    key: str
    references: int
    repository: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceFilter:
    """None means any."""

    key: str | None = None
    repository: str | None = None
    limit: int
    offset: int


class CodeReferenceStore(Protocol):
    async def replace_scan(
        self, project_id: ProjectId, scan: CodeScan, actor: Actor, now: datetime
    ) -> None:
        """Replace all references of the repository. Raises Invalid if the project has too many."""
        ...

    async def references(
        self, project_id: ProjectId, wanted: ReferenceFilter
    ) -> tuple[Sequence[StoredReference], int]: ...

    async def unused_flags(
        self, project_id: ProjectId, limit: int, offset: int
    ) -> tuple[Sequence[UnusedFlag], int]: ...

    async def unknown_keys(
        self, project_id: ProjectId, limit: int, offset: int
    ) -> tuple[Sequence[UnknownKey], int]: ...
