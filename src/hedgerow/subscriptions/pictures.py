"""Draws insights: runs the query, and renders the chart in a worker process."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from hedgerow.charts.from_results import build_chart, unwrap_query
from hedgerow.charts.model import Picture
from hedgerow.charts.render import render_png, render_svg
from hedgerow.errors import Invalid, Unavailable
from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.lib.workers.pool import PoolFull, PoolLimits
from hedgerow.lib.workers.process import WorkerDied
from hedgerow.projects.model import Project
from hedgerow.queries.model import QueryResponse, QueryStatus
from hedgerow.queries.queries import Refresh

# A picture takes 0.3 s and 100 MB.
WORKER_LIMITS = PoolLimits(
    max_processes=1,
    max_waiting=20,
    max_waiting_per_sender=10,
    timeout_s=20.0,
    max_memory_bytes=512 << 20,
)
# Of encoded results. A chart shows a small part of more.
MAX_RESULT_BYTES = 16 << 20
RETRY_AFTER_S = 5
RENDERERS = {"png": render_png, "svg": render_svg}

# Queries.execute.
Execute = Callable[
    [Project, Mapping[str, Any], Refresh, str], Awaitable[QueryResponse | QueryStatus]
]


class ChartPictures:
    def __init__(self, execute: Execute, workers: FunctionPool, clock: Clock) -> None:
        self._execute = execute
        self._workers = workers
        self._clock = clock

    async def draw(
        self, project: Project, title: str, query: Mapping[str, Any], form: str = "png"
    ) -> bytes:
        """Return the picture of a query's result. Raises AppError, as the query endpoint does."""
        source = unwrap_query(query)
        response = await self._execute(project, source, Refresh.BLOCKING, "")
        assert isinstance(response, QueryResponse)
        results = bytes(response.results or b"null")
        if len(results) > MAX_RESULT_BYTES:
            raise Invalid("The result is too large for a picture.", attr="query")
        period = response.resolved_date_range
        fields = {
            "columns": list(response.columns),
            "resolved_date_range": dict(period) if isinstance(period, Mapping) else None,
        }
        work = partial(_render, form, title, dict(source), results, (fields, project.timezone))
        return await self._run(partial(work, self._clock()), project)

    async def draw_message(self, project: Project, picture: Picture) -> bytes:
        return await self._run(partial(render_png, picture), project)

    async def _run(self, work: Callable[[], bytes], project: Project) -> bytes:
        try:
            return await self._workers.run(work, str(project.id))
        except PoolFull:
            detail = "Too many pictures are being drawn."
            raise Unavailable(detail, retry_after_s=RETRY_AFTER_S) from None
        except WorkerDied as error:
            raise Invalid(f"The picture cannot be drawn: drawing {error}.", attr="query") from None


def _render(
    form: str,
    title: str,
    query: dict[str, Any],
    results: bytes,
    context: tuple[dict[str, Any], str],
    now: Any,
) -> bytes:
    fields, timezone = context
    response = {**fields, "results": jsonio.decode(results)}
    return RENDERERS[form](build_chart(title, query, response, timezone, now))
