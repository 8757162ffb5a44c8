"""Preview of a transformation: its result for a sample event. Nothing is stored."""

import time
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import uuid4

from hedgerow.errors import Invalid
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.destinations.delivery_preview import SampleEvent
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.records.records import Records
from hedgerow.pipelines.transformations.chain import TransformationChain
from hedgerow.pipelines.transformations.registry import TransformationRegistry
from hedgerow.plugin.transform import IncomingEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformationPreview:
    """`after` is None if the event is dropped. With an `error` it equals `before`."""

    before: IncomingEvent
    after: IncomingEvent | None
    error: str


class TransformationPreviews:
    def __init__(self, records: Records, transformations: TransformationRegistry) -> None:
        self._records = records
        self._transformations = transformations

    async def preview(
        self, record: Record, sample: SampleEvent, now: datetime
    ) -> TransformationPreview:
        """Apply this record alone, even if it is disabled."""
        step = self._transformations.build_step(record)
        if step is None:
            raise Invalid("The component of this record is not a transformation.", attr="plugin")
        self._records.usable_settings(record)
        before = IncomingEvent(
            uuid=str(uuid4()),
            event=sample.event,
            distinct_id=sample.distinct_id,
            properties=dict(sample.properties),
            timestamp=now,
            accepted_at=now,
        )
        chain = TransformationChain([step])
        (count,) = counts = chain.new_counts()
        after = await run_in_thread(partial(chain.apply, before, counts, time.perf_counter))
        return TransformationPreview(before=before, after=after, error=count.error)
