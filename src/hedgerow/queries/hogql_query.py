"""A query written in HogQL, with values for its placeholders and filters for `{filters}`."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from hedgerow.errors import Invalid
from hedgerow.events.answers import encoded
from hedgerow.events.compile import compiled
from hedgerow.events.dates import asked_moment
from hedgerow.events.expressions import all_of, compared, field, value
from hedgerow.events.filters import Filters
from hedgerow.events.reading import PLAIN, Reading
from hedgerow.events.store import Answer
from hedgerow.events.surroundings import Surroundings
from hedgerow.hogql.ast import Compare, Constant, Expr
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parse import parse_expr, parse_select
from hedgerow.hogql.printer import Limits, Printed
from hedgerow.hogql.text import to_hogql
from hedgerow.hogql.walk import replaced
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.model import Project
from hedgerow.projects.text import check_storable
from hedgerow.queries.fields import Sent
from hedgerow.queries.model import Ran, Timing

TIMEOUT_S = 10.0
MAX_LIST = 1_000

_LIMITS = replace(PLAIN, timeout_s=TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class HogQLQuery:
    query: str
    values: Mapping[str, Any]
    filters: Mapping[str, Any]
    explain: bool


def read_hogql_query(sent: Sent) -> HogQLQuery:
    query = sent.text("query")
    if not query.strip():
        raise Invalid("This field is required.", attr="query__query", code="required")
    values = sent.mapping("values")
    check_storable(values, "query__values")
    filters = sent.mapping("filters")
    check_storable(filters, "query__filters")
    return HogQLQuery(query=query, values=values, filters=filters, explain=sent.truth("explain"))


class HogQLQueries:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    async def run(self, project: Project, asked: HogQLQuery, now: datetime) -> Ran:
        marks = [time.monotonic()]
        around = await self._reading.surroundings(project, now, [asked.query, asked.filters])
        statement, hogql = await in_daemon_thread(partial(_compiled, asked, around))
        marks.append(time.monotonic())
        answer = await self._reading.run(around, statement, _LIMITS)
        marks.append(time.monotonic())
        plan = await self._plan(around, statement) if asked.explain else None
        more = statement.limit is not None and len(answer.rows) > statement.limit
        rows = answer.rows[: statement.limit] if more else answer.rows
        results = await in_daemon_thread(lambda: encoded(rows))
        marks.append(time.monotonic())
        steps = ("./read", "./run", "./write")
        return Ran(
            results=msgspec.Raw(results),
            columns=statement.columns,
            types=list(zip(statement.columns, answer.types, strict=True)),
            hogql=hogql,
            timings=[
                Timing(k=name, t=round(end - start, 6))
                for name, start, end in zip(steps, marks, marks[1:], strict=False)
            ],
            limit=statement.limit,
            offset=statement.offset,
            has_more=more,
            explain=plan,
            clickhouse=statement.sql if asked.explain else None,
        )

    async def _plan(self, around: Surroundings, statement: Printed) -> list[str]:
        explained = replace(statement, sql=f"EXPLAIN {statement.sql}")
        answer: Answer = await self._reading.run(around, explained, _LIMITS)
        return [str(line) for (line,) in answer.rows]


def _compiled(asked: HogQLQuery, around: Surroundings) -> tuple[Printed, str]:
    try:
        tree = parse_select(asked.query)
        known: dict[str, Expr] = {name: _constant(name, v) for name, v in asked.values.items()}
        known.setdefault("filters", _filters(asked.filters, around))
        try:
            tree = replaced(tree, known)
        except HogQLError as error:
            raise error.located(asked.query) from None
        return compiled(tree, around, Limits(ahead=1), text=asked.query), to_hogql(tree)
    except HogQLError as error:
        error.attr = "query"
        raise


def _constant(name: str, sent: Any) -> Expr:
    attr = f"query__values__{name}"
    if isinstance(sent, dict):
        raise Invalid("A value is a text, a number, true, false, null or a list.", attr=attr)
    if isinstance(sent, list):
        if len(sent) > MAX_LIST:
            raise Invalid(f"A list has {MAX_LIST} values at most.", attr=attr)
        if any(isinstance(each, dict | list) for each in sent):
            raise Invalid("A list has texts, numbers, true, false and null in it.", attr=attr)
    return Constant(value=sent)


def _filters(filters: Mapping[str, Any], around: Surroundings) -> Expr:
    """What stands for `{filters}`: true where there are none."""
    sent = Sent(filters, "query__filters")
    dates = Sent(sent.mapping("dateRange"), "query__filters__dateRange")
    found: list[Expr] = []
    for name, op in (("date_from", Compare.GT_EQ), ("date_to", Compare.LT)):
        text = dates.text(name)
        if text not in ("", "all"):
            place = f"query__filters__dateRange__{name}"
            moment = asked_moment(text, around.at.now, around.at.zone, place)
            found.append(compared(field("timestamp"), op, value(moment)))
    if properties := filters.get("properties"):
        read = Filters(around.at, around.cohorts, parse_expr)
        found.append(read.all(properties, "query__filters__properties"))
    return all_of(found) if found else Constant(value=True)
