"""The job that checks a connection: it sends a sample event, or contacts an import source."""

from hedgerow.lib.clock import Clock
from hedgerow.pipelines.deliveries.model import LogLevel, LogLine
from hedgerow.pipelines.destinations.delivery_preview import (
    DeliveryPreviews,
    SampleEvent,
    failure_reason,
)
from hedgerow.pipelines.imports.run import ImportJob
from hedgerow.pipelines.jobs.running import JobContext, JobStep
from hedgerow.plugin.imports import JobError


class ConnectionCheck:
    def __init__(self, previews: DeliveryPreviews, imports: ImportJob, clock: Clock) -> None:
        self._previews = previews
        self._imports = imports
        self._clock = clock

    async def run(self, context: JobContext) -> None:
        if context.component.check_connection is not None:
            await context.component.check_connection(
                context.settings, self._imports.build_context(context)
            )
        else:
            preview = await self._previews.send_test(context.record, SampleEvent(), self._clock())
            if reason := failure_reason(preview.outcome):
                raise JobError(reason)
        line = LogLine(level=LogLevel.INFO, message="The connection works.")
        await context.save(JobStep(cursor=None, done=1, total=1, logs=[line]))
