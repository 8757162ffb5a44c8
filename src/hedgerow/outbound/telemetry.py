"""What a process exports to an OpenTelemetry collector: its spans and its metrics."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog

from hedgerow.events.tracing import SpanLog
from hedgerow.lib.threads import run_in_thread
from hedgerow.outbound.otlp import ExportError, OtlpExporter, read_otlp_options

TRACES_INTERVAL_S = 5.0
# Returns families of prometheus_client.
CollectMetrics = Callable[[], Iterable[Any]]

_log = structlog.get_logger("hedgerow.telemetry")


class Telemetry:
    """Configured by the standard variables. Without them it does nothing and costs nothing:
    `spans` is None. Raises OperatorError for a variable that cannot be used."""

    def __init__(self) -> None:
        options = read_otlp_options(os.environ)
        self.spans = SpanLog(options.sample_ratio) if options.traces_url else None
        self.metrics_interval_s = options.metrics_interval_s if options.metrics_url else 0.0
        self._exporter = OtlpExporter(options) if options.is_enabled else None

    async def export_spans(self) -> None:
        """Raises ExportError."""
        assert self.spans is not None
        assert self._exporter is not None
        await run_in_thread(partial(self._exporter.export_spans, self.spans.take()))

    async def export_metrics(self, collect: CollectMetrics) -> None:
        """Raises ExportError."""
        assert self._exporter is not None
        await run_in_thread(partial(self._exporter.export_metrics, list(collect())))

    @asynccontextmanager
    async def run(self, collect: CollectMetrics) -> AsyncIterator[None]:
        """Export while the block runs, and the last spans at its end."""
        tasks = []
        if self.spans is not None:
            tasks.append(asyncio.create_task(_repeat(self.export_spans, TRACES_INTERVAL_S)))
        if self.metrics_interval_s:
            export = partial(self.export_metrics, collect)
            tasks.append(asyncio.create_task(_repeat(export, self.metrics_interval_s)))
        try:
            yield
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self.spans is not None:
                await _try(self.export_spans)


async def _repeat(export: Callable[[], Any], interval_s: float) -> None:
    problem = ""
    while True:
        await asyncio.sleep(interval_s)
        found = await _try(export)
        # Each problem once, not with each attempt.
        if found and found != problem:
            _log.warning("the collector does not accept an export", reason=found)
        problem = found


async def _try(export: Callable[[], Any]) -> str:
    """Return why an export has failed, "" if it has not."""
    try:
        await export()
    except ExportError as error:
        return str(error)
    return ""
