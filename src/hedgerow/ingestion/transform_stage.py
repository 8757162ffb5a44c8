"""Apply the transformations of a project to its captured events, before they update persons.

The transformations are those enabled at processing time, so a change applies to every event that is
accepted after it. Events of a project whose transformations take long wait for a later batch, so
that those of other projects do not wait for them.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from hedgerow.events.model import EventKey
from hedgerow.ingestion.deduplication import ProcessedEvents
from hedgerow.ingestion.model import CapturedEvent, InboxRow
from hedgerow.lib.threads import run_in_thread
from hedgerow.pipelines.transformations.chain import TransformationChain, TransformationCounts
from hedgerow.pipelines.transformations.registry import TransformationRegistry
from hedgerow.pipelines.transformations.user_agents import load_user_agents
from hedgerow.plugin.transform import IncomingEvent
from hedgerow.projects.model import ProjectId

IP = "$ip"
# What the transformations of a project may take of a batch. At least one event is transformed.
BATCH_BUDGET_S = 0.1

Chains = Mapping[ProjectId, TransformationChain]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformedRows:
    """The rows with the remaining events, and the counts of each transformation. Rows that are
    left out, and the rest of a row, wait for a later batch."""

    rows: Sequence[InboxRow]
    counts: Mapping[ProjectId, Sequence[TransformationCounts]] = field(default_factory=dict)


class TransformStage:
    """`in_order` says that a later row cannot be processed before an earlier one."""

    def __init__(self, transformations: TransformationRegistry, *, in_order: bool = False) -> None:
        self._transformations = transformations
        self._in_order = in_order

    async def refresh(self, rows: Iterable[InboxRow]) -> None:
        """Reload changed transformations. Call this after fetching the rows and before `apply`."""
        await self._transformations.refresh({row.project_id for row in rows})

    async def apply(self, rows: Sequence[InboxRow], duplicates: ProcessedEvents) -> TransformedRows:
        chains = self._transformations.chains
        used = {
            row.project_id: chains[row.project_id] for row in rows if chains.get(row.project_id)
        }
        if not used:
            return TransformedRows(rows=rows)
        batch = _Batch(used, duplicates)
        return await run_in_thread(partial(batch.transform, rows, in_order=self._in_order))


class _Batch:
    """The transformations of a batch, and the time that they have left."""

    def __init__(self, chains: Chains, duplicates: ProcessedEvents) -> None:
        self._chains = chains
        self._duplicates = duplicates
        self._counts = {project_id: chain.new_counts() for project_id, chain in chains.items()}
        self._left_s = dict.fromkeys(chains, BATCH_BUDGET_S)
        # Duplicates within the batch are not counted again.
        self._seen: set[EventKey] = set()

    def transform(self, rows: Sequence[InboxRow], *, in_order: bool) -> TransformedRows:
        load_user_agents()
        transformed: list[InboxRow] = []
        stopped: set[ProjectId] = set()
        for row in rows:
            if row.project_id in stopped:
                continue
            chain = self._chains.get(row.project_id)
            after = row if chain is None else self._transform_row(row, chain)
            if after is not None:
                transformed.append(after)
            if after is None or len(after.rest) > len(row.rest):
                if in_order:
                    break
                stopped.add(row.project_id)
        return TransformedRows(rows=transformed, counts=self._counts)

    def _transform_row(self, row: InboxRow, chain: TransformationChain) -> InboxRow | None:
        """Transform the events for which there is time, and leave the others in the row. None if
        that are all."""
        counts = self._counts[row.project_id]
        kept: list[CapturedEvent] = []
        done = 0
        new = {id(each) for each in self._duplicates.drop_duplicates(row.project_id, row.events)}
        for event in row.events:
            if self._left_s[row.project_id] <= 0:
                break
            done += 1
            key = (row.project_id, event.uuid)
            if id(event) in new and key not in self._seen:
                self._seen.add(key)
                started = time.perf_counter()
                after = chain.apply(_to_incoming(event), counts, time.perf_counter)
                self._left_s[row.project_id] -= time.perf_counter() - started
                if after is not None:
                    # `$ip` holds the address now, unless a transformation removed it.
                    kept.append(
                        replace(event, event=after.event, properties=after.properties, ip="")
                    )
        if done == len(row.events):
            return replace(row, events=kept)
        if not done:
            return None
        rest = [*row.events[done:], *row.rest]
        return replace(row, events=kept, rest=rest, number=min(row.number, done))


def _to_incoming(event: CapturedEvent) -> IncomingEvent:
    properties = event.properties
    if event.ip and IP not in properties:
        properties = {**properties, IP: event.ip}
    return IncomingEvent(
        uuid=event.uuid,
        event=event.event,
        distinct_id=event.distinct_id,
        properties=properties,
        timestamp=event.timestamp,
        accepted_at=event.accepted_at,
    )
