"""The results of queries in ClickHouse."""

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from hedgerow.hogql.ast import (
    Alias,
    Compare,
    CompareOperation,
    Constant,
    Field,
    FunctionCall,
    Join,
    SelectQuery,
)
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.parse import parse_expr, parse_select
from hedgerow.hogql.printer.statement import RowLimits, print_select
from hedgerow.hogql.traversal import has_aggregate, replace_placeholders
from tests.contract.hogql.engine import NOW, Engine, event_id, make_context, person

COUNTS = [
    # Properties: text, types, nesting.
    ("properties.$browser = 'Chrome'", 2),
    ("properties['$browser'] = 'Chrome'", 2),
    ("properties.$browser != 'Chrome'", 4),
    ("properties.$browser = null", 3),
    ("properties.$browser is not null", 3),
    ("properties.$browser in ('Chrome', 'x')", 2),
    ("properties.$browser in ('Chrome', null)", 5),
    ("properties.$browser not in ('Chrome', 'x')", 4),
    ("properties.$browser like 'Fire%'", 1),
    ("properties.$browser ilike 'fire%'", 1),
    ("properties.$browser not like 'Fire%'", 5),
    ("properties.$browser =~ '^C'", 2),
    ("properties.$browser =~* '^c'", 2),
    ("properties.$browser !~ '^C'", 4),
    ("properties.$browser !~* '^c'", 4),
    ("properties.$browser < 'D'", 2),
    ("not (properties.$browser < 'D')", 4),
    ("properties.price > 6", 2),
    ("properties.price between 5 and 10", 2),
    ("properties.price not between 5 and 10", 4),
    ("properties.price = '5'", 1),
    ("properties.price in (5, 10)", 2),
    ("properties.price in ('5', 'x')", 1),
    ("properties.price is null", 3),
    ("properties.paid", 1),
    ("properties.paid = true", 1),
    ("properties.paid = 'true'", 1),
    ("properties.paid in (true, false)", 2),
    ("properties.due > '2026-03-31'", 1),
    ("properties.due > now()", 1),
    ("properties.number = 7", 1),
    ("properties.number = '7'", 1),
    ("properties.number in (7, 8)", 1),
    ("properties.number in (7, 'x')", 1),
    ("properties.number > 6.5 and properties.number < 7.5", 1),
    ("properties.empty = ''", 1),
    ("properties.empty is null", 5),
    ("properties.null = 'null'", 1),
    ("properties.quote = 'say \"hi\" \\\\ é'", 1),
    ("properties.nested.a.b = 'deep'", 1),
    ("properties['nested']['a'].b = 'deep'", 1),
    ("properties.nested['list'][2] = 'two'", 1),
    ("properties.missing = properties.absent", 6),
    ("properties.missing != properties.absent", 0),
    ("properties[concat('$', 'browser')] = 'Chrome'", 2),
    # Columns.
    ("event = 'paid'", 2),
    ("event in ['paid', 'signed up']", 3),
    ("event in [lower('PAID')]", 2),
    ("distinct_id = 5", 0),
    ("distinct_id in (5, 'ada')", 2),
    (f"uuid = '{event_id(0)}'", 1),
    ("uuid = 'no uuid'", 0),
    ("uuid != 'no uuid'", 6),
    (f"uuid in ('{event_id(0)}', 'no uuid')", 1),
    ("uuid not in ('no uuid')", 6),
    ("timestamp > '2026-03-29 10:30:00'", 2),
    ("timestamp > '2026-03-29T10:30:00Z'", 2),
    ("timestamp > '29 Mar 2026 10:30:00'", 2),
    ("timestamp > 'no time'", 0),
    ("timestamp between '2026-03-29T10:00:00Z' and '2026-03-29T12:00:00Z'", 3),
    ("timestamp in ('2026-03-29T10:00:00Z', '2026-03-29T12:00:00Z')", 2),
    ("toDate(timestamp) = '2026-03-29'", 6),
    ("timestamp >= now() - interval 2 hour", 3),
    ("`$group_0` = 'acme'", 1),
    # Persons.
    (f"person_id = '{person(1)}'", 3),
    (f"person_id in ('{person(1)}')", 3),
    (f"pdi.person_id = '{person(1)}'", 3),
    (f"poe.id = '{person(1)}'", 2),
    ("person.properties.name = 'Ada'", 3),
    ("person.properties.name is null", 1),
    ("person.properties.age > 30", 3),
    ("person.properties['age'] > 30", 3),
    ("person.properties.name != 'Ada'", 3),
    ("person.properties.name is not null", 5),
    ("person.properties.name = null", 1),
    ("person.properties.name in ('Ada', 'x')", 3),
    ("person.properties.name not in ('Ada', 'x')", 3),
    ("person.properties.name in ('Ada', null)", 4),
    ("person.properties.name like 'A%'", 3),
    ("person.properties.name not ilike 'a%'", 3),
    ("person.properties.name =~ '^B'", 2),
    ("person.properties.name !~* '^b'", 4),
    ("not (person.properties.name = 'Ada')", 3),
    ("person.properties.name = 'Ada' or event = 'signed up'", 4),
    ("person.properties.name = poe.properties.name", 0),
    ("person.properties.age < null", 0),
    ("person.created_at > '2026-01-01'", 5),
    ("person.created_at = null", 1),
    ("person.is_identified = true", 5),
    ("pdi.person.properties.name = 'Ada'", 3),
    ("'Ada' = person.properties.name", 3),
    ("person.is_identified", 5),
    ("poe.properties.name = 'then'", 6),
    ("group_0.properties.name = 'Acme'", 1),
    ("goe_0.properties.name != 'Acme'", 5),
    ("person_id in cohort 5", 3),
    ("person_id not in cohort 5", 3),
    ("person_id in cohort 'payers'", 3),
    ("distinct_id in (select distinct_id from person_distinct_ids)", 5),
    ("person.properties.name in (select properties.name from persons)", 5),
    ("uuid = 1", 0),
    ("uuid != true", 6),
    # Functions and operators with NULL.
    ("(properties.plan ?? 'none') = 'none'", 5),
    ("if(properties.paid, 1, 0) = 1", 1),
    ("equals(properties.plan, 'pro')", 1),
    ("properties.plan is distinct from 'pro'", 5),
    ("(case properties.plan when 'pro' then 1 else 0 end) = 1", 1),
    ("properties.number + 1 = 8", 1),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "count"), COUNTS)
def test_conditions_select_the_expected_events(engine: Engine, condition: str, count: int) -> None:
    assert engine.evaluate("count()", f"from events where {condition}") == count


# Arrays extracted from a property that only one event has.
ARRAYS = [
    ("JSONExtractArrayRaw(properties.nested.list)", ["1", '"two"']),
    ("JSONExtractArrayRaw(properties.nested, 'list')", ["1", '"two"']),
    ("JSONExtract(properties.nested.list, 'Array(String)')", ["1", "two"]),
    ("JSONExtractKeys(properties.nested)", ["a", "list"]),
    ("JSONExtractKeysAndValuesRaw(properties.nested.a)", [("b", '"deep"')]),
    ("splitByChar('r', properties.plan)", ["p", "o"]),
    ("splitByString('r', properties.plan)", ["p", "o"]),
    ("splitByRegexp('r', properties.plan)", ["p", "o"]),
    ("extractAll(properties.plan, '[po]')", ["p", "o"]),
    ("extractGroups(properties.plan, '(p)(r)')", ["p", "r"]),
    ("extractURLParameters(properties.plan)", []),
    ("URLHierarchy(properties.plan)", ["pro"]),
    ("alphaTokens(properties.plan)", ["pro"]),
    ("ngrams(properties.plan, 2)", ["pr", "ro"]),
    ("multiSearchAllPositions(properties.plan, ['r'])", [2]),
]


@pytest.mark.parametrize(("expression", "value"), ARRAYS)
def test_arrays_are_extracted_from_properties(
    engine: Engine, expression: str, value: list[Any]
) -> None:
    assert engine.evaluate(expression, "from events where event = 'signed up'") == value
    assert len(engine.query(f"select {expression} from events")) == 6


ONES = [
    ("1 + 2 * 3", 7),
    ("'a' || 'b' || 'c'", "abc"),
    ("[1, 2][2]", 2),
    ("(1, 'a').2", "a"),
    ("1 = 1 ? 'yes' : 'no'", "yes"),
    ("null ?? 'x'", "x"),
    ("f'a{1 + 1}b'", "a2b"),
    ("case when false then 1 end", None),
    ("toInt('5')", 5),
    ("toInt('x')", None),
    ("toInt('')", None),
    ("toFloat('1.5')", 1.5),
    ("toFloat('x')", None),
    ("'7'::int + 1", 8),
    ("cast('7' as float)", 7.0),
    ("toBool('true')", True),
    ("toBool('maybe')", None),
    ("toUUID('x')", None),
    ("toUUID('00000000-0000-0000-0000-000000000001')", UUID(int=1)),
    ("toDate('2020-01-02')", date(2020, 1, 2)),
    ("toDate('x')", None),
    ("toDate('2020-01-02T23:30:00Z')", date(2020, 1, 2)),
    ("toDateTime('x')", None),
    ("toDateTime('2020-01-02 03:04:05')", datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)),
    ("toDateTime(0)", datetime(1970, 1, 1, tzinfo=UTC)),
    ("now()", NOW),
    ("today()", date(2026, 3, 29)),
    ("yesterday()", date(2026, 3, 28)),
    ("dateDiff('day', yesterday(), today())", 1),
    ("dateAdd('day', 1, '2020-01-01')", datetime(2020, 1, 2, tzinfo=UTC)),
    ("dateSub(now(), interval 1 day)", datetime(2026, 3, 28, 12, tzinfo=UTC)),
    ("arrayMap(x -> x * 2, [1, 2])", [2, 4]),
    ("arrayFilter((x, y) -> y > 1, ['a', 'b'], [1, 2])", ["b"]),
    ("arrayMap(x -> arrayMap(x -> x + 1, [x]), [1])", [[2]]),
    ("(select count() from events)", 6),
    ("exists(select 1 from events where event = 'none')", 0),
    ("'a' in ('a', 'b')", 1),
    ("2 not in (1, 3)", 1),
    ("has([1, 2], 2)", 1),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    ("123456789012345678901234567890", 123456789012345678901234567890),
    ("1e400", float("inf")),
    ("'tab\\tnew\\nline \\\\ quote \\' {p0:String}'", "tab\tnew\nline \\ quote ' {p0:String}"),
    ("isNull(null)", 1),
    ("1 != null", 1),
    ("true and not false", True),
    ("timezone()", "UTC"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "value"), ONES)
def test_expressions_return_the_expected_value(engine: Engine, expression: str, value: Any) -> None:
    assert engine.evaluate(expression) == value


QUERIES: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("select event, count() as c from events group by event order by c desc, event",
     [("$pageview", 3), ("paid", 2), ("signed up", 1)]),
    ("select event, count() from events group by 1 order by 2 desc limit 1", [("$pageview", 3)]),
    ("select properties.$browser as b, count() from events group by b order by b nulls first",
     [(None, 3), ("Chrome", 2), ("Firefox", 1)]),
    ("select event as e, e || '!' as f from events where f = 'paid!' order by timestamp limit 1",
     [("paid", "paid!")]),
    ("select event from events group by event having count() > 1 order by event desc",
     [("paid",), ("$pageview",)]),
    ("select distinct event from events order by event offset 1", [("paid",), ("signed up",)]),
    ("select event from events order by timestamp limit 1 by event",
     [("$pageview",), ("paid",), ("signed up",)]),
    ("select distinct_id, person_id from events where event = 'paid' order by distinct_id",
     [("bob", person(2)), ("carol", person(1))]),
    ("select e.distinct_id, p.properties.name from events e join persons p on e.person_id = p.id"
     " where e.event = 'paid' order by e.timestamp", [("carol", "Ada"), ("bob", "Bo")]),
    ("select count(), countIf(p.properties.name is null) from events e left join persons p on"
     " p.id = e.person_id", [(6, 1)]),
    ("select person_id, count() from events join cohort_people using (person_id) group by 1",
     [(person(1), 3)]),
    ("select count() from events a join events b on a.uuid = b.uuid and a.person_id = b.person_id",
     [(6,)]),
    ("select count() from persons p right join events e on p.id = e.person_id", [(6,)]),
    ("select id, pdi.distinct_id from persons order by pdi.distinct_id",
     [(person(1), "ada"), (person(2), "bob"), (person(1), "carol")]),
    ("select id, properties.name, is_identified from persons order by id",
     [(person(1), "Ada", True), (person(2), "Bo", True)]),
    ("with x as (select event, properties from events) select x.event, properties.price from x"
     " where properties.price is not null order by 2",
     [("$pageview", "10"), ("$pageview", "20.5"), ("paid", "5")]),
    ("with events as (select 'mine' as event) select * from events", [("mine",)]),
    ("with a as (select 1 as x), b as (select x + 1 as y from a) select a.x, b.y from a, b",
     [(1, 2)]),
    ("with 5 as n, n + 1 as m select m, n, (select m + 1) from events limit 1", [(6, 5, 7)]),
    # CTEs of the query do not shadow the tables of a cohort.
    ("with cohort_people as (select id as person_id, 5 as cohort_id from persons)"
     " select count() from events where person_id in cohort 5", [(3,)]),
    ("select 1 as x union all select 1", [(1,), (1,)]),
    ("select event from events intersect select 'paid'", [("paid",)]),
    ("with a as (select 1 as x) select x from a union all select x from a", [(1,), (1,)]),
    # Equal rows, because UNION ALL has no order.
    ("(select 1 as x union all select 1 union all select 1) limit 2 offset 1", [(1,), (1,)]),
    ("select tag from events array join ['a', 'b'] as tag where event = 'signed up'",
     [("a",), ("b",)]),
    ("select row_number() over (partition by event order by timestamp) as r from events"
     " where event = 'paid' order by r", [(1,), (2,)]),
    ("select sum(properties.price) over w from events where event = 'paid' window w as"
     " (order by timestamp rows between unbounded preceding and current row)", [(None,), (5,)]),
    ("select sum(properties.price), avg(properties.number), count(distinct event),"
     " median(properties.price), quantile(0.5)(properties.price), argMax(event, timestamp),"
     " uniq(distinct_id) from events",
     [(35.5, 7, 3, 10, 10, "$pageview", 4)]),
    ("select sum(properties.price) filter (where event = 'paid'),"
     " count(*) filter (where event = 'paid') from events", [(5, 2)]),
    ("select t.b from (select properties.$browser as b from events) as t where t.b = 'Firefox'",
     [("Firefox",)]),
    ("select p.nested.a.b from (select properties as p from events) where p.plan = 'pro'",
     [("deep",)]),
    ("select team_id from events limit 1", [(1,)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "rows"), QUERIES)
def test_queries_return_the_expected_rows(
    engine: Engine, text: str, rows: list[tuple[Any, ...]]
) -> None:
    assert engine.query(text) == rows


BERLIN = [
    # Two hours ahead of UTC on this day.
    ("select toDate(toDateTime('2026-03-29T22:30:00Z'))", date(2026, 3, 30)),
    ("select toHour(timestamp) from events order by timestamp desc limit 1", 14),
    ("select toStartOfDay(timestamp) = toDateTime('2026-03-29') from events limit 1", 1),
    ("select count() from events where timestamp >= '2026-03-29 14:00:00'", 1),
    ("select count() from events where timestamp >= '2026-03-29T14:00:00Z'", 0),
    ("select toString(toDateTime('2026-03-29T12:00:00Z'))", "2026-03-29 14:00:00.000000"),
    ("select toHour(properties.due) from events where properties.due is not null", 12),
    ("select count() from (select timestamp as t from events group by timestamp order by t)", 6),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), BERLIN)
def test_times_are_in_the_project_time_zone(engine: Engine, text: str, value: Any) -> None:
    assert engine.query(text, timezone="Europe/Berlin") == [(value,)]


def test_columns_are_named_as_selected(engine: Engine) -> None:
    columns = "event, properties.$browser, count() as n, max(timestamp), 1 + 1"
    text = f"select {columns} from events group by 1, 2"
    printed = print_select(parse_select(text), make_context())
    assert printed.columns == ["event", "$browser", "n", "max(timestamp)", "1 + 1"]
    star = print_select(parse_select("select * from events"), make_context())
    assert star.columns[:8] == [
        "uuid", "event", "properties", "timestamp", "team_id", "distinct_id", "elements_chain",
        "created_at",
    ]  # fmt: skip
    assert "project_id" not in star.columns
    assert len(engine.run(star)[0]) == len(star.columns)


@pytest.mark.parametrize(
    ("text", "limits", "limit", "rows"),
    [
        ("select event from events", RowLimits(default=4), 4, 4),
        ("select event from events limit 3", RowLimits(), 3, 3),
        ("select event from events limit 100", RowLimits(maximum=5), 5, 5),
        ("select event from events limit 2", RowLimits(lookahead=1), 2, 3),
        ("select event from events", RowLimits(None, None), None, 6),
        ("select event from events limit 0", RowLimits(), 0, 0),
        ("select event from events union all select event from events", RowLimits(default=7), 7, 7),
        ("select event from events limit 4 offset 4", RowLimits(), 4, 2),
    ],
)
def test_limits_are_applied(
    engine: Engine, text: str, limits: RowLimits, limit: int | None, rows: int
) -> None:
    printed = print_select(parse_select(text), make_context(), limits)
    assert printed.limit == limit
    assert len(engine.run(printed)) == rows


# Selected columns come from persons and groups, the sort key from the event.
PAGED = [
    "select uuid, person.properties.name, person_id from events order by timestamp",
    "select uuid, person.properties.name from events order by timestamp desc, uuid",
    "select uuid, group_0.properties.name from events where event != 'paid' order by timestamp",
    "select uuid, person.properties.age + 1 as a from events where person_id in cohort 5"
    " order by timestamp",
    # Sorted or filtered by joined columns, or computed over rows: the page must not be cut first.
    "select uuid, person.properties.name as n from events order by n nulls last, timestamp",
    "select uuid, person.properties.age from events where person.properties.age > 1"
    " order by timestamp",
    "select uuid, person.properties.name, row_number() over (order by timestamp) from events"
    " order by timestamp desc",
    "select person.properties.name as n, count() from events group by n order by n nulls last",
    "select distinct person.properties.name as n from events order by n nulls last",
    "select id, pdi.distinct_id from persons order by id desc, pdi.distinct_id",
    "select arrayJoin([1, 2]) as x, person.properties.name, uuid from events order by timestamp, x",
]


@pytest.mark.parametrize("text", PAGED)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_pages_are_parts_of_the_whole(engine: Engine, text: str, zone: str) -> None:
    whole = engine.query(text, RowLimits(None, None), timezone=zone)
    assert len(whole) > 2
    for limit, offset in ((1, 0), (2, 1), (2, 2), (100, 1)):
        page = engine.query(f"{text} limit {limit} offset {offset}", timezone=zone)
        assert page == whole[offset : offset + limit]


def test_persons_are_joined_to_a_page_only() -> None:
    query = parse_select(
        "select person.properties.name from events order by timestamp desc limit 5"
    )
    sql = print_select(query, make_context()).sql
    assert sql.index("LIMIT") < sql.index("LEFT JOIN")


@pytest.mark.parametrize(
    "condition",
    [
        f"person_id = '{person(1)}'",
        f"person_id not in ('{person(1)}')",
        "person_id in cohort 5",
        "person.properties.name = 'Ada' and person.properties.age is not null",
        "e.person.properties.name not like 'A%'",
    ],
)
def test_person_conditions_need_no_join(condition: str) -> None:
    query = parse_select(f"select event from events e where {condition}")
    assert "JOIN" not in print_select(query, make_context()).sql


def test_expressions_in_select_and_group_by_print_alike(engine: Engine) -> None:
    kind = "if(person_id in cohort 5 or person.properties.name = 'Bo', 'known', 'other')"
    rows = engine.query(f"select {kind}, count() from events group by {kind} order by 2")
    assert rows == [("other", 1), ("known", 5)]


REFUSED: list[tuple[str, str]] = json.loads((Path(__file__).parent / "refusals.json").read_text())


@pytest.mark.parametrize(("text", "detail"), REFUSED)
def test_invalid_queries_are_rejected_with_advice(text: str, detail: str) -> None:
    with pytest.raises(HogQLError) as caught:
        print_select(parse_select(text), make_context(), text=text)
    assert caught.value.detail == detail


def test_built_query_runs_like_a_parsed_one(engine: Engine) -> None:
    """As the events listing builds them: parsed expressions in a built query."""
    query = SelectQuery(
        select=(parse_expr("event"), Alias(expr=FunctionCall(name="count"), alias="n")),
        source=Join(table=Field(chain=("events",))),
        where=CompareOperation(
            op=Compare.LT,
            left=Field(chain=("timestamp",)),
            right=Constant(value=datetime(2026, 3, 29, 9, 30, tzinfo=UTC)),
        ),
        group_by=(parse_expr("event"),),
        order_by=(),
    )
    assert sorted(engine.run(print_select(query, make_context()))) == [
        ("$pageview", 1),
        ("paid", 2),
    ]


def test_placeholders_are_replaced(engine: Engine) -> None:
    query = parse_select("select count() from events where event = {name} and {more.filters}")
    values = {"name": Constant(value="paid"), "more.filters": parse_expr("distinct_id = 'bob'")}
    assert engine.run(print_select(replace_placeholders(query, values), make_context())) == [(1,)]
    with pytest.raises(HogQLError, match=r"Missing value for the placeholder 'more\.filters'"):
        replace_placeholders(query, {"name": Constant(value="paid")})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("count()", True),
        ("1 + sumIf(a, b)", True),
        ("lower(event)", False),
        ("(select count() from events)", False),
        ("row_number() over ()", False),
        ("sum(count()) over ()", True),
        ("a in (select max(b) from c)", False),
    ],
)
def test_aggregates_are_detected(text: str, found: bool) -> None:
    assert has_aggregate(parse_expr(text)) is found


@pytest.mark.parametrize(
    "text",
    [
        # Each CTE uses the previous one twice, so the SQL would double with every line.
        "with a0 as (select 1 as x)" + "".join(
            f", a{n} as (select l.x as x from a{n - 1} l, a{n - 1} r)" for n in range(1, 30)
        ) + " select * from a29",
        "with a0 as (select 1 as x)" + "".join(
            f", a{n} as (select x from a{n - 1})" for n in range(1, 49)
        ) + " select * from a48",
        "select " + "(" * 40 + "properties.a" + " between 1 and 2)" * 40 + " from events",
        "select 1 from events " + "".join(f"cross join events e{n} " for n in range(100)),
        "with " + ", ".join(f"{n} as v{n}" for n in range(60)) + " select 1",
    ],
)  # fmt: skip
def test_unbounded_growth_is_rejected(text: str) -> None:
    with pytest.raises(HogQLError):
        print_select(parse_select(text), make_context())
