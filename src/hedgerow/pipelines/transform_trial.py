"""Trying a transformation out: what it makes of a sample event. Nothing is stored."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import uuid4

from hedgerow.errors import Invalid
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.records import Records
from hedgerow.pipelines.transform import Chain
from hedgerow.pipelines.transformations import Transformations
from hedgerow.pipelines.transforming import Incoming
from hedgerow.pipelines.trial import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformTrial:
    """`after` is None if the event is dropped; with an `error` it is as it was before."""

    before: Incoming
    after: Incoming | None
    error: str


class TransformTrials:
    def __init__(self, records: Records, transformations: Transformations) -> None:
        self._records = records
        self._transformations = transformations

    async def test(self, record: Record, sample: Sample, now: datetime) -> TransformTrial:
        """This record alone, enabled or not."""
        step = self._transformations.step(record)
        if step is None:
            raise Invalid("The component of this record transforms nothing.", attr="plugin")
        self._records.usable_settings(record)
        before = Incoming(
            uuid=str(uuid4()),
            event=sample.event,
            distinct_id=sample.distinct_id,
            properties=dict(sample.properties),
            timestamp=now,
            accepted_at=now,
        )
        chain = Chain([step])
        (tally,) = tallies = chain.tallies()
        after = await in_daemon_thread(partial(chain.passed, before, tallies))
        return TransformTrial(before=before, after=after, error=tally.error)
