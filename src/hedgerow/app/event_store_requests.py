"""Work on an embedded event store that the service does for commands: no other process can open the
store while the service runs.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from hedgerow.app.event_store import LazyEventStore
from hedgerow.errors import AppError, OperatorError
from hedgerow.events.deletion import DeletionRequest, EventDeletion
from hedgerow.lib.clock import utc_now
from hedgerow.persons.store import PersonStore
from hedgerow.projects.activity import COMMAND_LINE
from hedgerow.projects.model import ProjectId
from hedgerow.storage.events.folder_lock import is_locked
from hedgerow.storage.events.request_files import RequestFiles

POLL_INTERVAL_S = 0.1
# The service looks for requests every second.
RESPONSE_TIMEOUT_S = 30.0
# How often a waiting command checks that the service still runs.
CHECK_INTERVAL_S = 2.0


class StoreAction(StrEnum):
    BACKUP = "backup"
    CHECK = "check"
    COUNT_EVENTS = "count events"
    DELETE_EVENTS = "delete events"


async def request_from_service(
    folder: Path, action: StoreAction, fields: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Let the process that has the event store open do the work, and return its result."""
    files = RequestFiles(folder)
    id = files.submit(action, fields)
    deadline = time.monotonic() + RESPONSE_TIMEOUT_S
    try:
        while files.is_pending(id):
            if time.monotonic() > deadline:
                raise OperatorError(
                    "The process that has the event store open does not respond. Stop it and try "
                    "again."
                )
            await asyncio.sleep(POLL_INTERVAL_S)
        result = await _wait_for_result(files, id)
    finally:
        files.cancel(id)
    if problem := result.get("problem"):
        raise OperatorError(problem)
    return result


async def _wait_for_result(files: RequestFiles, id: str) -> Mapping[str, Any]:
    checked = time.monotonic()
    while (result := files.poll_result(id)) is None:
        await asyncio.sleep(POLL_INTERVAL_S)
        if time.monotonic() - checked > CHECK_INTERVAL_S:
            checked = time.monotonic()
            if not is_locked(files.folder) and (result := files.poll_result(id)) is None:
                raise OperatorError("The service stopped before it was done. Try again.")
            if result is not None:
                return result
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStoreActions:
    """The work itself, in the process that has the event store open."""

    events: LazyEventStore
    deletion: EventDeletion
    persons: PersonStore

    async def run(self, action: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        match action:
            case StoreAction.BACKUP:
                await (await self.events.open()).backup(Path(fields["target"]))
                return {}
            case StoreAction.CHECK:
                return asdict(await (await self.events.open()).check())
            case StoreAction.COUNT_EVENTS | StoreAction.DELETE_EVENTS:
                is_dry_run = action == StoreAction.COUNT_EVENTS
                return {"events": await self._delete(dict(fields), is_dry_run=is_dry_run)}
        return {"problem": "The service has another version than this command. Restart it."}

    async def _delete(self, fields: dict[str, Any], *, is_dry_run: bool) -> int:
        project_id = ProjectId(fields.pop("project_id"))
        request = DeletionRequest(**fields)
        selection = await self.deletion.select(self.persons, project_id, request)
        if is_dry_run:
            return await self.deletion.count(project_id, selection)
        return await self.deletion.delete(project_id, selection, COMMAND_LINE, utc_now())


@dataclass(frozen=True, slots=True)
class EventStoreRequests:
    """Does what commands request while the service runs."""

    files: RequestFiles
    actions: EventStoreActions

    async def serve(self) -> None:
        """Serve a waiting request, if there is one."""
        request = self.files.take()
        if request is None:
            return
        result: Mapping[str, Any] = {"problem": "See the service's log for the reason."}
        try:
            result = await self.actions.run(request.action, request.fields)
        except (AppError, OperatorError) as error:
            result = {"problem": str(error)}
        finally:
            self.files.report(request.id, result)
