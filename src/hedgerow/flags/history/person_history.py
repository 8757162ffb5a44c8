"""The properties of a person and of a group at an earlier time, from the events of then.

An event is stored with the properties of its person. What the service knew at a time are the events
that it had accepted, hence `created_at`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hedgerow.events.query.executor import QueryExecutor
from hedgerow.hogql.builders import constant
from hedgerow.hogql.templates import build_select
from hedgerow.lib import jsonio
from hedgerow.projects.model import Project, ProjectId

# The most merges of a person, and changes of a group, that are read.
MAX_EVENTS = 5_000

_MERGES_SQL = f"""
SELECT distinct_id, if(event = '$identify', properties.$anon_distinct_id, properties.alias)
FROM events
WHERE event IN ('$identify', '$create_alias', '$merge_dangerously') AND distinct_id IN {{ids}}
    AND created_at <= {{at}}
ORDER BY created_at LIMIT {MAX_EVENTS}
"""  # noqa: S608 - only a constant
_LATEST_SQL = """
SELECT created_at, timestamp, toString(poe.id), poe.properties
FROM events
WHERE distinct_id IN {ids} AND person_mode != 'propertyless' AND created_at <= {at}
ORDER BY created_at DESC, timestamp DESC, uuid DESC LIMIT 2
"""
_GROUP_SQL = f"""
SELECT properties.$group_set
FROM events
WHERE event = '$groupidentify' AND properties.$group_type = {{type}}
    AND properties.$group_key = {{key}} AND created_at <= {{at}}
ORDER BY created_at DESC, timestamp DESC, uuid DESC LIMIT {MAX_EVENTS + 1}
"""  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAtTime:
    """`as_of` is when the latest event of the person was accepted. It `is_ambiguous` if another
    event with other properties was accepted at the same moment."""

    uuid: str
    properties: Mapping[str, Any]
    as_of: datetime
    is_ambiguous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAtTime:
    """Not complete if the group has changed more often than is read."""

    properties: Mapping[str, Any]
    is_complete: bool


class PersonHistory:
    def __init__(self, executor: QueryExecutor) -> None:
        self._executor = executor

    async def wait_until_readable(self, project_id: ProjectId) -> None:
        await self._executor.wait_until_readable(project_id)

    async def find_merged_ids(
        self, project: Project, distinct_id: str, ids: Sequence[str], at: datetime
    ) -> frozenset[str]:
        """Return those of the distinct ids of the present person that were of the same person as
        `distinct_id` then."""
        if len(ids) <= 1:
            return frozenset((distinct_id,))
        rows = await self._fetch(project, _MERGES_SQL, at, ids=list(ids))
        merged = {distinct_id}
        for _ in ids:
            before = len(merged)
            for one, other in rows:
                if one in merged or other in merged:
                    merged |= {one, other}
            if len(merged) == before:
                break
        return frozenset(merged) & {distinct_id, *ids}

    async def find_person(
        self, project: Project, ids: frozenset[str], at: datetime
    ) -> PersonAtTime | None:
        rows = await self._fetch(project, _LATEST_SQL, at, ids=sorted(ids))
        if not rows:
            return None
        accepted, happened, uuid, properties = rows[0]
        return PersonAtTime(
            uuid=uuid,
            properties=_parse_object(properties),
            as_of=accepted,
            is_ambiguous=any(
                row[:2] == [accepted, happened] and row[3] != properties
                for row in map(list, rows[1:])
            ),
        )

    async def find_group(
        self, project: Project, type_name: str, key: str, at: datetime
    ) -> GroupAtTime | None:
        rows = await self._fetch(project, _GROUP_SQL, at, type=type_name, key=key)
        if not rows:
            return None
        properties: dict[str, Any] = {}
        for (changes,) in reversed(rows[:MAX_EVENTS]):
            properties |= _parse_object(changes)
        return GroupAtTime(properties=properties, is_complete=len(rows) <= MAX_EVENTS)

    async def _fetch(
        self, project: Project, text: str, at: datetime, **values: Any
    ) -> Sequence[Sequence[Any]]:
        parts = {name: constant(value) for name, value in {**values, "at": at}.items()}
        context = await self._executor.load_context(project, at, ())
        return (await self._executor.execute(context, lambda: build_select(text, **parts))).rows


def _parse_object(text: Any) -> Mapping[str, Any]:
    value = jsonio.decode(text) if isinstance(text, str) and text else None
    return value if isinstance(value, dict) else {}
