"""Runs RetentionQuery."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.hogql.printer.statement import PrintedQuery
from hedgerow.hogql.unparse import to_hogql
from hedgerow.insights.breakdowns import OTHER_LABEL
from hedgerow.insights.date_range import DateRange
from hedgerow.insights.earliest import find_earliest
from hedgerow.insights.filters import list_documents
from hedgerow.insights.retention.query import (
    RetentionQuery,
    build_retention_query,
    parse_retention_query,
    plan_period,
)
from hedgerow.lib import jsonio
from hedgerow.projects.model import Project
from hedgerow.queries.fields import QueryFields
from hedgerow.queries.model import InsightOutput, Timing
from hedgerow.queries.queries import RunQuery

# The number of actors by first interval and number of intervals after it.
Grid = dict[tuple[int, int], int]


class RetentionQueryRunner:
    def __init__(self, executor: QueryExecutor) -> None:
        self._executor = executor

    def prepare(self, project: Project, fields: QueryFields, now: datetime) -> RunQuery:
        query = parse_retention_query(fields.all())
        return lambda: self.run(project, query, now)

    async def run(self, project: Project, query: RetentionQuery, now: datetime) -> InsightOutput:
        started = time.monotonic()
        context = await self._executor.build_context(
            project, now, list_documents(query.sent, project)
        )
        earliest = await find_earliest(self._executor, context, query.date_range)
        period = plan_period(query, context.time, earliest)
        statement, hogql = await self._executor.run_compilation(
            context, partial(_compile, query, context, period)
        )
        result = await self._executor.run(context, statement)
        grids, has_more = _read_grids(query, result.rows)
        results = [
            row for value, grid in grids.items() for row in _build_rows(query, period, value, grid)
        ]
        return InsightOutput(
            results=msgspec.Raw(jsonio.encode(results)),
            hogql=hogql,
            timings=[Timing(k="./run", t=round(time.monotonic() - started, 6))],
            has_more=has_more,
            resolved_date_range=period.describe(),
        )


def _compile(
    query: RetentionQuery, context: QueryContext, period: DateRange
) -> tuple[PrintedQuery, str]:
    tree = build_retention_query(query, context, period)
    return compile_query(tree, context), to_hogql(tree)


def _read_grids(
    query: RetentionQuery, rows: Sequence[Sequence[Any]]
) -> tuple[Mapping[tuple[str, ...], Grid], bool]:
    """Return a grid for each value of the breakdown, largest first, the rest as Other."""
    grids: dict[tuple[str, ...], Grid] = {}
    for value, base, gap, actors in rows:
        grids.setdefault(tuple(value), {})[base, gap] = actors
    if query.breakdown is None:
        return grids or {("",): {}}, False
    ranked = sorted(grids, key=lambda value: (-_size(grids[value]), value))
    shown = {value: grids[value] for value in ranked[: query.breakdown.limit]}
    rest = ranked[query.breakdown.limit :]
    if rest and not query.breakdown.hides_other:
        shown[(OTHER_LABEL,) * len(query.breakdown.properties)] = _add(grids, rest)
    return shown, bool(rest)


def _size(grid: Grid) -> int:
    return sum(actors for (_, gap), actors in grid.items() if gap == 0)


def _add(grids: Mapping[tuple[str, ...], Grid], values: Sequence[tuple[str, ...]]) -> Grid:
    total: Grid = {}
    for value in values:
        for place, actors in grids[value].items():
            total[place] = total.get(place, 0) + actors
    return total


def _build_rows(
    query: RetentionQuery, period: DateRange, value: tuple[str, ...], grid: Grid
) -> list[dict[str, Any]]:
    unit = query.interval.capitalize()
    rows = []
    for base, start in enumerate(period.interval_starts):
        row: dict[str, Any] = {
            "values": [
                {"count": grid.get((base, gap), 0), "label": f"{unit} {gap}"}
                for gap in range(query.interval_count)
            ],
            "label": f"{unit} {base}",
            # With the offset of the time zone, so that the first ten characters are the day.
            "date": start.isoformat().replace("+00:00", "Z"),
            "breakdown_value": query.breakdown.read_plain_value(value) if query.breakdown else None,
        }
        rows.append(row)
    return rows
