"""What an import app works with: rows, batches with a cursor, and ways to reach its source.

A component's `read` yields batches. Hedgerow maps the rows to events, accepts them, counts them and
stores the cursor of each batch, so that a run that is interrupted continues behind it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from hedgerow.lib.clock import Clock
from hedgerow.plugin.database_address import DatabaseAddress
from hedgerow.plugin.delivery import RunInThread
from hedgerow.plugin.deprecated import warn_renamed
from hedgerow.plugin.http import HttpClient
from hedgerow.projects.model import ProjectId


@dataclass(frozen=True, slots=True, kw_only=True)
class FileVersion:
    """A file of a source in one version, for instance an ETag or the time of its last change."""

    name: str
    version: str


class JobError(Exception):
    """A job cannot continue. The message tells the operator why and what to do."""


class JobPostponed(Exception):
    """The job cannot continue now. It waits for `delay_s`, and the message says for what."""

    def __init__(self, reason: str, delay_s: float) -> None:
        super().__init__(reason)
        self.delay_s = delay_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """One row of a source.

    `identity` is unique within the source: the event's uuid is derived from it, so a row that is
    read twice is one event. `location` tells people where the row is, such as `orders.csv line 7`.
    With `is_text` all values are text, and numbers and booleans among them are recognized.
    """

    identity: str
    location: str
    values: Mapping[str, Any]
    is_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that cannot be imported, and why."""

    location: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportBatch:
    """Rows and the `cursor`, any JSON value, from which reading continues behind them.

    `total` is the number of rows in the source, if known. `details` is shown with the job.
    `finished` are files that have now been read to the end.
    """

    rows: Sequence[SourceRow]
    cursor: Any
    bad: Sequence[BadRow] = ()
    total: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    finished: Sequence[FileVersion] = ()


class ImportFiles(Protocol):
    """Files in the project's folder below the imports folder."""

    async def list_files(self, project_id: ProjectId, path: str) -> Sequence[FileVersion]:
        """Return the file at a path, or all files below the folder there, by name. Raises JobError
        if there is nothing that may be read."""
        ...

    async def open_file(self, project_id: ProjectId, name: str) -> BinaryIO: ...

    async def create_temporary(self) -> BinaryIO:
        """Create an empty file that is removed when it is closed."""
        ...

    def has_free_space(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseQuery:
    """A query of an external PostgreSQL database, ordered by a column, from `start` on if given."""

    address: DatabaseAddress
    text: str
    cursor_column: str
    start: str | None


class DatabaseReader(Protocol):
    """Runs queries against external PostgreSQL databases."""

    def rows(
        self, query: DatabaseQuery
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[Any]]]:
        """Open a query. It yields batches of pairs: the cursor column as text, and all values by
        column. Raises TransportError if the database cannot be reached or refuses."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportContext:
    """Everything outside an import app that it may use.

    `is_finished` tells whether an earlier run read this version of a file to the end. Use `sleep`
    when the source asks you to wait: the time does not count as silence of the source.
    """

    project_id: ProjectId
    http: HttpClient
    files: ImportFiles
    database: DatabaseReader
    is_finished: Callable[[FileVersion], Awaitable[bool]]
    run_in_thread: RunInThread
    sleep: Callable[[float], Awaitable[None]]
    clock: Clock
    # Reads files and pages in worker processes, for the components of Hedgerow.
    reader: Any = None

    @property
    def aside(self) -> RunInThread:
        """Deprecated name of `run_in_thread`."""
        warn_renamed("ImportContext.aside", "ImportContext.run_in_thread")
        return self.run_in_thread

    @property
    def queried(self) -> DatabaseReader:
        """Deprecated name of `database`."""
        warn_renamed("ImportContext.queried", "ImportContext.database")
        return self.database


# A component's `read`: yields batches from a cursor on; a cursor of None means from the beginning.
ReadSource = Callable[[Mapping[str, Any], Any, ImportContext], AsyncIterator[ImportBatch]]
# A component's `check_connection`: raises TransportError or JobError if the source is unusable.
CheckConnection = Callable[[Mapping[str, Any], ImportContext], Awaitable[None]]
