"""Scans of persons and groups, in worker processes."""

from collections.abc import Callable
from functools import partial

from hedgerow.errors import Invalid, Unavailable
from hedgerow.events.query.limiter import QueryLimiter
from hedgerow.flags.evaluation.condition_matcher import Condition
from hedgerow.flags.store import PersonScanner, ScanResult
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.lib.workers.pool import PoolFull, PoolLimits
from hedgerow.lib.workers.process import WorkerDied
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import (
    DatabaseLocation,
    build_scan_source,
    list_driver_errors,
    translate_error,
)
from hedgerow.storage.persons.scan_worker import scan_groups, scan_persons

MAX_SCANS = 2
# One project leaves a process to the others. Further scans wait in the limiter.
WORKER_LIMITS = PoolLimits(
    max_processes=MAX_SCANS,
    max_waiting=MAX_SCANS,
    max_waiting_per_sender=1,
    timeout_s=30.0,
    max_memory_bytes=1 << 30,
)


class SqlPersonScanner(PersonScanner):
    def __init__(self, location: DatabaseLocation, workers: FunctionPool) -> None:
        self._location = location
        self._workers = workers
        self._limiter = QueryLimiter(per_project=1, total=MAX_SCANS)
        self._source = build_scan_source(location, WORKER_LIMITS.timeout_s)

    async def scan_persons(self, query: PersonQuery, condition: Condition) -> ScanResult:
        work = partial(scan_persons, self._source, query, condition)
        return await self._run(work, query.project_id)

    async def scan_groups(self, project_id: ProjectId, condition: Condition) -> ScanResult:
        return await self._run(
            partial(scan_groups, self._source, project_id, condition), project_id
        )

    async def _run(self, work: Callable[[], ScanResult], project_id: ProjectId) -> ScanResult:
        try:
            async with self._limiter.acquire(project_id):
                return await self._workers.run(work, str(project_id))
        except PoolFull:
            raise Unavailable("Too many lists of persons are being searched.") from None
        except WorkerDied as error:
            if not (error.timed_out or error.out_of_memory):
                raise Unavailable("The search was interrupted.") from None
            raise Invalid(
                "The filters take too long to evaluate. Use fewer of them, or simpler regular "
                "expressions.",
                code="query_limit_exceeded",
            ) from None
        except list_driver_errors(self._location) as error:
            raise translate_error(error, self._location) from error
