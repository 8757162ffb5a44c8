"""HogQLQuery: a query in HogQL, with values for its placeholders and filters for `{filters}`."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from hedgerow.errors import Invalid
from hedgerow.events.filters.compiler import FilterCompiler
from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.events.query.encoded_rows import encode_rows
from hedgerow.events.query.executor import DEFAULT_LIMITS, QueryExecutor
from hedgerow.events.store import QueryResult
from hedgerow.hogql.ast import Compare, Constant, Expr
from hedgerow.hogql.builders import all_of, compare, constant, field
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.parse import parse_expr, parse_select
from hedgerow.hogql.printer.statement import PrintedQuery, RowLimits
from hedgerow.hogql.traversal import replace_placeholders
from hedgerow.hogql.unparse import to_hogql
from hedgerow.lib.shape import Shape
from hedgerow.projects.model import Project
from hedgerow.projects.validation import check_known_fields, check_storable, parse_date_parameter
from hedgerow.queries.fields import UNUSED_FIELDS, QueryFields
from hedgerow.queries.model import QueryOutput, Timing

TIMEOUT_S = 10.0
MAX_LIST_VALUES = 1_000

# HogQLFilters and DateRange in PostHog's frontend/src/queries/schema.
QUERY_FILTERS = Shape(
    "properties",
    "filterTestAccounts",
    dateRange=Shape("date_from", "date_to", unused=("explicitDate",)),
)
# HogQLQuery in the same place. `name` is for the logs of PostHog.
QUERY_FIELDS = Shape(
    *("kind", "query", "values", "filters", "explain"), unused=(*UNUSED_FIELDS, "variables", "name")
)
_QUERY_LIMITS = replace(DEFAULT_LIMITS, timeout_s=TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class HogQLQuery:
    query: str
    values: Mapping[str, Any]
    filters: Mapping[str, Any]
    explain: bool


def read_hogql_query(fields: QueryFields) -> HogQLQuery:
    fields.check_known(QUERY_FIELDS)
    fields.refuse_value(
        "variables", "Variables are not supported. Use `values`, and {name} in the query."
    )
    query = fields.text("query")
    if not query.strip():
        raise Invalid("This field is required.", attr="query__query", code="required")
    values = fields.mapping("values")
    check_storable(values, "query__values")
    filters = fields.mapping("filters")
    check_storable(filters, "query__filters")
    return HogQLQuery(
        query=query, values=values, filters=filters, explain=fields.boolean("explain")
    )


class HogQLQueryRunner:
    def __init__(self, executor: QueryExecutor) -> None:
        self._executor = executor

    async def run(self, project: Project, query: HogQLQuery, now: datetime) -> QueryOutput:
        marks = [time.monotonic()]
        context = await self._executor.build_context(
            project, now, [query.query, query.filters, *_list_accounts(query, project)]
        )
        statement, hogql = await self._executor.run_compilation(
            context, partial(_compile, query, context)
        )
        marks.append(time.monotonic())
        answer = await self._executor.run_shaped(
            context, statement, partial(encode_rows, limit=statement.limit), _QUERY_LIMITS
        )
        marks.append(time.monotonic())
        plan = await self._explain(context, statement) if query.explain else None
        return QueryOutput(
            results=msgspec.Raw(answer.rows),
            columns=statement.columns,
            types=list(zip(statement.columns, answer.types, strict=True)),
            hogql=hogql,
            timings=[
                Timing(k=name, t=round(end - start, 6))
                for name, start, end in zip(("./read", "./run"), marks, marks[1:], strict=False)
            ],
            limit=statement.limit,
            offset=statement.offset,
            has_more=answer.has_more,
            explain=plan,
            clickhouse=statement.sql if query.explain else None,
        )

    async def _explain(self, context: QueryContext, statement: PrintedQuery) -> list[str]:
        explained = replace(statement, sql=f"EXPLAIN {statement.sql}")
        answer: QueryResult = await self._executor.run(context, explained, _QUERY_LIMITS)
        return [str(line) for (line,) in answer.rows]


def _list_accounts(query: HogQLQuery, project: Project) -> Sequence[Any]:
    return project.test_account_filters if query.filters.get("filterTestAccounts") else ()


def _compile(query: HogQLQuery, context: QueryContext) -> tuple[PrintedQuery, str]:
    try:
        tree = parse_select(query.query)
        placeholders: dict[str, Expr] = {
            name: _parse_value(name, v) for name, v in query.values.items()
        }
        placeholders.setdefault("filters", _compile_filters(query.filters, context))
        try:
            tree = replace_placeholders(tree, placeholders)
        except HogQLError as error:
            raise error.with_position(query.query) from None
        return compile_query(tree, context, RowLimits(lookahead=1), text=query.query), to_hogql(
            tree
        )
    except HogQLError as error:
        error.attr = "query"
        raise


def _parse_value(name: str, fields: Any) -> Expr:
    attr = f"query__values__{name}"
    if isinstance(fields, dict):
        raise Invalid("Expected a string, a number, a boolean, null or a list.", attr=attr)
    if isinstance(fields, list):
        if len(fields) > MAX_LIST_VALUES:
            raise Invalid(f"Expected a list of at most {MAX_LIST_VALUES} values.", attr=attr)
        if any(isinstance(each, dict | list) for each in fields):
            raise Invalid("Expected a list of strings, numbers, booleans and nulls.", attr=attr)
    return Constant(value=fields)


def _compile_filters(filters: Mapping[str, Any], context: QueryContext) -> Expr:
    """Compile the filters for `{filters}`. True without any."""
    check_known_fields(filters, QUERY_FILTERS, "query__filters")
    fields = QueryFields(filters, "query__filters")
    dates = QueryFields(fields.mapping("dateRange"), "query__filters__dateRange")
    found: list[Expr] = []
    for name, op in (("date_from", Compare.GT_EQ), ("date_to", Compare.LT)):
        text = dates.text(name)
        if text not in ("", "all"):
            attr = f"query__filters__dateRange__{name}"
            moment = parse_date_parameter(text, context.time.now, context.time.zone, attr)
            found.append(compare(field("timestamp"), op, constant(moment)))
    if properties := filters.get("properties"):
        read = FilterCompiler(context.time, context.cohorts, parse_expr)
        found.append(read.compile(properties, "query__filters__properties"))
    if fields.boolean("filterTestAccounts"):
        read = FilterCompiler(context.time, context.cohorts, parse_expr)
        accounts = list(context.project.test_account_filters)
        found.append(read.compile(accounts, "test_account_filters"))
    return all_of(found) if found else Constant(value=True)
