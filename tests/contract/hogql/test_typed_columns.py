"""Properties read from typed columns have the value that they have in the JSON text."""

import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client

from hedgerow.events.filters.compiler import FilterCompiler
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.hogql.ast import Join, Select, SelectQuery
from hedgerow.hogql.builders import field
from hedgerow.hogql.parser.parse import parse_expr, parse_select
from hedgerow.hogql.printer.statement import RowLimits, print_select
from hedgerow.storage.events import replica_schema, schema, typed_columns
from hedgerow.storage.events.clickhouse import connect_server
from tests.contract.hogql.engine import (
    NOW,
    OTHER_PROJECT,
    PROJECT,
    Engine,
    event_id,
    make_context,
    person,
)
from tests.support.clickhouse_http import ClickHouseTestServer

SEED = 20261116
EVENT_COUNT = 300
ALL_ROWS = RowLimits(default=None, maximum=None)

# Keys with a column and without, and keys that are hard to name.
KEYS = (
    "$browser", "$set", "title", "plan", "price", "a", "a.b", "a.b.c", "a b", "ключ", "^a",
    "a[]", "a.:Int64", "`q`", "'s'", 'say "hi"', "back\\slash", "a:b", "@x", "%2E", ".", "..", "a.",
    "null", "size", "0", "-1", "{}", "x" * 300, "tab\there", "nul\x00l", "😀", "Ａ", "a/b", "",
)  # fmt: skip
# JSON texts of values: of every type, and at the limits of their type.
VALUES = (
    "null", "true", "false", "0", "-0", "-0.0", "1", "-1", "7", "50.0", "0.1", "12.5", "1e5", "1E5",
    "1e22", "1e-7", "1.5e300", "999999999999999", "1000000000000000", "123456789012345678",
    "9007199254740993", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
    "18446744073709551615", "18446744073709551616", "123456789012345678901234567890",
    "-9223372036854775809", "123456789.123456789", '""', '" "', '"a"', '"A"', '"="', '"=a"', '"7"',
    '"7.0"', '"+7"', '" 7"', '"12.50"', '"1e5"', '"0x10"', '"nan"', '"inf"', '"-inf"', '"Infinity"',
    '"true"', '"TRUE"', '"false"', '"null"', '"2026-01-01"', '"2026-1-1"', '"20260101"',
    '"2026-01-01T10:00:00Z"', '"2026-01-01 10:00:00.123456"', '"2026-01-01T10:00:00+02:00"',
    '"Jan 1 2026"', '"sat, 03 Jan 2026 10:00:00 GMT"', '"10:00:00"', '"1767225600"',
    '"1/1/26 10:00"',
    '"é 😀"', '"line\\nbreak \\u0000 \\u0001 \\\\ \\" \\/"', '"%_like%"', '"{\\"a\\":1}"',
    '"[1,2]"',
    "[]", "{}", "[1,2]", '["a","b"]', '[1,"a",null,{"b":[]}]', '{"a":1}', '{"b":{"c":"deep"}}',
    '{"z":1,"a":50.0,"d":"2026-01-01"}', "[[[[]]]]", '[{"a":{"b":1}}]', "[1.0,1e400]",
    '"' + "long" * 5_000 + '"', "[" * 500 + "]" * 500,
)  # fmt: skip
# Not what Hedgerow stores, but what a table may contain.
ODD_TEXTS = (
    "", "{}", "[]", "null", "no JSON", '{"a":1}x', '{"a":NaN}', '{"plan":"\\ud800"}',
    '{ "plan" : "spaced" }',
    '{"a":1e999,"plan":"x"}', '{"a":{"b":1},"a.b":2}',
)  # fmt: skip
# Only what can be stored matters for a text with a repeated key.
REPEATED_KEYS = '{"a":1,"a":2,"plan":"x"}'
# They come first in their part, so the keys of all other events are in its shared data.
MANY_KEYS = json.dumps({f"key {number}": number for number in range(300)})
SEPARATE_FILES = "min_rows_for_wide_part = 0, min_bytes_for_wide_part = 0"
# A condition decides which events are read, so it is more than a value of each of them.
CONDITIONS = (
    "isNotNull({p})", "isNull({p})", "{p} = null", "{p} != null", "{p} != 'a'", "{p} > 5",
    "not {p}",
)  # fmt: skip
CONSTANTS = ("a", "7", "12.5", "true", "2026-01-01", "=a", "[1,2]", "{}", "", "1e5", "50", "é 😀")

EXPRESSIONS = (
    "{p}",
    "isNull({p})",
    "isNotNull({p})",
    "{p} = 7",
    "{p} > 5",
    "{p} != 12.5",
    "{p} between 1 and 50",
    "{p} = true",
    "{p} = false",
    "{p} = null",
    "{p} != null",
    "{p} in (7, 12.5)",
    "{p} in ('a', '7', null)",
    "{p} in (7, null)",
    "{p} not in ('a', 'true')",
    "{p} like '%a%'",
    "{p} ilike 'A%'",
    "{p} =~ '^[0-9]'",
    "toFloat({p})",
    "toInt({p})",
    "toBool({p})",
    "toString({p})",
    "toDateTime({p})",
    "_toNumber({p})",
    "{p} + 1",
    "abs({p})",
    "length({p})",
    "lower({p})",
    "{p} > now()",
    "if({p}, 1, 2)",
    "not {p}",
    "coalesce({p}, 'none')",
    "{p} = properties.plan",
    "concat({p}, '!')",
    "{p} > 'a'",
    "{p} = toDate('2026-01-01')",
    "JSONExtractString(properties, 'plan')",
    "case {p} when 'a' then 1 else 2 end",
    "{p}.b",
    "{p}.b.c",
    "{p}[1]",
    *(f"{{p}} = '{each}'" for each in CONSTANTS),
    *(f"{{p}} != '{each}'" for each in CONSTANTS),
)
GROUPED = (
    "select {p}, count(), sum({p}), countIf({p} > 5), max({p} = 'a') from events group by {p}",
    "select {p} as p, count() from events group by p having p != 'a' order by p",
    "select {p}, lower({p}), count() from events group by 1, 2 limit 1 by {p}",
    "select distinct {p}, {p} > 5 from events",
    "select {p} > 5, isNull({p}), any({p}) from events group by {p} having {p} > 1 or isNull({p})",
    "select count() from events where {p} > 5 or {p} = 'a' or {p}",
    "select count() from events where {p}",
    "select {p}, person.properties.name from events where {p} != 1 order by {p}, uuid limit 50",
    "select {p} + 1, person.properties.name from events order by {p} > 5, uuid limit 50",
    "select count(), avg(e.x) from (select {p} as x from events) as e",
    "select a.{p}, b.{p} from events a join events b on a.uuid = b.uuid",
    "select uuid from events order by toFloat({p}), uuid limit 20",
)
FILTERS: Sequence[dict[str, Any]] = (
    {"operator": "exact", "value": ["a", "7", 12.5, True]},
    {"operator": "exact", "value": 50.0},
    {"operator": "is_not", "value": "a"},
    {"operator": "is_set"},
    {"operator": "is_not_set"},
    {"operator": "gt", "value": 7},
    {"operator": "lte", "value": "12.5"},
    {"operator": "icontains", "value": "A"},
    {"operator": "regex", "value": "^[0-9]"},
    {"operator": "not_regex", "value": "a"},
    {"operator": "between", "value": [1, 50]},
    {"operator": "not_between", "value": [1, 50]},
    {"operator": "is_date_before", "value": "2026-02-01"},
    {"operator": "is_date_exact", "value": "2026-01-01"},
    {"operator": "starts_with", "value": "2026"},
    {"operator": "semver_gt", "value": "1.0.0"},
)


class TypedEngine(Engine):
    """Random events in four parts: from before the typed columns, with them in one file, with a
    file for each subcolumn, and with more keys than can have a subcolumn."""

    def __init__(self, url: str) -> None:
        self._engine = connect_server(url, timeout_s=60)
        chance = random.Random(SEED)
        texts = [_make_text(chance) for _ in range(EVENT_COUNT)] + list(ODD_TEXTS)
        texts.append(REPEATED_KEYS)
        with self._engine.client() as client:
            for statement in (*schema.build_server_ddl(), *replica_schema.build_server_ddl()):
                client.command(statement)
            client.command(f"SYSTEM STOP MERGES {schema.TABLE}")
            self._insert(client, 0, texts[::4])
            client.command(typed_columns.build_add_ddl(schema.TABLE))
            self._insert(client, 1_000, texts[1::4])
            client.command(f"ALTER TABLE {schema.TABLE} MODIFY SETTING {SEPARATE_FILES}")
            self._insert(client, 2_000, texts[2::4])
            self._insert(client, 3_000, [MANY_KEYS, *texts[3::4]])

    def merge(self) -> None:
        """Merge all parts into one."""
        with self._engine.client() as client:
            client.command(f"SYSTEM START MERGES {schema.TABLE}")
            client.command(f"OPTIMIZE TABLE {schema.TABLE} FINAL")

    def _insert(self, client: Client, start: int, texts: Sequence[str]) -> None:
        rows = [_make_row(number, text) for number, text in enumerate(texts, start)]
        block = "\n".join(json.dumps(row, default=_format) for row in rows)
        client.raw_insert(schema.TABLE, schema.COLUMNS, block.encode(), fmt="JSONCompactEachRow")


def _make_row(number: int, text: str) -> list[Any]:
    project = OTHER_PROJECT if text == REPEATED_KEYS else PROJECT
    times, id = (NOW, NOW), person(1)
    return [project, event_id(number), "e", "ada", text, "", *times, id, NOW, text, "full", False]


def _make_text(chance: random.Random) -> str:
    keys = chance.sample(KEYS, chance.randrange(1, 12))
    pairs = [f"{json.dumps(key, ensure_ascii=False)}:{chance.choice(VALUES)}" for key in keys]
    return "{" + ",".join(pairs) + "}"


def _format(value: Any) -> str:
    return value.strftime("%F %T.%f") if hasattr(value, "strftime") else str(value)


def _as_exact(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value


@pytest.fixture(scope="module")
def typed(clickhouse: ClickHouseTestServer) -> Iterator[TypedEngine]:
    opened = TypedEngine(clickhouse.create_database())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def merged(clickhouse: ClickHouseTestServer) -> Iterator[TypedEngine]:
    opened = TypedEngine(clickhouse.create_database())
    opened.merge()
    yield opened
    opened.close()


def quote_key(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
    return f"['{escaped}']"


def compare_forms(typed: TypedEngine, query: Select) -> None:
    """Run a query with typed columns and without: both have the same result."""
    found = []
    for reads_typed in (True, False):
        context = make_context(reads_typed_columns=reads_typed)
        printed = print_select(query, context, ALL_ROWS)
        assert reads_typed or "properties_" not in printed.sql
        found.append(sorted(typed.run(printed), key=repr))
    for new, old in zip(*found, strict=True):
        pairs = enumerate(zip(map(_as_exact, new), map(_as_exact, old), strict=True))
        differences = [number for number, (one, other) in pairs if one != other]
        assert not differences, (differences, new, old, query)


@pytest.mark.parametrize("owner", ["properties", "poe.properties"])
def test_values_and_conversions_are_the_same(typed: TypedEngine, owner: str) -> None:
    for key in KEYS if owner == "properties" else KEYS[:8]:
        place = f"{owner}{quote_key(key)}"
        columns = [each.replace("{p}", place) for each in EXPRESSIONS]
        compare_forms(typed, parse_select(f"select uuid, {', '.join(columns)} from events"))


@pytest.mark.parametrize("key", ["$browser", "a.b", "^a"])
def test_groups_joins_and_pages_are_the_same(typed: TypedEngine, key: str) -> None:
    for query in GROUPED:
        compare_forms(typed, parse_select(query.replace("{p}", f"properties{quote_key(key)}")))


def test_filters_match_the_same_events(typed: TypedEngine) -> None:
    for key in KEYS[:10]:
        compiler = FilterCompiler(QueryTime(now=NOW, zone=UTC), {}, parse_expr)
        conditions = [compiler.compile({"key": key, **filter}) for filter in FILTERS]
        columns = [field("uuid"), *conditions]
        compare_forms(typed, SelectQuery(select=columns, source=Join(table=field("events"))))


@pytest.mark.parametrize("key", ["plan", "a.b", "key 7", "never"])
def test_events_of_merged_parts_are_the_same(merged: TypedEngine, key: str) -> None:
    """No event has the last key. In a merged part, the engine takes the subcolumn of its nulls for
    zeros: no event would lack it."""
    place = f"properties{quote_key(key)}"
    for condition in CONDITIONS:
        query = f"select {place}, count() from events where {condition} group by 1"
        compare_forms(merged, parse_select(query.replace("{p}", place)))
