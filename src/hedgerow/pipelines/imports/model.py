"""What an import app works with: rows of a source, where to go on, and ways to the source.

An import app's `read` gives portions of rows, each with the place behind it. It keeps nothing: the
job in run.py maps rows to events, has them accepted, counts, and remembers the place.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from hedgerow.lib.clock import Clock
from hedgerow.pipelines.database_address import DatabaseAddress
from hedgerow.pipelines.model import FileMark
from hedgerow.pipelines.sending import Aside, Outbound
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """`identity` is what no other row of the source ever has: the event's uuid is made of it.
    `place` is where people find it. Where all values are text, numbers among them are told by
    their form."""

    identity: str
    place: str
    values: Mapping[str, Any]
    is_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    place: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Some rows. `cursor`, any JSON, is where to go on behind them; `total` is how many rows there
    are in all, if that is known."""

    rows: Sequence[SourceRow]
    cursor: Any
    bad: Sequence[BadRow] = ()
    total: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    finished: Sequence[FileMark] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file below the folder of a project, by its name there."""

    name: str
    version: str


class ImportFiles(Protocol):
    """Files that the operator lets projects import."""

    async def listed(self, project_id: ProjectId, path: str) -> Sequence[LocalFile]:
        """The file, or the files of the folder and of those in it, by name. JobProblem if there is
        nothing that may be read."""
        ...

    async def opened(self, project_id: ProjectId, name: str) -> BinaryIO: ...

    async def scratch(self) -> BinaryIO:
        """An empty file that goes away when it is closed."""
        ...

    def has_room(self) -> bool:
        """Whether the disk can take more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Rows of somebody's PostgreSQL in the order of a column, from a value on if one is given."""

    address: DatabaseAddress
    text: str
    cursor_column: str
    start: str | None


class QueriedRows(Protocol):
    def rows(self, query: Query) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Any]]]:
        """Portions of rows, each a pair: the column's value as text, and all values by column. Or
        CannotSend."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a reader may use. `is_finished` tells whether this version of a file was read before;
    `aside` does what blocks, beside everything else."""

    project_id: ProjectId
    http: Outbound
    files: ImportFiles
    queried: QueriedRows
    is_finished: Callable[[FileMark], Awaitable[bool]]
    aside: Aside
    sleep: Callable[[float], Awaitable[None]]
    clock: Clock


# By the settings in the clear, from a cursor on; none means from the beginning.
Read = Callable[[Mapping[str, Any], Any, Around], AsyncIterator[Portion]]
# Raises CannotSend or JobProblem if the source does not answer.
Reach = Callable[[Mapping[str, Any], Around], Awaitable[None]]
