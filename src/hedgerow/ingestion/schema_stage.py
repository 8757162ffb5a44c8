"""Check captured events against the schemas of their project, after the transformations.

An event that breaks its schema is stored with a warning, or becomes a dead letter in the form in
which it was captured, so that a retry transforms and checks it again.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from hedgerow.definitions.model import EventSchema
from hedgerow.definitions.schema_registry import UNCHECKED, SchemaRegistry
from hedgerow.events.model import EventKey
from hedgerow.ingestion.deduplication import ProcessedEvents
from hedgerow.ingestion.model import CapturedEvent, InboxRow, IngestionWarning
from hedgerow.ingestion.store import RejectedEvent
from hedgerow.ingestion.transform_stage import TransformedRows
from hedgerow.lib.text import replace_unstorable_characters
from hedgerow.pipelines.transformations.chain import TransformationCounts
from hedgerow.projects.model import ProjectId, SchemaMode

VIOLATION_WARNING = "schema_violation"
UNCHECKED_WARNING = "schema_not_checked"
# Of one event name in one batch.
MAX_WARNINGS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRows:
    """The rows with the remaining events, and by project the counts of the transformations, the
    rejected events and the warnings."""

    rows: Sequence[InboxRow]
    counts: Mapping[ProjectId, Sequence[TransformationCounts]]
    rejected: Mapping[ProjectId, Sequence[RejectedEvent]] = field(default_factory=dict)
    warnings: Mapping[ProjectId, Sequence[IngestionWarning]] = field(default_factory=dict)


class SchemaStage:
    def __init__(self, schemas: SchemaRegistry) -> None:
        self._registry = schemas

    async def refresh(self, rows: Iterable[InboxRow]) -> None:
        """Reload changed schemas. Call this after fetching the rows and before `apply`."""
        await self._registry.refresh({row.project_id for row in rows})

    async def apply(
        self,
        captured: Sequence[InboxRow],
        transformed: TransformedRows,
        duplicates: ProcessedEvents,
    ) -> CheckedRows:
        """Check the transformed form of the captured rows."""
        rows, counts = transformed.rows, transformed.counts
        grouped = self._group(rows, duplicates)
        if not grouped:
            return CheckedRows(rows=rows, counts=counts)
        rejected: dict[EventKey, str] = {}
        warnings: dict[ProjectId, list[IngestionWarning]] = defaultdict(list)
        for (project_id, _), (schema, events) in grouped.items():
            found = await self._registry.find_violations(
                schema, [event.properties for event in events]
            )
            if found is None:
                unchecked = [(event, UNCHECKED) for event in events]
                warnings[project_id] += _build_warnings(UNCHECKED_WARNING, unchecked)
                continue
            broken = [pair for pair in zip(events, found, strict=True) if pair[1] is not None]
            if schema.mode is SchemaMode.REJECT:
                rejected |= {
                    (project_id, event.uuid): f"Schema of {event.event!r}: {violation}"
                    for event, violation in broken
                }
            else:
                warnings[project_id] += _build_warnings(VIOLATION_WARNING, broken)
        if not rejected:
            return CheckedRows(rows=rows, counts=counts, warnings=warnings)
        return CheckedRows(
            counts=counts,
            rows=[_without(row, rejected) for row in rows],
            rejected=_list_rejected(captured, rejected),
            warnings=warnings,
        )

    def _group(
        self, rows: Sequence[InboxRow], duplicates: ProcessedEvents
    ) -> dict[tuple[ProjectId, str], tuple[EventSchema, list[CapturedEvent]]]:
        """Return the new events that have a schema."""
        found: dict[tuple[ProjectId, str], tuple[EventSchema, list[CapturedEvent]]] = {}
        seen: set[EventKey] = set()
        for row in rows:
            schemas = self._registry.schemas.get(row.project_id)
            if not schemas or not any(event.event in schemas for event in row.events):
                continue
            for event in duplicates.drop_duplicates(row.project_id, row.events):
                key = row.project_id, event.uuid
                if (schema := schemas.get(event.event)) is not None and key not in seen:
                    seen.add(key)
                    place = row.project_id, event.event
                    found.setdefault(place, (schema, []))[1].append(event)
        return found


def _without(row: InboxRow, rejected: Mapping[EventKey, Any]) -> InboxRow:
    kept = [event for event in row.events if (row.project_id, event.uuid) not in rejected]
    return row if len(kept) == len(row.events) else replace(row, events=kept)


def _list_rejected(
    captured: Sequence[InboxRow], rejected: Mapping[EventKey, str]
) -> Mapping[ProjectId, Sequence[RejectedEvent]]:
    left = dict(rejected)
    found: dict[ProjectId, list[RejectedEvent]] = defaultdict(list)
    for row in captured:
        for event in row.events:
            if reason := left.pop((row.project_id, event.uuid), None):
                found[row.project_id].append(RejectedEvent(event=event, reason=reason))
    return found


def _build_warnings(
    type: str, broken: Sequence[tuple[CapturedEvent, str | None]]
) -> list[IngestionWarning]:
    """Return a warning for each of the first events, the last of which counts the others: all
    events of an app can break a schema."""
    more = len(broken) - MAX_WARNINGS
    return [
        IngestionWarning(
            type=type,
            detail=f"{detail} And {more} more events."
            if number == MAX_WARNINGS and more > 0
            else f"{detail}",
            event=replace_unstorable_characters(event.event),
            uuid=event.uuid,
            distinct_id=replace_unstorable_characters(event.distinct_id),
        )
        for number, (event, detail) in enumerate(broken[:MAX_WARNINGS], start=1)
    ]
