"""A project with many events and the people behind them, the same each time but for the clock.

Events lie over the last ninety days, evenly, and have 13 properties each. They are made by the
engine itself, from hashes of their numbers. They name the person that their distinct id created;
one distinct id in twenty belongs to another person since.
"""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import UUID, uuid5

from clickhouse_connect.driver.client import Client
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sqlalchemy import insert

from hedgerow.ingestion.persons import loaded_state
from hedgerow.lib.clock import utc_now
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.projects.model import ProjectId
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
# One distinct id in so many was merged into another person.
MERGED = 20
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
# The uuid of version 5 that `loaded_state.person_uuid` returns.
_PERSON = """toUUID(concat(
    substring(sha, 1, 8), '-', substring(sha, 9, 4), '-5', substring(sha, 14, 3), '-',
    lower(hex(bitOr(bitAnd(reinterpretAsUInt8(unhex(substring(sha, 17, 2))), 63), 128))),
    substring(sha, 19, 2), '-', substring(sha, 21, 12)))"""
_SQL = f"""
    INSERT INTO events ({", ".join(COLUMNS)})
    WITH cityHash64(number, {SEED}) AS h, h % {PEOPLE} AS who,
         now64(6) - toIntervalMicrosecond(toUInt64(
             ({{rows:UInt64}} - number) / {{rows:UInt64}} * {DAYS} * 86400e6
         )) AS at,
         lower(hex(SHA1(concat(
             unhex('{loaded_state.NAMESPACE.hex}'), '1:user-', toString(who)
         )))) AS sha,
         {_SELDOM} AS seldom,
         arrayMap(i -> (seldom[i + cityHash64(h, i) % 10], cityHash64(h, i, 1)), [1, 11]) AS picks
    SELECT 1, reinterpretAsUUID(concat(reinterpretAsString(h), reinterpretAsString(cityHash64(h)))),
           ['$pageview', '$autocapture', 'signed up', 'paid'][1 + cityHash64(h, 3) % 4],
           concat('user-', toString(who)), {_PROPERTIES},
           '', at, at, {_PERSON}, at,
           concat('{{"email":"user-', toString(who), '@example.com","plan":"free"}}'), 'full', false
    FROM numbers({{start:UInt64}}, {{count:UInt64}})
"""


async def generate(data: Path, rows: int, copies: int = 1) -> None:
    """Generate `rows` events. With `copies`, only a part of them is generated: its parts, one for
    each month, are then attached so often."""
    place = DatabaseLocation(url="", path=data / "hedgerow.db", timeout_s=5)
    keys = InitialKeys(project_key=PROJECT_KEY, personal_key=PERSONAL_KEY)
    prepare_database(place, keys, utc_now)
    _people(place)
    events = open_event_store(EventStoreLocation(url="", folder=data / "events", timeout_s=5))
    await events.prepare()
    columns = (TextColumn("generating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        generated = rows // copies
        task = progress.add_task("events", total=generated)
        for start in range(0, generated, BLOCK):
            count = min(BLOCK, generated - start)
            parameters = {"rows": generated, "start": start, "count": count}
            await events.run(partial(_insert, parameters))
            progress.advance(task, count)
    if copies > 1:
        await events.run(partial(_copy_parts, copies - 1))
    await events.close()


def _insert(parameters: dict[str, int], client: Client) -> None:
    client.command(_SQL, parameters=parameters)


def _copy_parts(copies: int, client: Client) -> None:
    """Attach the parts of the table again. It is never merged: equal events side by side would be
    compressed better than others."""
    client.command("OPTIMIZE TABLE events FINAL")
    client.command("ALTER TABLE events MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1")
    client.command("CREATE TABLE copied AS events")
    months = client.query("SELECT DISTINCT _partition_id FROM events").result_rows
    for (month,) in months:
        client.command(f"ALTER TABLE copied ATTACH PARTITION ID '{month}' FROM events")
        for _ in range(copies):
            client.command(f"ALTER TABLE events ATTACH PARTITION ID '{month}' FROM copied")
    client.command("DROP TABLE copied SYNC")


def person_uuid(number: int) -> str:
    if number % MERGED == 0:
        return str(uuid5(NAMESPACE, str(number)))
    return loaded_state.person_uuid(ProjectId(1), f"user-{number}")


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
