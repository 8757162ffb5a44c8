"""Runs FunnelsQuery."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from hedgerow.errors import Invalid
from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.events.store import QueryResult
from hedgerow.hogql.ast import Select
from hedgerow.hogql.builders import all_of
from hedgerow.hogql.printer.statement import PrintedQuery
from hedgerow.hogql.unparse import to_hogql
from hedgerow.insights.breakdowns import PLAIN_OTHER_LABEL, Breakdown
from hedgerow.insights.date_range import DateRange, parse_date_range
from hedgerow.insights.earliest import find_earliest
from hedgerow.insights.filters import (
    build_query_filters,
    list_cohorts,
    list_documents,
    match_cohort,
)
from hedgerow.insights.funnels.query import FunnelsQuery, FunnelView, parse_funnels_query
from hedgerow.insights.funnels.results import (
    RatesRow,
    StepsRow,
    build_rates,
    build_steps,
    build_times,
    choose_bins,
)
from hedgerow.insights.funnels.sql import (
    Funnel,
    build_bins_query,
    build_rates_query,
    build_steps_query,
    build_times_query,
)
from hedgerow.insights.series import name_action
from hedgerow.lib import jsonio
from hedgerow.persons.model import CohortId
from hedgerow.projects.model import Project
from hedgerow.queries.fields import QueryFields
from hedgerow.queries.model import InsightOutput, Timing
from hedgerow.queries.queries import RunQuery

BuildFunnelQuery = Callable[[Funnel, QueryContext], Select]


class FunnelsQueryRunner:
    def __init__(self, executor: QueryExecutor) -> None:
        self._executor = executor

    def prepare(self, project: Project, fields: QueryFields, now: datetime) -> RunQuery:
        query = parse_funnels_query(fields.all())
        return lambda: self.run(project, query, now)

    async def run(self, project: Project, query: FunnelsQuery, now: datetime) -> InsightOutput:
        started = time.monotonic()
        context = await self._executor.build_context(
            project, now, list_documents(query.sent, project)
        )
        earliest = await find_earliest(self._executor, context, query.date_range)
        run = _FunnelRun(self._executor, query, context, earliest)
        results, has_more = await run.fetch()
        return InsightOutput(
            results=msgspec.Raw(jsonio.encode(results)),
            hogql=" UNION ALL ".join(run.hogql),
            timings=[Timing(k="./run", t=round(time.monotonic() - started, 6))],
            has_more=has_more,
            resolved_date_range=run.period.describe(),
        )


class _FunnelRun:
    """One run of a funnel. `hogql` are its queries."""

    def __init__(
        self,
        executor: QueryExecutor,
        query: FunnelsQuery,
        context: QueryContext,
        earliest: datetime | None,
    ) -> None:
        self._executor = executor
        self._query = replace(query, steps=[name_action(each, context) for each in query.steps])
        self._context = context
        self.period = parse_date_range(query.date_range, query.interval, context.time, earliest)
        self.hogql: list[str] = []

    async def fetch(self) -> tuple[Any, bool]:
        match self._query.view:
            case FunnelView.TIME_TO_CONVERT:
                return await self._fetch_times(), False
            case FunnelView.TRENDS:
                return await self._fetch_rates(), False
        rows, has_more = await self._fetch_steps()
        return build_steps(self._query, rows), has_more

    async def _fetch_steps(self) -> tuple[list[StepsRow], bool]:
        breakdown = self._query.breakdown
        if breakdown is not None and breakdown.cohorts:
            cohorts = list_cohorts(breakdown, self._context)
            found = [
                (await self._read_steps(build_steps_query, cohort=id), id) for id, _ in cohorts
            ]
            return [_name_row(rows, id or 0) for rows, id in found if rows], False
        rows = await self._read_steps(build_steps_query)
        if breakdown is None or len(rows) <= breakdown.limit:
            return [_read_value(row, breakdown) for row in rows], False
        shown = rows[: breakdown.limit]
        found_rows = [_read_value(row, breakdown) for row in shown]
        if not breakdown.hides_other:
            rest = await self._read_steps(build_steps_query, excluded=[row.value for row in shown])
            found_rows += [
                replace(row, value=[PLAIN_OTHER_LABEL] * len(breakdown.properties)) for row in rest
            ]
        return found_rows, True

    async def _read_steps(
        self,
        build_query: BuildFunnelQuery,
        cohort: CohortId | None = None,
        excluded: Sequence[Sequence[str]] = (),
    ) -> list[StepsRow]:
        result = await self._run(build_query, cohort, excluded)
        return [
            StepsRow(value=value, counts=counts, means=means, medians=medians)
            for value, counts, means, medians in result.rows
        ]

    async def _fetch_times(self) -> Any:
        if self._query.breakdown is not None:
            detail = "Time to convert has no breakdown."
            raise Invalid(detail, attr="query__breakdownFilter")
        ((count, shortest, longest, average),) = (await self._run(build_times_query)).rows
        if not count:
            return {"bins": [], "average_conversion_time": None}
        bins = choose_bins(self._query, count, shortest, longest)
        build_query = partial(build_bins_query, first=bins.first, width=bins.width)
        result = await self._run(build_query)
        counts = {row[0]: row[1] for row in result.rows}
        return build_times(bins, counts, average)

    async def _fetch_rates(self) -> Any:
        found: list[RatesRow] = []
        for cohort, name in list_cohorts(self._query.breakdown, self._context):
            result = await self._run(build_rates_query, cohort)
            found += [self._read_rates(row, name) for row in result.rows]
        return build_rates(self._query, self.period, found)

    def _read_rates(self, row: Sequence[Any], cohort_name: str | None) -> RatesRow:
        """Read a row of rates. As in PostHog, the value of a cohort is its name."""
        value, slots, entered, converted, _ = row
        breakdown = self._query.breakdown
        if cohort_name is None and breakdown is not None:
            value = _wrap(breakdown.read_plain_value(value))
        return RatesRow(
            value=cohort_name or value,
            entered=dict(zip(slots, entered, strict=True)),
            converted=dict(zip(slots, converted, strict=True)),
        )

    async def _run(
        self,
        build_query: BuildFunnelQuery,
        cohort: CohortId | None = None,
        excluded: Sequence[Sequence[str]] = (),
    ) -> QueryResult:
        work = partial(
            _compile, self._query, self._context, self.period, build_query, cohort, excluded
        )
        statement, hogql = await self._executor.run_compilation(self._context, work)
        self.hogql.append(hogql)
        return await self._executor.run(self._context, statement)


def _compile(
    query: FunnelsQuery,
    context: QueryContext,
    period: DateRange,
    build_query: BuildFunnelQuery,
    cohort: CohortId | None,
    excluded: Sequence[Sequence[str]],
) -> tuple[PrintedQuery, str]:
    filters = [build_query_filters(query.sent, context), match_cohort(cohort, context)]
    funnel = Funnel(query=query, period=period, filters=all_of(filters), excluded=excluded)
    tree = build_query(funnel, context)
    return compile_query(tree, context), to_hogql(tree)


def _wrap(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _read_value(row: StepsRow, breakdown: Breakdown | None) -> StepsRow:
    return replace(row, value=breakdown.read_plain_value(row.value) if breakdown else None)


def _name_row(rows: Sequence[StepsRow], cohort: int) -> StepsRow:
    return replace(rows[0], value=cohort)
