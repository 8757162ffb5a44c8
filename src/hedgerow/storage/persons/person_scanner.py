"""Scans of persons and groups, in worker processes."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from hedgerow.errors import Invalid, Unavailable
from hedgerow.events.query.limiter import QueryLimiter
from hedgerow.flags.evaluation.comparison import ComparisonCounts, FlagComparison
from hedgerow.flags.evaluation.condition_matcher import Condition
from hedgerow.flags.evaluation.what_if import FlagVersionComparer
from hedgerow.flags.store import FlagEvaluation, KeyEvaluator, PersonScanner, ScanResult
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
from hedgerow.storage.persons.flag_worker import (
    compare_people,
    compare_persons,
    evaluate_keys,
)
from hedgerow.storage.persons.scan_worker import (
    ScanPart,
    choose_page,
    scan_groups,
    scan_persons,
)

# One project leaves processes to the others. Further scans wait in the limiter.
MAX_SCANS = 2
# A scan of all persons uses two cores.
PART_COUNT = min(2, os.cpu_count() or 1)
WORKER_LIMITS = PoolLimits(
    max_processes=MAX_SCANS * PART_COUNT,
    max_waiting=MAX_SCANS * PART_COUNT,
    max_waiting_per_sender=PART_COUNT,
    timeout_s=30.0,
    max_memory_bytes=1 << 30,
)
# A comparison ends with what it has then, before its processes are killed.
COMPARISON_BUDGET_S = 15.0


T = TypeVar("T")


class SqlPersonScanner(PersonScanner, KeyEvaluator, FlagVersionComparer):
    def __init__(self, location: DatabaseLocation, workers: FunctionPool) -> None:
        self._location = location
        self._workers = workers
        self._limiter = QueryLimiter(per_project=1, total=MAX_SCANS)
        self._source = build_scan_source(location, WORKER_LIMITS.timeout_s)

    async def scan_persons(self, query: PersonQuery, condition: Condition) -> ScanResult:
        if query.count is not None:
            work = partial(scan_persons, self._source, query, condition)
            [found] = await self._run([work], query.project_id)
            return found
        # Each part finds all persons that can be on the page.
        wanted = replace(query, offset=0, limit=query.offset + query.limit)
        works = [
            partial(
                scan_persons, self._source, wanted, condition, ScanPart(number=n, of=PART_COUNT)
            )
            for n in range(PART_COUNT)
        ]
        parts = await self._run(works, query.project_id)
        return ScanResult(
            ids=choose_page(chain.from_iterable(part.ids for part in parts), query),
            matching=sum(part.matching for part in parts),
            total=sum(part.total for part in parts),
        )

    async def scan_groups(self, project_id: ProjectId, condition: Condition) -> ScanResult:
        work = partial(scan_groups, self._source, project_id, condition)
        [found] = await self._run([work], project_id)
        return found

    async def evaluate_keys(
        self, project_id: ProjectId, evaluation: FlagEvaluation, keys: Sequence[Sequence[str]]
    ) -> Mapping[str, Sequence[bytes]]:
        size = max(1, -(-len(keys) // PART_COUNT))
        works = [
            partial(evaluate_keys, self._source, project_id, evaluation, keys[start : start + size])
            for start in range(0, len(keys), size)
        ]
        found: dict[str, list[bytes]] = {}
        for part in await self._run(works, project_id):
            for value, rows in part.items():
                found.setdefault(value, []).append(rows)
        return found

    async def compare_people(
        self, project_id: ProjectId, comparison: FlagComparison, people: Sequence[Sequence[Any]]
    ) -> ComparisonCounts:
        size = max(1, -(-len(people) // PART_COUNT))
        works = [
            partial(
                compare_people,
                self._source,
                project_id,
                comparison,
                [tuple(row) for row in people[start : start + size]],
                COMPARISON_BUDGET_S,
            )
            for start in range(0, len(people), size)
        ]
        return _merge(await self._run(works, project_id))

    async def compare_persons(
        self, project_id: ProjectId, comparison: FlagComparison
    ) -> ComparisonCounts:
        works = [
            partial(
                compare_persons,
                self._source,
                project_id,
                comparison,
                ScanPart(number=n, of=PART_COUNT),
                COMPARISON_BUDGET_S,
            )
            for n in range(PART_COUNT)
        ]
        return _merge(await self._run(works, project_id))

    async def _run(self, works: Sequence[Callable[[], T]], project_id: ProjectId) -> Sequence[T]:
        try:
            async with self._limiter.acquire(project_id):
                return await self._run_at_once(works, str(project_id))
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

    async def _run_at_once(self, works: Sequence[Callable[[], T]], sender: str) -> Sequence[T]:
        """If one fails, the others are killed."""
        running = [asyncio.create_task(self._workers.run(work, sender)) for work in works]
        try:
            return await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()


def _merge(parts: Sequence[ComparisonCounts]) -> ComparisonCounts:
    counts = ComparisonCounts()
    for part in parts:
        counts.merge(part)
    return counts
