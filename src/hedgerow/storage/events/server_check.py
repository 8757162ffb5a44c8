"""What `hedgerow doctor --clickhouse` checks on a ClickHouse server or cluster: its version, the
settings of inserts, macros and replicas, and whether a written row can be read, once.
"""

from collections.abc import Iterator
from typing import Any, Literal
from uuid import uuid4

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from hedgerow.storage.events.clickhouse import (
    EngineError,
    connect_server,
    describe_error,
    fetch_rows,
)
from hedgerow.storage.events.schema import DURABLE_SETTINGS, INSERT_SETTINGS
from hedgerow.storage.events.table_layout import TableLayout, find_layout

# The oldest version whose documentation was reviewed, and the one that the tests run on.
REVIEWED_VERSION, TESTED_VERSION = (26, 3), "26.9"
MACROS = ("shard", "replica")

Finding = tuple[Literal["ok", "warning", "problem"], str, str]


def check_server(url: str, timeout_s: float) -> list[Finding]:
    """Return verdict, check and detail. A check that the server refuses is a problem, too."""
    pool = connect_server(url, timeout_s)
    try:
        with pool.client() as client:
            layout = find_layout(client) or TableLayout(table="")
            return list(_check(client, layout))
    except EngineError as error:
        return [("problem", "ClickHouse", error.reason)]
    finally:
        pool.close()


def _check(client: Client, layout: TableLayout) -> Iterator[Finding]:
    checks = (
        _check_version,
        _check_settings,
        _check_durability,
        _check_cluster,
        _check_round_trip,
    )
    for check in checks:
        try:
            yield from check(client, layout)
        except Error as error:
            name = check.__name__.removeprefix("_check_").replace("_", " ")
            yield "problem", f"ClickHouse {name}", describe_error(error)


def _check_version(client: Client, layout: TableLayout) -> Iterator[Finding]:
    source = layout.list_system_rows("system.one")
    rows = fetch_rows(client, f"SELECT DISTINCT version() AS version FROM {source}", {})  # noqa: S608 - our own names
    for version in sorted(str(row["version"]) for row in rows):
        number = tuple(int(part) for part in version.split(".")[:2])
        detail = f"{version}; Hedgerow is tested with {TESTED_VERSION}"
        if number < REVIEWED_VERSION:
            oldest = ".".join(map(str, REVIEWED_VERSION))
            yield "warning", "ClickHouse version", f"{detail}, and made for {oldest} or newer"
        else:
            yield "ok", "ClickHouse version", detail


def _check_settings(client: Client, _: TableLayout) -> Iterator[Finding]:
    """Hedgerow sends the settings of inserts with each of them. A profile can forbid that."""
    sql = "SELECT name, value, readonly FROM system.settings WHERE name IN {names:Array(String)}"
    found = {row["name"]: row for row in fetch_rows(client, sql, {"names": [*INSERT_SETTINGS]})}
    faults = list[str]()
    for name, value in INSERT_SETTINGS.items():
        if name not in found:
            faults.append(f"the server does not know {name}")
        elif found[name]["readonly"] and found[name]["value"] != str(value):
            faults.append(f"{name} is fixed to {found[name]['value']}, not {value}")
    if faults:
        detail = f"inserts fail: {'; '.join(faults)}. Change the profile of the user."
        yield "problem", "ClickHouse settings", detail
    else:
        yield "ok", "ClickHouse settings", "inserts can use the settings that they need"


def _check_durability(client: Client, layout: TableLayout) -> Iterator[Finding]:
    """An acknowledged insert must be on the disk, also if the operator has made the table."""
    sql = """
        SELECT engine_full FROM system.tables
        WHERE database = currentDatabase() AND name = {table:String}
    """
    for row in fetch_rows(client, sql, {"table": layout.table}):
        missing = ", ".join(each for each in DURABLE_SETTINGS if each not in row["engine_full"])
        if missing:
            change = f"ALTER TABLE {layout.table}{layout.on_cluster} MODIFY SETTING {missing}"
            detail = f"a power failure can lose stored events. Run `{change}`"
            yield "problem", "ClickHouse durability", detail
        else:
            yield "ok", "ClickHouse durability", "an insert returns when its events are on the disk"


def _check_cluster(client: Client, layout: TableLayout) -> Iterator[Finding]:
    if not layout.cluster:
        yield "ok", "ClickHouse cluster", "the events are on one server"
        return
    source = layout.list_system_rows("system.macros")
    sql = f"SELECT hostName() AS host, macro, substitution FROM {source}"  # noqa: S608 - our own names
    macros: dict[str, dict[str, Any]] = {}
    for row in fetch_rows(client, sql, {}):
        macros.setdefault(row["host"], {})[row["macro"]] = row["substitution"]
    sql = "SELECT count() AS number FROM system.clusters WHERE cluster = {cluster:String}"
    (row,) = fetch_rows(client, sql, {"cluster": layout.cluster})
    places = [tuple(found.get(name) for name in MACROS) for found in macros.values()]
    if len(macros) < row["number"] or any(None in place for place in places):
        detail = f"each server needs the macros {' and '.join(MACROS)}"
        yield "problem", "ClickHouse macros", f"{detail}; {len(macros)} of {row['number']} have any"
    elif len(set(places)) < len(places):
        yield "problem", "ClickHouse macros", "two servers have the same shard and replica"
    else:
        yield "ok", "ClickHouse macros", f"{len(places)} servers of {layout.cluster}"
    source = layout.list_system_rows("system.replicas")
    sql = f"SELECT hostName() AS host, table FROM {source} WHERE is_readonly"  # noqa: S608 - our own names
    halted = [f"{row['table']} on {row['host']}" for row in fetch_rows(client, sql, {})]
    if halted:
        detail = f"read-only, because Keeper is away or has lost them: {', '.join(halted[:5])}"
        yield "problem", "ClickHouse replicas", detail
    else:
        yield "ok", "ClickHouse replicas", "all can be written"


def _check_round_trip(client: Client, layout: TableLayout) -> Iterator[Finding]:
    """Write a row twice, with the settings and the token of an insert of events, and read it."""
    table = f"hedgerow_doctor_{uuid4().hex}"
    engine = "MergeTree"
    options = " SETTINGS non_replicated_deduplication_window = 10"
    if layout.cluster:
        engine = f"ReplicatedMergeTree('/clickhouse/tables/{{shard}}/{table}', '{{replica}}')"
        options = ""
    created = f"CREATE TABLE {table}{layout.on_cluster} (id UInt64)"
    client.command(f"{created} ENGINE = {engine} ORDER BY id{options}")
    try:
        settings = {**INSERT_SETTINGS, "insert_deduplication_token": table}
        for _ in range(2):
            client.command(f"INSERT INTO {table} VALUES (1)", settings=settings)  # noqa: S608 - as above
        (row,) = fetch_rows(client, f"SELECT count() AS number FROM {table}", {})  # noqa: S608 - our own names
    finally:
        client.command(f"DROP TABLE IF EXISTS {table}{layout.on_cluster} SYNC")
    if row["number"] == 1:
        yield "ok", "ClickHouse round trip", "a row was written, repeated, stored once and read"
    else:
        detail = f"a row that was written twice was read {row['number']} times, not once"
        yield "problem", "ClickHouse round trip", detail
