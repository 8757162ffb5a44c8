"""Sample rows in a real ClickHouse: two projects with equal rows, except that every text of the
other project contains SECRET.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from clickhouse_connect.driver.client import Client

from hedgerow.hogql.parser.parse import parse_expr, parse_select
from hedgerow.hogql.printer.context import FlagTable, PrintContext
from hedgerow.hogql.printer.statement import PrintedQuery, RowLimits, print_select
from hedgerow.storage.events import schema
from hedgerow.storage.events.clickhouse import connect_server
from hedgerow.storage.events.table_layout import prepare_tables

PROJECT, OTHER_PROJECT = 1, 2
NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
# Every text of the other project contains this.
SECRET = "of-another-project"


def person(number: int) -> UUID:
    return UUID(int=number)


def event_id(number: int) -> UUID:
    return UUID(int=1_000 + number)


def make_context(**changes: Any) -> PrintContext:
    defaults: dict[str, Any] = {
        "project_id": PROJECT,
        "now": NOW,
        "find_cohort": {
            5: parse_select("select person_id from cohort_people where cohort_id = 5"),
            "payers": parse_select("select person_id from events where properties.paid"),
        }.get,
        "find_flag": {"half": FlagTable(columns=(), default="false", values={})}.get,
        "find_action": {"Paid": parse_expr("event = 'paid' and properties.price > 1")}.get,
    }
    return PrintContext(**(defaults | changes))


class Engine:
    """ClickHouse with the sample rows."""

    def __init__(self, url: str) -> None:
        self._engine = connect_server(url, timeout_s=60)
        with self._engine.client() as client:
            prepare_tables(client)
            for project in (PROJECT, OTHER_PROJECT):
                _fill(client, project)

    def close(self) -> None:
        self._engine.close()

    def run(self, printed: PrintedQuery) -> list[tuple[Any, ...]]:
        return self.raw(printed.sql, printed.parameters)

    def raw(self, sql: str, parameters: dict[str, object] | None = None) -> list[tuple[Any, ...]]:
        with self._engine.client() as client:
            found = client.query(sql, parameters=parameters or {}).result_rows
        return [tuple(row) for row in found]

    def query(
        self, text: str, limits: RowLimits | None = None, **changes: Any
    ) -> list[tuple[Any, ...]]:
        """Run a query of the first project."""
        query = parse_select(text)
        return self.run(print_select(query, make_context(**changes), limits, text))

    def evaluate(self, expression: str, source: str = "", **changes: Any) -> Any:
        """Return the value of an expression."""
        ((value,),) = self.query(f"select {expression} {source}", **changes)
        return value


# Each event: distinct id, name, properties, the person stored with it.
_EVENTS: Sequence[tuple[str, str, dict[str, object], int]] = (
    ("ada", "$pageview", {"$browser": "Chrome", "price": 10, "paid": True, "$group_0": "acme"}, 1),
    ("ada", "$pageview", {"$browser": "Firefox", "price": "20.5", "paid": False}, 1),
    ("bob", "signed up", {"plan": "pro", "nested": {"a": {"b": "deep"}, "list": [1, "two"]}}, 2),
    ("bob", "paid", {"price": 5, "due": "2026-04-01T10:00:00Z", "quote": 'say "hi" \\ é'}, 2),
    # Carol's event was stored for person 3, which was later merged into person 1.
    ("carol", "paid", {"price": None, "empty": "", "null": "null", "number": "7"}, 3),
    # This event has no person.
    ("ghost", "$pageview", {"$browser": "Chrome"}, 9),
)


def _insert(
    client: Client, table: str, rows: Sequence[Sequence[object]], column_names: Sequence[str]
) -> None:
    block = "\n".join(json.dumps(row, default=_text) for row in rows)
    client.raw_insert(table, column_names, block, fmt="JSONCompactEachRow")


def _text(value: object) -> str:
    return value.strftime("%F %T.%f") if isinstance(value, datetime) else str(value)


def _fill(client: Client, project: int) -> None:
    suffix = "" if project == PROJECT else f" {SECRET}"
    rows = []
    for number, (distinct_id, event, properties, person_number) in enumerate(_EVENTS):
        stored = {
            name: f"{v}{suffix}" if isinstance(v, str) else v for name, v in properties.items()
        }
        if suffix:
            stored["mark"] = SECRET
        rows.append(
            [project, event_id(number + (project - 1) * 100), event + suffix, distinct_id + suffix,
             json.dumps(stored), f"button{suffix}", NOW - timedelta(hours=number), NOW,
             person(person_number + (project - 1) * 100), NOW,
             json.dumps({"name": f"then{suffix}"}), "full", False]
        )  # fmt: skip
    _insert(client, schema.TABLE, rows, column_names=schema.COLUMNS)
    base = (project - 1) * 100
    people = [
        (1, {"name": f"Ada{suffix}", "age": 36}, True, 1, 0),
        (2, {"name": f"Bob{suffix}", "age": 25}, False, 1, 0),
        (2, {"name": f"Bo{suffix}", "age": 26}, True, 2, 0),
        (4, {"name": f"gone{suffix}"}, True, 1, 0),
        (4, {"name": f"gone{suffix}"}, True, 2, 1),
    ]
    _insert(
        client,
        "persons",
        [
            [project, person(base + number), NOW, json.dumps(properties), *rest]
            for number, properties, *rest in people
        ],
        column_names=["project_id", "id", "created_at", "properties", "is_identified", "version",
                      "is_deleted"],
    )  # fmt: skip
    _insert(
        client,
        "person_distinct_ids",
        [
            [project, f"ada{suffix}", person(base + 1), False, 1, 0],
            [project, f"bob{suffix}", person(base + 2), False, 1, 0],
            [project, f"carol{suffix}", person(base + 3), False, 1, 0],
            [project, f"carol{suffix}", person(base + 1), True, 2, 0],
        ],
        column_names=[
            "project_id",
            "distinct_id",
            "person_id",
            "is_moved",
            "version",
            "is_deleted",
        ],
    )
    _insert(
        client,
        "groups",
        [[project, 0, f"acme{suffix}", NOW, json.dumps({"name": f"Acme{suffix}"}), 1, 0]],
        column_names=["project_id", "group_type_index", "group_key", "created_at", "properties",
                      "version", "is_deleted"],
    )  # fmt: skip
    _insert(
        client,
        "cohort_people",
        [[project, 5, person(base + 1), 1, 0], [project, 5, person(base + 2), 1, 0],
         [project, 5, person(base + 2), 2, 1]],
        column_names=["project_id", "cohort_id", "person_id", "version", "is_deleted"],
    )  # fmt: skip
