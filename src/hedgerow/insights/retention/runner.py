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
from hedgerow.insights.filters import list_cohorts, list_documents
from hedgerow.insights.retention.query import (
    RetentionQuery,
    parse_retention_query,
    plan_period,
)
from hedgerow.insights.retention.sql import build_retention_query
from hedgerow.lib import jsonio
from hedgerow.persons.model import CohortId
from hedgerow.projects.model import Project
from hedgerow.queries.fields import QueryFields
from hedgerow.queries.model import InsightOutput, Timing
from hedgerow.queries.queries import RunQuery

# The number of actors and the sum of their amounts, by first interval and column after it.
Grid = dict[tuple[int, int], tuple[int, float]]
# The value of a breakdown.
Value = tuple[str, ...]


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
        run = _RetentionRun(self._executor, query, context, period)
        grids, has_more = await run.fetch()
        results = [
            row for value, grid in grids.items() for row in _build_rows(query, period, value, grid)
        ]
        return InsightOutput(
            results=msgspec.Raw(jsonio.encode(results)),
            hogql=" UNION ALL ".join(run.hogql),
            timings=[Timing(k="./run", t=round(time.monotonic() - started, 6))],
            has_more=has_more,
            resolved_date_range=period.describe(),
        )


class _RetentionRun:
    """One run of a retention. `hogql` are its queries."""

    def __init__(
        self,
        executor: QueryExecutor,
        query: RetentionQuery,
        context: QueryContext,
        period: DateRange,
    ) -> None:
        self._executor = executor
        self._query = query
        self._context = context
        self._period = period
        self.hogql: list[str] = []

    async def fetch(self) -> tuple[Mapping[Value, Grid], bool]:
        """Return a grid for each value of the breakdown, largest first, the rest as Other."""
        breakdown = self._query.breakdown
        if breakdown is None:
            return await self._read() or {("",): {}}, False
        grids: dict[Value, Grid] = {}
        if breakdown.cohorts:
            for cohort, _ in list_cohorts(breakdown, self._context):
                # As in PostHog, the id of all users is 0.
                found = await self._read(cohort)
                grids |= {(str(cohort or 0),): grid for grid in found.values()}
        else:
            grids = await self._read()
        ranked = sorted(grids, key=lambda value: (-_size(grids[value]), value))
        shown = {value: grids[value] for value in ranked[: breakdown.limit]}
        has_more = len(ranked) > len(shown)
        if has_more and not breakdown.hides_other:
            (other,) = (await self._read(excluded=list(shown))).values()
            shown[(OTHER_LABEL,) * len(breakdown.properties)] = other
        return shown, has_more

    async def _read(
        self, cohort: CohortId | None = None, excluded: Sequence[Value] = ()
    ) -> dict[Value, Grid]:
        statement, hogql = await self._executor.run_compilation(
            self._context,
            partial(_compile, self._query, self._context, self._period, cohort, excluded),
        )
        self.hogql.append(hogql)
        grids: dict[Value, Grid] = {}
        result = await self._executor.run(self._context, statement)
        for value, base, gap, actors, amount in result.rows:
            grids.setdefault(tuple(value), {})[base, gap] = actors, amount
        return grids


def _compile(
    query: RetentionQuery,
    context: QueryContext,
    period: DateRange,
    cohort: CohortId | None,
    excluded: Sequence[Value],
) -> tuple[PrintedQuery, str]:
    tree = build_retention_query(query, context, period, cohort, excluded)
    return compile_query(tree, context), to_hogql(tree)


def _size(grid: Grid) -> int:
    return sum(actors for (_, gap), (actors, _) in grid.items() if gap == 0)


def _build_rows(
    query: RetentionQuery, period: DateRange, value: Value, grid: Grid
) -> list[dict[str, Any]]:
    unit = query.interval.capitalize()
    rows = []
    for base, start in enumerate(period.interval_starts):
        row: dict[str, Any] = {
            "values": [
                _build_value(query, label, *grid.get((base, gap), (0, 0.0)))
                for gap, label in enumerate(query.column_labels)
            ],
            "label": f"{unit} {base}",
            # With the offset of the time zone, so that the first ten characters are the day.
            "date": start.isoformat().replace("+00:00", "Z"),
            "breakdown_value": _read_value(query, value),
        }
        rows.append(row)
    return rows


def _read_value(query: RetentionQuery, value: Value) -> Any:
    """Return the value of a row. Of one breakdown it is text, also if the query has a list."""
    if query.breakdown is None:
        return None
    found = query.breakdown.read_plain_value(value)
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def _build_value(query: RetentionQuery, label: str, actors: int, amount: float) -> dict[str, Any]:
    found: dict[str, Any] = {"count": actors, "label": label}
    if query.aggregation is not None:
        is_average = query.aggregation == "avg" and actors > 0
        found["aggregation_value"] = amount / actors if is_average else amount
    return found
