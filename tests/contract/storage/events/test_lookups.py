"""Look-ups by distinct id and by person among the events of years read few of them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from hedgerow.hogql.parser.parse import parse_select
from hedgerow.hogql.printer.context import PrintContext
from hedgerow.hogql.printer.statement import RowLimits, print_select
from hedgerow.storage.events.clickhouse import connect_server
from hedgerow.storage.events.table_layout import prepare_tables
from tests.support.clickhouse_http import ClickHouseTestServer

NOW = datetime(2026, 3, 29, tzinfo=UTC)
EVENTS = 240_000
# One event in so many belongs to Ada, whose ids are "ada" and, since a merge, "laptop".
INTERVAL = 60_000
ADA, OTHER = UUID(int=1), UUID(int=2)
MAX_READ = EVENTS // 2
INSERT = f"""
    INSERT INTO events (project_id, uuid, event, distinct_id, properties, timestamp, created_at,
                        person_id, person_created_at, person_properties)
    SELECT 1, generateUUIDv4(), 'e', who, '{{}}', at, at, id, at, '{{}}' FROM (
        SELECT toDateTime64('2026-03-01 00:00:00', 6, 'UTC') - toIntervalMinute(number * 5) AS at,
               multiIf(number % {INTERVAL} = 7, 'ada', number % {INTERVAL} = 9, 'laptop',
                       concat('user-', toString(cityHash64(number) % 100000))) AS who,
               if(who = 'ada', toUUID('{ADA}'), toUUID('{OTHER}')) AS id
        FROM numbers({EVENTS})
    )
"""
MERGE = f"""
    INSERT INTO person_distinct_ids (project_id, distinct_id, person_id, is_moved, version)
    VALUES (1, 'laptop', '{ADA}', true, 1)
"""


@pytest.fixture(scope="module")
def client(clickhouse: ClickHouseTestServer) -> Iterator[Client]:
    pool = connect_server(clickhouse.create_database(), timeout_s=60)
    with pool.client() as opened:
        prepare_tables(opened)
        for statement in (INSERT, MERGE):
            opened.command(statement, settings={"max_partitions_per_insert_block": 0})
        yield opened
    pool.close()


def count(client: Client, where: str, **settings: Any) -> int:
    query = parse_select(f"select count() from events where {where}")
    printed = print_select(query, PrintContext(project_id=1, now=NOW), RowLimits())
    limits = {"max_rows_to_read": MAX_READ, **settings}
    found = client.query(printed.sql, parameters=dict(printed.parameters), settings=limits)
    return int(found.result_rows[0][0])


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("distinct_id = 'ada'", 1),
        ("distinct_id in ('ada', 'laptop')", 2),
        (f"person_id = '{ADA}'", 2),
        (f"person.id in ('{ADA}')", 2),
    ],
)
def test_a_lookup_reads_few_events(client: Client, where: str, expected: int) -> None:
    assert count(client, where) == expected * EVENTS // INTERVAL
    with pytest.raises(DatabaseError, match="Limit for rows"):
        count(client, where, use_skip_indexes=0)
