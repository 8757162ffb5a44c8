"""A project with many events and the people behind them, the same each time but for the clock.

Events lie over the last ninety days, evenly, and have 13 properties each. They are made by the
engine itself, from hashes of their numbers.
"""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import UUID, uuid5

from clickhouse_connect.driver.client import Client
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sqlalchemy import insert

from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.storage.connect import (
    DatabaseLocation,
    EventStoreLocation,
    create_sync_engine,
    open_event_store,
)
from hedgerow.storage.events.schema import COLUMNS
from hedgerow.storage.migrations.apply import prepare_database
from hedgerow.storage.tables import person_distinct_ids, persons

PROJECT_KEY = "phc_for-benchmarks-only"
PERSONAL_KEY = "phx_for-benchmarks-only"
DAYS = 90
PEOPLE = 20_000
BLOCK = 20_000
SEED = 20260329
# One event in so many has the property `rare`.
RARE = 50_000
NAMESPACE = UUID(int=SEED)

_WORDS = "['about','pricing','docs','blog','login','signup','team','careers']"
# Twenty properties that few events have, with values of several types.
_SELDOM = """['seats','coupon','is_trial','variant','duration','score','source','campaign','level',
    'items','theme','query','page','total','retries','status','channel','depth','tags','owner']"""
_SELDOM_VALUE = """multiIf(pick.2 % 4 = 0, toString(pick.2 % 1000), pick.2 % 4 = 1,
    concat('"', hex(pick.2 % 65536), '"'), pick.2 % 4 = 2, 'true', '12.5')"""
_PROPERTIES = f"""concat(
    '{{"$lib":"web","$lib_version":"1.200.', toString(h % 7),
    '","$browser":"', ['Firefox','Chrome','Safari','Edge'][1 + intDiv(h, 8) % 4],
    '","$os":"', ['Linux','Windows','Mac OS X'][1 + h % 3],
    '","$device_type":"', ['Desktop','Mobile'][1 + intDiv(h, 64) % 2],
    '","$session_id":"', hex(cityHash64(h, 1)), hex(cityHash64(h, 2)),
    '","$current_url":"https://example.com/', {_WORDS}[1 + h % 8], '/', toString(h % 977),
    '","$pathname":"/', {_WORDS}[1 + h % 8], '/', toString(h % 977),
    '","$host":"example.com","price":', toString(h % 10000 / 100),
    ',"plan":"', ['free','pro','team'][1 + h % 3], '"',
    arrayStringConcat(arrayMap(pick -> concat(',"', pick.1, '":', {_SELDOM_VALUE}), picks)),
    if(number % {RARE} = 0, ',"rare":"yes"', ''), '}}')"""
_SQL = f"""
    INSERT INTO events ({", ".join(COLUMNS)})
    WITH cityHash64(number, {SEED}) AS h, h % {PEOPLE} AS who,
         now64(6) - toIntervalMicrosecond(toUInt64(
             ({{rows:UInt64}} - number) / {{rows:UInt64}} * {DAYS} * 86400e6
         )) AS at,
         {_SELDOM} AS seldom,
         arrayMap(i -> (seldom[i + cityHash64(h, i) % 10], cityHash64(h, i, 1)), [1, 11]) AS picks
    SELECT 1, reinterpretAsUUID(concat(reinterpretAsString(h), reinterpretAsString(cityHash64(h)))),
           ['$pageview', '$autocapture', 'signed up', 'paid'][1 + h % 4],
           concat('user-', toString(who)), {_PROPERTIES},
           '', at, at, toUUID('00000000-0000-0000-0000-000000000000'), at,
           concat('{{"email":"user-', toString(who), '@example.com","plan":"free"}}'), 'full', false
    FROM numbers({{start:UInt64}}, {{count:UInt64}})
"""


async def generate(data: Path, rows: int) -> None:
    place = DatabaseLocation(url="", path=data / "hedgerow.db", timeout_s=5)
    keys = InitialKeys(project_key=PROJECT_KEY, personal_key=PERSONAL_KEY)
    prepare_database(place, keys, datetime.now(UTC))
    _people(place)
    events = open_event_store(EventStoreLocation(url="", folder=data / "events", timeout_s=5))
    await events.prepare()
    columns = (TextColumn("generating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("events", total=rows)
        for start in range(0, rows, BLOCK):
            count = min(BLOCK, rows - start)
            parameters = {"rows": rows, "start": start, "count": count}
            await events.run(partial(_insert, parameters))
            progress.advance(task, count)
    await events.close()


def _insert(parameters: dict[str, int], client: Client) -> None:
    client.command(_SQL, parameters=parameters)


def person_uuid(number: int) -> str:
    return str(uuid5(NAMESPACE, str(number)))


def _people(place: DatabaseLocation) -> None:
    """One in ten is a pro."""
    now = datetime.now(UTC) - timedelta(days=DAYS)
    rows = [
        {
            "id": number + 1,
            "project_id": 1,
            "uuid": person_uuid(number),
            "properties": {
                "email": f"user-{number}@example.com",
                "plan": "pro" if number % 10 == 0 else "free",
            },
            "is_identified": True,
            "created_at": now,
            "updated_at": now,
        }
        for number in range(PEOPLE)
    ]
    ids = [
        {"project_id": 1, "distinct_id": f"user-{number}", "person_id": number + 1}
        for number in range(PEOPLE)
    ]
    with create_sync_engine(place).begin() as connection:
        connection.execute(insert(persons), rows)
        connection.execute(insert(person_distinct_ids), ids)
