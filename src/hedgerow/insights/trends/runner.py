"""Runs TrendsQuery."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.events.store import QueryResult
from hedgerow.hogql.printer.statement import PrintedQuery
from hedgerow.hogql.unparse import to_hogql
from hedgerow.insights.earliest import find_earliest
from hedgerow.insights.filters import list_documents
from hedgerow.insights.trends import heatmap
from hedgerow.insights.trends.aggregation import SeriesQuery, build_series_query
from hedgerow.insights.trends.query import (
    PlannedSeries,
    TrendsQuery,
    parse_trends_query,
    plan_periods,
    plan_series,
)
from hedgerow.insights.trends.results import SeriesRow, build_results, order_rows
from hedgerow.lib import jsonio
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.model import Project
from hedgerow.queries.fields import QueryFields
from hedgerow.queries.model import InsightOutput, Timing
from hedgerow.queries.queries import RunQuery

Compiled = tuple[PlannedSeries, PrintedQuery, str]


class TrendsQueryRunner:
    def __init__(self, executor: QueryExecutor) -> None:
        self._executor = executor

    def prepare(self, project: Project, fields: QueryFields, now: datetime) -> RunQuery:
        query = parse_trends_query(fields.all())
        return lambda: self.run(project, query, now)

    async def run(self, project: Project, query: TrendsQuery, now: datetime) -> InsightOutput:
        started = time.monotonic()
        context = await self._executor.build_context(
            project, now, list_documents(query.sent, project)
        )
        earliest = await find_earliest(self._executor, context, query.date_range)
        compiled = await self._executor.run_compilation(
            context, partial(_compile, query.sent, context, earliest)
        )
        has_more = False
        answered: list[tuple[PlannedSeries, Sequence[SeriesRow]]] = []
        for planned, statement, _ in compiled:
            rows, is_cut = await self._fetch(context, planned, statement)
            answered.append((planned, rows))
            has_more |= is_cut
        results = await run_in_thread(lambda: build_results(query, answered))
        if query.display == heatmap.DISPLAY and not query.formulas and query.breakdown is None:
            for result, (planned, _) in zip(results, answered, strict=True):
                await self._add_heatmap(context, planned, result)
        encoded = await run_in_thread(lambda: jsonio.encode(results))
        return InsightOutput(
            results=msgspec.Raw(encoded),
            hogql=" UNION ALL ".join(hogql for _, _, hogql in compiled),
            timings=[Timing(k="./run", t=round(time.monotonic() - started, 6))],
            has_more=has_more,
            resolved_date_range=compiled[0][0].query.period.describe(),
        )

    async def _add_heatmap(
        self, context: QueryContext, planned: PlannedSeries, result: dict[str, Any]
    ) -> None:
        if planned.query.series.math in heatmap.MATH:
            build_query = partial(heatmap.build_heatmap_query, planned.query, context)
            found = await self._executor.execute(context, build_query)
            result["calendar_heatmap_data"] = heatmap.describe_heatmap(found.rows)

    async def _fetch(
        self, context: QueryContext, planned: PlannedSeries, statement: PrintedQuery
    ) -> tuple[Sequence[SeriesRow], bool]:
        """Return a row for each value of the breakdown, and whether there are more values."""
        result = await self._executor.run(context, statement)
        breakdown = planned.query.breakdown
        if breakdown is None or not breakdown.properties:
            return [SeriesRow(value=None, amounts=_read_amounts(result))], False
        shown = result.rows[: breakdown.limit]
        rows = [
            SeriesRow(value=breakdown.read_value(value), amounts=dict(zip(*data, strict=True)))
            for value, *data, _ in shown
        ]
        is_cut = len(result.rows) > breakdown.limit
        if is_cut and not breakdown.hides_other:
            other = replace(planned.query, excluded=[row[0] for row in shown])
            statement, _ = await self._executor.run_compilation(
                context, partial(_compile_one, other, context)
            )
            amounts = _read_amounts(await self._executor.run(context, statement))
            rows.append(SeriesRow(value=breakdown.other, amounts=amounts))
        return order_rows(rows), is_cut


def _compile(
    sent: Mapping[str, Any], context: QueryContext, earliest: datetime | None
) -> list[Compiled]:
    query = parse_trends_query(sent)
    periods = plan_periods(query, context, earliest)
    return [
        (planned, *_compile_one(planned.query, context))
        for planned in plan_series(query, context, periods)
    ]


def _compile_one(query: SeriesQuery, context: QueryContext) -> tuple[PrintedQuery, str]:
    tree = build_series_query(query, context)
    return compile_query(tree, context), to_hogql(tree)


def _read_amounts(result: QueryResult) -> dict[int, int | float]:
    """Read the amounts of a result without a breakdown: one row, or none without events."""
    if not result.rows:
        return {}
    _, slots, amounts, _ = result.rows[0]
    return dict(zip(slots, amounts, strict=True))
