"""How many events something holds for, counted before they are deleted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from hedgerow.events.delete import Chosen
from hedgerow.projects.model import ProjectId
from hedgerow.storage.events_schema import TABLE

# A server takes no field of a form beyond 128 KiB.
IDS_AT_ONCE = 2_500
TIMEOUT_S = 300.0


class Asked(Protocol):
    async def query(
        self, sql: str, parameters: Mapping[str, Any], *, max_rows: int, timeout_s: float
    ) -> list[dict[str, Any]]: ...


async def count_events(store: Asked, project_id: ProjectId, chosen: Chosen) -> int:
    clauses = ["project_id = {project_id:Int64}"]
    if chosen.uuids:
        clauses.append("uuid IN {uuids:Array(UUID)}")
    if chosen.distinct_ids:
        clauses.append("distinct_id IN {distinct_ids:Array(String)}")
    if chosen.event:
        clauses.append("event = {event:String}")
    if chosen.before:
        clauses.append("timestamp < {before:DateTime64(6, 'UTC')}")
    sql = f"SELECT count() AS number FROM {TABLE} WHERE {' AND '.join(clauses)}"  # noqa: S608
    number = 0
    for uuids in _sliced(chosen.uuids):
        for distinct_ids in _sliced(chosen.distinct_ids):
            asked = {
                "project_id": project_id,
                "uuids": list(uuids),
                "distinct_ids": list(distinct_ids),
                "event": chosen.event,
                "before": chosen.before,
            }
            (row,) = await store.query(sql, asked, max_rows=1, timeout_s=TIMEOUT_S)
            number += int(row["number"])
    return number


def _sliced(items: Sequence[str]) -> Iterator[Sequence[str]]:
    """Parts of a long list; of none, one part with nothing in it."""
    for start in range(0, len(items) or 1, IDS_AT_ONCE):
        yield items[start : start + IDS_AT_ONCE]
