"""ActorsQuery: the persons or groups behind a number of an insight, page by page."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from hedgerow.errors import Invalid
from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.hogql.ast import Compare, Expr, Select
from hedgerow.hogql.builders import compare, constant, in_list
from hedgerow.hogql.parser.parse import parse_expr
from hedgerow.hogql.printer.statement import PrintedQuery
from hedgerow.hogql.templates import build_select
from hedgerow.hogql.unparse import to_hogql
from hedgerow.insights.actor_sources import (
    APPEARANCES,
    ActorSource,
    build_source,
    build_values,
    parse_source,
)
from hedgerow.insights.earliest import find_earliest
from hedgerow.insights.filters import list_documents
from hedgerow.insights.known_fields import ACTORS_QUERY
from hedgerow.lib import jsonio
from hedgerow.lib.text import truncate
from hedgerow.projects.model import Project
from hedgerow.projects.validation import check_storable
from hedgerow.queries.fields import QueryFields
from hedgerow.queries.model import QueryOutput, Timing
from hedgerow.queries.queries import RunQuery

DEFAULT_LIMIT = 100
MAX_LIMIT = 1_000
MAX_OFFSET = 1_000_000
# What a row can have. `actor`, `person` and `group` are the same.
COLUMNS = ("actor", "person", "group", "id", "created_at", "event_count", APPEARANCES)
# A column that PostHog's app asks for with each point of a trend. There are no recordings here.
RECORDINGS = "matched_recordings"

_PERSONS_SQL = """
SELECT toString(persons.id), persons.properties, persons.created_at, persons.is_identified, ids
FROM persons
LEFT JOIN (
    SELECT person_id, groupArray(100)(distinct_id) AS ids
    FROM person_distinct_ids WHERE {is_wanted} GROUP BY person_id
) AS known ON known.person_id = persons.id
WHERE {is_shown}
"""
_GROUPS_SQL = """
SELECT group_key, properties, created_at FROM groups
WHERE group_type_index = {index} AND {is_shown}
"""
# Whose id, name, e-mail address or distinct id contains a text.
_FOUND_PERSONS_SQL = """
SELECT toString(id) FROM persons
WHERE positionCaseInsensitiveUTF8(arrayStringConcat([
    toString(id), ifNull(properties.email, ''), ifNull(properties.name, '')
], ' '), {wanted}) > 0
UNION ALL
SELECT toString(person_id) FROM person_distinct_ids
WHERE positionCaseInsensitiveUTF8(distinct_id, {wanted}) > 0
"""
_FOUND_GROUPS_SQL = """
SELECT group_key FROM groups
WHERE group_type_index = {index} AND positionCaseInsensitiveUTF8(
    arrayStringConcat([group_key, ifNull(properties.name, '')], ' '), {wanted}
) > 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorsQuery:
    sent: Mapping[str, Any]
    source: ActorSource
    columns: Sequence[str]
    intervals: Mapping[str, int]
    search: str
    order: Sequence[str]
    limit: int
    offset: int


def parse_actors_query(sent: Mapping[str, Any]) -> ActorsQuery:
    fields = QueryFields(sent)
    fields.check_known(ACTORS_QUERY)
    check_storable(sent, "query")
    source = parse_source(fields.mapping("source"), fields.attr("source"))
    columns = fields.text_list("select") or ["actor"]
    intervals = source.number_columns()
    for each in columns:
        if each not in (*COLUMNS, RECORDINGS) and each not in intervals:
            detail = f'"{truncate(each)}" is not supported. Expected one of: {", ".join(COLUMNS)}.'
            raise Invalid(detail, attr=fields.attr("select"), code="invalid_choice")
    return ActorsQuery(
        sent=sent,
        source=source,
        columns=columns,
        intervals=intervals,
        search=fields.text("search").strip(),
        order=_parse_order(fields, source),
        limit=fields.number("limit", 1, MAX_LIMIT) or DEFAULT_LIMIT,
        offset=fields.number("offset", 0, MAX_OFFSET) or 0,
    )


def _parse_order(fields: QueryFields, source: ActorSource) -> list[str]:
    """Parse columns with a direction, such as `event_count DESC`. As PostHog's app sends it, one
    text may have several."""
    known = {"id": "actor", "actor": "actor", "actor_id": "actor", source.column: "extra"}
    if source.column == APPEARANCES:
        known[f"length({APPEARANCES})"] = "length(extra)"
    found = []
    parts = [part for each in fields.text_list("orderBy") for part in each.split(",")]
    for each in parts:
        name, _, direction = each.strip().partition(" ")
        if name not in known or direction.strip().upper() not in ("", "ASC", "DESC"):
            detail = (
                f'"{truncate(each)}" is not supported. Expected ASC or DESC after one of: '
                f"{', '.join(known)}."
            )
            raise Invalid(detail, attr=fields.attr("orderBy"), code="invalid_choice")
        is_descending = direction.strip().upper() == "DESC"
        found.append(f"{known[name]} {'DESC' if is_descending else 'ASC'}")
    return found


class ActorsQueryRunner:
    def __init__(self, executor: QueryExecutor) -> None:
        self._executor = executor

    def prepare(self, project: Project, fields: QueryFields, now: datetime) -> RunQuery:
        query = parse_actors_query(fields.all())
        return lambda: self.run(project, query, now)

    async def run(self, project: Project, query: ActorsQuery, now: datetime) -> QueryOutput:
        started = time.monotonic()
        context = await self._executor.build_context(
            project, now, [query.sent, *list_documents(query.source.query, project)]
        )
        source = query.source
        earliest = await find_earliest(self._executor, context, *source.date_ranges)
        shown = await self._find_shown_values(source, context, earliest)
        statement, hogql = await self._executor.run_compilation(
            context, partial(_compile, query, context, earliest, shown)
        )
        rows = (await self._executor.run(context, statement)).rows
        page = rows[: query.limit]
        actors = await self._fetch_actors(context, source, [str(row[0]) for row in page])
        results = [_build_row(query, actors, str(id), extra) for id, extra in page]
        return QueryOutput(
            results=msgspec.Raw(jsonio.encode(results)),
            columns=query.columns,
            types=[],
            hogql=hogql,
            timings=[Timing(k="./run", t=round(time.monotonic() - started, 6))],
            limit=query.limit,
            offset=query.offset,
            has_more=len(rows) > query.limit,
        )

    async def _find_shown_values(
        self, source: ActorSource, context: QueryContext, earliest: datetime | None
    ) -> list[Sequence[str]]:
        statement = await self._executor.run_compilation(
            context, partial(_compile_values, source, context, earliest)
        )
        if statement is None:
            return []
        result = await self._executor.run(context, statement)
        return [row[0] for row in result.rows[: source.shown_values]]

    async def _fetch_actors(
        self, context: QueryContext, source: ActorSource, ids: Sequence[str]
    ) -> Mapping[str, dict[str, Any]]:
        if not ids:
            return {}
        index = source.group_type_index
        build = (
            partial(_select_persons, ids) if index is None else partial(_select_groups, ids, index)
        )
        found = await self._executor.execute(context, build)
        describe = _describe_person if index is None else _describe_group
        return {str(row[0]): describe(row) for row in found.rows}


def _compile(
    query: ActorsQuery,
    context: QueryContext,
    earliest: datetime | None,
    shown: Sequence[Sequence[str]],
) -> tuple[PrintedQuery, str]:
    tree = build_source(query.source, context, earliest, shown)
    if query.search or query.order:
        tree = _search_and_order(query, tree)
    tree = replace(tree, limit=constant(query.limit + 1), offset=constant(query.offset))
    return compile_query(tree, context), to_hogql(tree)


def _search_and_order(query: ActorsQuery, actors: Select) -> Select:
    index = query.source.group_type_index
    is_found: Expr = constant(True)
    if query.search:
        wanted = constant(query.search)
        matches = build_select(_FOUND_PERSONS_SQL, wanted=wanted)
        if index is not None:
            matches = build_select(_FOUND_GROUPS_SQL, wanted=wanted, index=constant(index))
        is_found = compare(parse_expr("toString(rows.actor)"), Compare.IN, matches)
    return build_select(
        f"""
        SELECT rows.actor AS actor, rows.{query.source.column} AS extra FROM {{actors}} AS rows
        WHERE {{is_found}}
        ORDER BY {", ".join([*(query.order or ["extra DESC"]), "actor ASC"])}
        """,  # noqa: S608 - ours
        actors=actors,
        is_found=is_found,
    )


def _compile_values(
    source: ActorSource, context: QueryContext, earliest: datetime | None
) -> PrintedQuery | None:
    tree = build_values(source, context, earliest)
    return None if tree is None else compile_query(tree, context)


def _select_persons(ids: Sequence[str]) -> Select:
    return build_select(
        _PERSONS_SQL,
        is_wanted=in_list(parse_expr("toString(person_id)"), ids),
        is_shown=in_list(parse_expr("toString(persons.id)"), ids),
    )


def _select_groups(ids: Sequence[str], index: int) -> Select:
    return build_select(
        _GROUPS_SQL, index=constant(index), is_shown=in_list(parse_expr("group_key"), ids)
    )


def _describe_person(row: Sequence[Any]) -> dict[str, Any]:
    id, properties, created_at, is_identified, distinct_ids = row
    return {
        "type": "person",
        "id": id,
        "uuid": id,
        "distinct_ids": distinct_ids,
        "is_identified": bool(is_identified),
        "properties": jsonio.decode(properties) if properties else {},
        "created_at": created_at,
    }


def _describe_group(row: Sequence[Any]) -> dict[str, Any]:
    key, properties, created_at = row
    found = jsonio.decode(properties) if properties else {}
    return {"type": "group", "id": key, "properties": found, "created_at": created_at}


def _build_row(
    query: ActorsQuery, actors: Mapping[str, dict[str, Any]], id: str, extra: Any
) -> list[Any]:
    """Build a row. An actor whose record is deleted has its id only."""
    actor = actors.get(id) or {"id": id, "distinct_ids": [], "properties": {}, "created_at": None}
    values = {
        "actor": actor,
        "person": actor,
        "group": actor,
        "id": id,
        "created_at": actor["created_at"],
        query.source.column: extra,
        RECORDINGS: [],
    }
    # Whether the actor of a retention was there, as 1 or 0.
    values |= {
        name: int(query.intervals[name] in extra)
        for name in query.columns
        if name in query.intervals
    }
    return [values.get(name) for name in query.columns]
