"""A small world in the real engine: two projects whose rows mirror each other, so that a row of
the wrong one shows at once.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from clickhouse_connect.driver.client import Client

from hedgerow.hogql.parse import parse_select
from hedgerow.hogql.printer import Limits, Printed, print_select
from hedgerow.hogql.world import PropertyType, World
from hedgerow.storage import events_schema, mirror_schema
from hedgerow.storage.clickhouse import connect_server

MINE, OTHERS = 1, 2
NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
# Every text of the other project has this in it.
SECRET = "of-another-project"


def person(number: int) -> UUID:
    return UUID(int=number)


def event_id(number: int) -> UUID:
    return UUID(int=1_000 + number)


def world(**changes: Any) -> World:
    known: dict[str, Any] = {
        "project_id": MINE,
        "now": NOW,
        "property_types": {
            "event": {
                "price": PropertyType.NUMERIC,
                "paid": PropertyType.BOOLEAN,
                "due": PropertyType.DATETIME,
            },
            "person": {"age": PropertyType.NUMERIC},
        },
        "cohort": {
            5: parse_select("select person_id from cohort_people where cohort_id = 5"),
            "payers": parse_select("select person_id from events where properties.paid"),
        }.get,
    }
    return World(**(known | changes))


class Engine:
    """The engine with the world in it."""

    def __init__(self, url: str) -> None:
        self._engine = connect_server(url, timeout_s=60)
        with self._engine.client() as client:
            for statement in (*events_schema.single_ddl(), *mirror_schema.single_ddl()):
                client.command(statement)
            for project in (MINE, OTHERS):
                _fill(client, project)

    def close(self) -> None:
        self._engine.close()

    def run(self, printed: Printed) -> list[tuple[Any, ...]]:
        return self.raw(printed.sql, printed.parameters)

    def raw(self, sql: str, parameters: dict[str, object] | None = None) -> list[tuple[Any, ...]]:
        with self._engine.client() as client:
            found = client.query(sql, parameters=parameters or {}).result_rows
        return [tuple(row) for row in found]

    def ask(self, text: str, limits: Limits | None = None, **changes: Any) -> list[tuple[Any, ...]]:
        """A query of my project, from text to rows."""
        query = parse_select(text)
        return self.run(print_select(query, world(**changes), limits, text))

    def value(self, expression: str, source: str = "", **changes: Any) -> Any:
        """The one value of an expression."""
        ((value,),) = self.ask(f"select {expression} {source}", **changes)
        return value


# Each event: distinct id, name, properties, the person stored with it.
_EVENTS: Sequence[tuple[str, str, dict[str, object], int]] = (
    ("ada", "$pageview", {"$browser": "Chrome", "price": 10, "paid": True, "$group_0": "acme"}, 1),
    ("ada", "$pageview", {"$browser": "Firefox", "price": "20.5", "paid": False}, 1),
    ("bob", "signed up", {"plan": "pro", "nested": {"a": {"b": "deep"}, "list": [1, "two"]}}, 2),
    ("bob", "paid", {"price": 5, "due": "2026-04-01T10:00:00Z", "quote": 'say "hi" \\ é'}, 2),
    # Carol's events were stored for person 3, who has become person 1 since.
    ("carol", "paid", {"price": None, "empty": "", "null": "null", "number": "7"}, 3),
    # Nobody is known behind this one.
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
    mark = "" if project == MINE else f" {SECRET}"
    rows = []
    for number, (distinct_id, event, properties, who) in enumerate(_EVENTS):
        shown = {name: f"{v}{mark}" if isinstance(v, str) else v for name, v in properties.items()}
        if mark:
            shown["mark"] = SECRET
        rows.append(
            [project, event_id(number + (project - 1) * 100), event + mark, distinct_id + mark,
             json.dumps(shown), f"button{mark}", NOW - timedelta(hours=number), NOW,
             person(who + (project - 1) * 100), NOW, json.dumps({"name": f"then{mark}"}), "full",
             False]
        )  # fmt: skip
    _insert(client, events_schema.TABLE, rows, column_names=events_schema.COLUMNS)
    base = (project - 1) * 100
    people = [
        (1, {"name": f"Ada{mark}", "age": 36}, True, 1, 0),
        (2, {"name": f"Bob{mark}", "age": 25}, False, 1, 0),
        (2, {"name": f"Bo{mark}", "age": 26}, True, 2, 0),
        (4, {"name": f"gone{mark}"}, True, 1, 0),
        (4, {"name": f"gone{mark}"}, True, 2, 1),
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
            [project, f"ada{mark}", person(base + 1), False, 1, 0],
            [project, f"bob{mark}", person(base + 2), False, 1, 0],
            [project, f"carol{mark}", person(base + 3), False, 1, 0],
            [project, f"carol{mark}", person(base + 1), True, 2, 0],
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
        [[project, 0, f"acme{mark}", NOW, json.dumps({"name": f"Acme{mark}"}), 1, 0]],
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
