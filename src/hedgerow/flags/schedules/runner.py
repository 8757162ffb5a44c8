"""Execute scheduled changes when their time has come.

The flag and the outcome are stored in one transaction, so that a change is executed once with any
number of processes, and a process that ends in the middle leaves it for another. A change whose
time passed while no process ran is executed as soon as one runs.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from hedgerow.errors import AppError, Invalid, NotFound
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.flags import Authorship, build_change
from hedgerow.flags.model import Flag, FlagDefinitions
from hedgerow.flags.schedules.model import ScheduledChange
from hedgerow.flags.schedules.operations import build_fields
from hedgerow.flags.schedules.store import Execution, ScheduledChangeStore
from hedgerow.lib.clock import Clock
from hedgerow.lib.encryption import Cipher
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project
from hedgerow.projects.scopes import is_allowed

MAX_EXECUTED = 100
WRITE_SCOPE = "feature_flag:write"
AUTHOR_GONE = (
    "The person who scheduled the change may no longer change flags in this project. Schedule it "
    "again."
)
FLAG_GONE = "The flag was deleted."

PreparePatterns = Callable[[object], Awaitable[None]]


class ScheduledChangeRunner:
    def __init__(
        self,
        store: ScheduledChangeStore,
        flag_cache: FlagCache,
        directory: Directory,
        load_cipher: Callable[[], Cipher],
        prepare: PreparePatterns,
        clock: Clock,
    ) -> None:
        self._store = store
        self._flag_cache = flag_cache
        self._directory = directory
        self._load_cipher = load_cipher
        self._prepare = prepare
        self._clock = clock

    async def execute_due(self) -> None:
        """Execute what is due, the oldest of a project first: later changes of a flag build on
        earlier ones."""
        now = self._clock()
        due = await self._store.due(now, MAX_EXECUTED)
        if due:
            await self._directory.refresh()
        for change in due:
            project = self._directory.get_project(change.project_id)
            if project is not None:
                await self._execute(project, change, now)

    async def _execute(self, project: Project, change: ScheduledChange, now: datetime) -> None:
        zone = ZoneInfo(project.timezone)

        def decide(definitions: FlagDefinitions, flag: Flag | None) -> Execution:
            if not may_change_flags(self._directory, project, change.author_uuid):
                raise Invalid(AUTHOR_GONE)
            if flag is None or flag.deleted:
                raise NotFound(FLAG_GONE)
            by = Authorship(
                actor=change.author, at=now, detail={"trigger": _describe_trigger(change)}
            )
            fields = build_fields(flag, change.payload)
            write = build_change(flag, fields, definitions, self._load_cipher(), by)
            return Execution(write=write, after=_finish(change, zone, now, ""))

        try:
            await self._prepare(change.payload)
            is_executed = await self._store.execute(change, decide, now)
        except AppError as error:
            if error.is_server_error:
                raise  # a database is away: the change stays due
            failed = _finish(change, zone, now, error.detail)
            await self._store.save_failure(change, failed)
        else:
            if is_executed:
                await self._flag_cache.refresh(project)


def may_change_flags(directory: Directory, project: Project, user_uuid: str) -> bool:
    """Whether a person still has the right to change flags. "" stands for the command line."""
    if not user_uuid:
        return True
    user = directory.find_user(uuid=user_uuid)
    if user is not None and user.is_owner:
        return True
    role = None if user is None else user.project_roles.get(project.id)
    return role is not None and is_allowed(role.scopes, WRITE_SCOPE)


def _finish(
    change: ScheduledChange, zone: ZoneInfo, now: datetime, failure_reason: str
) -> ScheduledChange:
    """Return the change after its execution: with the next time, or ended."""
    following = change.find_next(now, zone)
    return replace(
        change,
        scheduled_at=following or change.scheduled_at,
        executed_at=now if following is None else None,
        last_executed_at=now,
        failure_reason=failure_reason,
        updated_at=now,
    )


def _describe_trigger(change: ScheduledChange) -> dict[str, object]:
    return {
        "job_type": "scheduled_change",
        "job_id": str(change.id),
        "payload": dict(change.payload),
    }
