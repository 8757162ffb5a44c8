"""Accepted events go through the transformations of their projects before anything is made of them:
by the records as they are by then, so that what was accepted after a change is treated by it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from hedgerow.events.model import EventKey
from hedgerow.ingestion.model import Accepted, Arrived
from hedgerow.ingestion.repeats import KnownEvents
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.pipelines.transform import Chain, Tally
from hedgerow.pipelines.transformations import Transformations
from hedgerow.pipelines.transforming import Incoming
from hedgerow.projects.model import ProjectId

IP = "$ip"

Chains = Mapping[ProjectId, Chain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformed:
    """The rows with what is left of their events, and what was done to them."""

    rows: Sequence[Accepted]
    tallies: Mapping[ProjectId, Sequence[Tally]] = field(default_factory=dict)


class Transforming:
    def __init__(self, transformations: Transformations) -> None:
        self._transformations = transformations

    async def refresh(self, rows: Iterable[Accepted]) -> None:
        """Call between reading rows and transforming them."""
        await self._transformations.refresh({row.project_id for row in rows})

    async def transformed(self, rows: Sequence[Accepted], known: KnownEvents) -> Transformed:
        chains = self._transformations.chains
        concerned = {
            row.project_id: chains[row.project_id] for row in rows if chains.get(row.project_id)
        }
        if not concerned:
            return Transformed(rows=rows)
        return await in_daemon_thread(partial(_transformed, concerned, rows, known))


def _transformed(chains: Chains, rows: Sequence[Accepted], known: KnownEvents) -> Transformed:
    tallies = {project_id: chain.tallies() for project_id, chain in chains.items()}
    # What comes again is not counted again.
    seen: set[EventKey] = set()
    passed: list[Accepted] = []
    for row in rows:
        chain = chains.get(row.project_id)
        if chain is None:
            passed.append(row)
            continue
        of_project = tallies[row.project_id]
        left: list[Arrived] = []
        for event in known.without_repeats(row.project_id, row.events):
            if (key := (row.project_id, event.uuid)) not in seen:
                seen.add(key)
                after = chain.passed(_incoming(event), of_project)
                if after is not None:
                    left.append(_arrived(event, after))
        passed.append(replace(row, events=left))
    return Transformed(rows=passed, tallies=tallies)


def _incoming(event: Arrived) -> Incoming:
    properties = event.properties
    if event.ip and IP not in properties:
        properties = {**properties, IP: event.ip}
    return Incoming(
        uuid=event.uuid,
        event=event.event,
        distinct_id=event.distinct_id,
        properties=properties,
        timestamp=event.timestamp,
        accepted_at=event.accepted_at,
    )


def _arrived(event: Arrived, after: Incoming) -> Arrived:
    """The address is among the properties now, or is not to be kept."""
    return Arrived(
        uuid=event.uuid,
        event=after.event,
        distinct_id=event.distinct_id,
        properties=after.properties,
        timestamp=event.timestamp,
        accepted_at=event.accepted_at,
        historical_migration=event.historical_migration,
    )
