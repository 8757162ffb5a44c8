"""Apply the transformations of a project to its captured events, before they update persons.

The transformations are those enabled at processing time, so a change applies to every event that is
accepted after it.
"""

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
from hedgerow.plugin.transform import IncomingEvent
from hedgerow.projects.model import ProjectId

IP = "$ip"

Chains = Mapping[ProjectId, TransformationChain]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformedRows:
    """The rows with the remaining events, and the counts of each transformation."""

    rows: Sequence[InboxRow]
    counts: Mapping[ProjectId, Sequence[TransformationCounts]] = field(default_factory=dict)


class TransformStage:
    def __init__(self, transformations: TransformationRegistry) -> None:
        self._transformations = transformations

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
        return await run_in_thread(partial(_transform_rows, used, rows, duplicates))


def _transform_rows(
    chains: Chains, rows: Sequence[InboxRow], duplicates: ProcessedEvents
) -> TransformedRows:
    counts = {project_id: chain.new_counts() for project_id, chain in chains.items()}
    # Duplicates within the batch are not counted again.
    seen: set[EventKey] = set()
    transformed: list[InboxRow] = []
    for row in rows:
        chain = chains.get(row.project_id)
        if chain is None:
            transformed.append(row)
            continue
        remaining: list[CapturedEvent] = []
        for event in duplicates.drop_duplicates(row.project_id, row.events):
            if (key := (row.project_id, event.uuid)) not in seen:
                seen.add(key)
                after = chain.apply(_to_incoming(event), counts[row.project_id])
                if after is not None:
                    # `$ip` holds the address now, unless a transformation removed it.
                    remaining.append(
                        replace(event, event=after.event, properties=after.properties, ip="")
                    )
        transformed.append(replace(row, events=remaining))
    return TransformedRows(rows=transformed, counts=counts)


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
