"""Runs PathsQuery."""

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.events.query.executor import QueryExecutor
from hedgerow.hogql.printer.statement import PrintedQuery
from hedgerow.hogql.unparse import to_hogql
from hedgerow.insights.date_range import DateRange, Interval, parse_date_range
from hedgerow.insights.earliest import find_earliest
from hedgerow.insights.filters import list_documents
from hedgerow.insights.paths.query import PathsQuery, build_paths_query, parse_paths_query
from hedgerow.lib import jsonio
from hedgerow.projects.model import Project
from hedgerow.queries.fields import QueryFields
from hedgerow.queries.model import InsightOutput, Timing
from hedgerow.queries.queries import RunQuery

COLUMNS = ("source", "target", "value", "average_conversion_time")


class PathsQueryRunner:
    def __init__(self, executor: QueryExecutor) -> None:
        self._executor = executor

    def prepare(self, project: Project, fields: QueryFields, now: datetime) -> RunQuery:
        query = parse_paths_query(fields.all())
        return lambda: self.run(project, query, now)

    async def run(self, project: Project, query: PathsQuery, now: datetime) -> InsightOutput:
        started = time.monotonic()
        context = await self._executor.build_context(
            project, now, list_documents(query.sent, project)
        )
        earliest = await find_earliest(self._executor, context, *query.date_ranges)
        period = parse_date_range(query.date_range, Interval.DAY, context.time, earliest)
        statement, hogql = await self._executor.run_compilation(
            context, partial(_compile, query, context, period, earliest)
        )
        rows = (await self._executor.run(context, statement)).rows
        results = _keep_reachable([dict(zip(COLUMNS, row, strict=True)) for row in rows])
        return InsightOutput(
            results=msgspec.Raw(jsonio.encode(results)),
            hogql=hogql,
            timings=[Timing(k="./run", t=round(time.monotonic() - started, 6))],
            resolved_date_range=period.describe(),
        )


def _keep_reachable(edges: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop the edges that no shown path leads to: those before them are below a limit."""
    targets = defaultdict(list)
    for each in edges:
        targets[each["source"]].append(each["target"])
    pending = [source for source in targets if source.startswith("1_")]
    seen = set(pending)
    while pending:
        new = [each for each in targets[pending.pop()] if each in targets and each not in seen]
        seen.update(new)
        pending += new
    return [each for each in edges if each["source"] in seen]


def _compile(
    query: PathsQuery, context: QueryContext, period: DateRange, earliest: datetime | None
) -> tuple[PrintedQuery, str]:
    tree = build_paths_query(query, context, period, earliest)
    return compile_query(tree, context), to_hogql(tree)
