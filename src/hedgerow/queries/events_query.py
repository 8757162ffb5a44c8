"""EventsQuery: the `select` and `where` parameters of the events listing, as JSON."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from hedgerow.errors import Invalid
from hedgerow.events.listing.query import DEFAULT_LIMIT, EventsQuery, parse_events_query
from hedgerow.events.listing.select_listing import SelectListing
from hedgerow.hogql.printer.statement import MAX_LIMIT
from hedgerow.hogql.unparse import to_hogql
from hedgerow.lib import jsonio
from hedgerow.lib.shape import Shape
from hedgerow.projects.model import Project
from hedgerow.queries.fields import UNUSED_FIELDS, QueryFields
from hedgerow.queries.model import QueryOutput, Timing

DEFAULT_AFTER = "-24h"
# The names of fields that differ from the parameter.
_FIELD_NAMES = {"person_id": "personId", "action_id": "actionId"}
# EventsQuery in PostHog's frontend/src/queries/schema.
QUERY_FIELDS = Shape(
    *("kind", "select", "where", "properties", "fixedProperties", "event", "personId"),
    "actionId",
    *("after", "before", "orderBy", "limit", "offset", "filterTestAccounts"),
    unused=(*UNUSED_FIELDS, "source"),
)


def read_events_query(fields: QueryFields, project: Project, now: datetime) -> EventsQuery:
    fields.check_known(QUERY_FIELDS)
    fields.refuse_value("source", "Events of an insight are not supported. Use `where`.")
    limit = fields.integer("limit")
    parameters = _build_parameters(fields, project)
    zone = ZoneInfo(project.timezone)
    try:
        query = parse_events_query(lambda name: parameters.get(name, ()), now, zone, has_cap=True)
    except Invalid as error:
        name = error.attr or ""
        attr = f"query__{_FIELD_NAMES.get(name, name)}"
        raise Invalid(error.detail, attr=attr, code=error.code) from None
    limit = min(DEFAULT_LIMIT if limit is None else limit, MAX_LIMIT)
    return replace(query, limit=limit, requires_action=True)


def _build_parameters(fields: QueryFields, project: Project) -> Mapping[str, Sequence[str]]:
    """Convert the fields to parameters of the events listing."""
    numbers = {name: fields.integer(name) for name in ("limit", "offset")}
    numbers["action_id"] = fields.integer("actionId")
    texts = {
        "after": fields.text("after") or DEFAULT_AFTER,
        "before": fields.text("before"),
        "event": fields.text("event"),
        "person_id": fields.text("personId"),
        "select": _encode_json(fields.text_list("select") or ["*"]),
        "where": _encode_json(fields.text_list("where")),
        "orderBy": _encode_json(fields.text_list("orderBy")),
        "properties": _encode_json(
            [
                *fields.list_field("properties"),
                *fields.list_field("fixedProperties"),
                *(project.test_account_filters if fields.boolean("filterTestAccounts") else ()),
            ]
        ),
        **{name: str(number) for name, number in numbers.items() if number is not None},
    }
    return {name: (text,) for name, text in texts.items() if text not in ("", "[]")}


def _encode_json(value: Any) -> str:
    return jsonio.encode(jsonio.replace_unstorable(value)).decode() if value else ""


class EventsQueryRunner:
    def __init__(self, listing: SelectListing) -> None:
        self._listing = listing

    async def run(self, project: Project, query: EventsQuery, now: datetime) -> QueryOutput:
        started = time.monotonic()
        table = await self._listing.fetch_table(project, query, now)
        return QueryOutput(
            results=msgspec.Raw(table.rows),
            columns=table.columns,
            types=table.types,
            hogql=to_hogql(table.query),
            timings=[Timing(k="./run", t=round(time.monotonic() - started, 6))],
            limit=query.limit,
            offset=query.offset,
            has_more=table.has_more,
        )
