"""Renders templates whose cost their author decides in worker processes that can be killed.

One process is for projects whose templates take long, so that they delay only each other.
"""

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from hedgerow.lib import jsonio
from hedgerow.lib.workers.pool import PoolFull, PoolLimits, WorkerPool
from hedgerow.lib.workers.process import WorkerDied
from hedgerow.lib.workers.sender_places import SenderPlaces
from hedgerow.pipelines.model import RecordId
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.templates import TemplateError
from hedgerow.projects.model import ProjectId

HOST_MODULE = "hedgerow.pipelines.destinations.template_host"
MEBIBYTE = 1024 * 1024
# Templates that a process renders or that wait in its queue. Projects share them, and more wait
# before the queue.
PLACES = 32
MAX_CPU_S = 0.3
# A template that takes longer makes its project use the process for slow templates for a while.
SLOW_CPU_S = 0.05
SLOW_PERIOD_S = 60.0
LIMITS = PoolLimits(
    max_processes=1,
    max_waiting=2_000,
    # Several times the concurrency of a destination.
    max_waiting_per_sender=64,
    # Of the wall clock, for filters that do not end: see MAX_CPU_S.
    timeout_s=2.0,
    max_memory_bytes=512 * MEBIBYTE,
)


class RenderRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`template` is JSON."""

    template: str
    payload: dict[str, Any]


class RenderResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The rendered value, or the reason why the template cannot be rendered."""

    value: Any = None
    error: str = ""
    cpu_s: float


_decode = msgspec.json.Decoder(RenderResponse).decode


class TemplateWorkers:
    """Two worker processes, which start with the first template that needs them."""

    def __init__(self, limits: PoolLimits = LIMITS) -> None:
        self._limits = limits
        self._fast = WorkerPool(HOST_MODULE, limits)
        self._slow = WorkerPool(HOST_MODULE, limits)
        self._places = {self._fast: SenderPlaces(PLACES), self._slow: SenderPlaces(PLACES)}
        # Until when a project uses the slow process.
        self._slow_until: dict[ProjectId, float] = {}

    async def render(
        self,
        source: bytes,
        payload: Mapping[str, Any],
        *,
        project_id: ProjectId,
        record_id: RecordId,
    ) -> Any:
        """Render a template, given as JSON. Raises TemplateError, and TransportError if a later
        attempt may succeed. Projects take turns, and so do the records of a project."""
        try:
            body = jsonio.encode(RenderRequest(template=source.decode(), payload=dict(payload)))
        except (TypeError, ValueError, OverflowError, RecursionError):
            raise TemplateError("The payload of the template is not JSON.") from None
        pool = self._slow if self.is_slow(project_id) else self._fast
        try:
            async with self._places[pool].hold_for_sender():
                response = _decode(await pool.request(body, str(record_id)))
        except PoolFull:
            raise TransportError("Too many templates wait to be rendered.") from None
        except WorkerDied as error:
            self._mark_slow(project_id)
            raise self._explain(error) from None
        if response.cpu_s > SLOW_CPU_S:
            self._mark_slow(project_id)
        if response.error:
            raise TemplateError(response.error)
        return response.value

    def is_slow(self, project_id: ProjectId) -> bool:
        """Whether the project uses the process for slow templates."""
        until = self._slow_until.get(project_id)
        if until is not None and until < time.monotonic():
            del self._slow_until[project_id]
        return project_id in self._slow_until

    def close(self) -> None:
        self._fast.close()
        self._slow.close()

    def _mark_slow(self, project_id: ProjectId) -> None:
        self._slow_until[project_id] = time.monotonic() + SLOW_PERIOD_S

    def _explain(self, error: WorkerDied) -> Exception:
        if error.timed_out:
            return TemplateError(f"The template took longer than {self._limits.timeout_s:g} s.")
        if error.out_of_memory:
            megabytes = self._limits.max_memory_bytes // MEBIBYTE
            return TemplateError(f"The template needed more than {megabytes} MiB of memory.")
        return TransportError("The process that renders templates ended.")
