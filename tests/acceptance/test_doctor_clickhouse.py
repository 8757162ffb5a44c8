"""`hedgerow doctor --clickhouse` says what is wrong with a ClickHouse server."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.altered_clickhouse import AlteredClickHouse
from tests.support.live import run_in_process

if TYPE_CHECKING:
    from tests.support.clickhouse_http import ClickHouseTestServer

# What is asked.
LAYOUT = re.escape("SELECT engine_full, toString(uuid) AS uuid FROM system.tables")
SETTINGS = re.escape("SELECT name, value, readonly FROM system.settings")
MACROS = re.escape(
    "hostName() AS host, macro, substitution FROM clusterAllReplicas('main', system.macros)"
)
REPLICAS = re.escape("hostName() AS host, table FROM clusterAllReplicas('main', system.replicas)")


def list_macros(*rows: tuple[str, str, str]) -> str:
    listed = ", ".join(map(str, rows))
    return f"* FROM values('host String, macro String, substitution String', {listed})"


FIRST = (("a", "shard", "1"), ("a", "replica", "1"))
SECOND = (("b", "shard", "1"), ("b", "replica", "2"))
# A cluster of two servers, of which only one exists.
CLUSTER = {
    LAYOUT + r"\s+WHERE": "SELECT 'Distributed(\\'main\\', x)' AS engine_full, '' AS uuid FROM"
    " (SELECT 'a' AS name, currentDatabase() AS database) WHERE 'a' IN (name, {table:String}) OR",
    re.escape("clusterAllReplicas('main', system.one)"): "system.one",
    re.escape("count() AS number FROM system.clusters"): "2 AS number FROM"
    " (SELECT 'main' AS cluster)",
    REPLICAS: "'a' AS host, 'none' AS table FROM (SELECT 0 AS is_readonly)",
    " ON CLUSTER 'main'": "",
    r"ReplicatedMergeTree\(.*?\) ORDER BY id": "MergeTree ORDER BY id"
    " SETTINGS non_replicated_deduplication_window = 10",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A server, and what the check of this name says about it. Checks other than this and those of
    `also` are ok."""

    check: str
    says: str
    verdict: str = "problem"
    replaced: Mapping[str, str] = field(default_factory=dict)
    refused: Sequence[str] = ()
    also: Sequence[str] = ()


CASES = {
    "an old version": Case(
        check="version",
        verdict="warning",
        says=r"25\.3\.2\.39; .* made for 26\.3 or newer",
        replaced={r"version\(\) AS version": "'25.3.2.39' AS version"},
    ),
    "a fixed setting": Case(
        check="settings",
        also=["round trip"],
        says="inserts fail: insert_deduplicate is fixed to 0, not 1. Change the profile",
        replaced={
            SETTINGS: "SELECT name, '0' AS value, name = 'insert_deduplicate' AS readonly"
            " FROM system.settings"
        },
    ),
    "an unknown setting": Case(
        check="settings",
        says="inserts fail: the server does not know insert_quorum_parallel",
        replaced={
            SETTINGS: "SELECT name, value, 0 AS readonly FROM"
            " (SELECT * FROM system.settings WHERE name != 'insert_quorum_parallel')"
        },
    ),
    "no right to read settings": Case(
        check="settings", says="Not enough privileges", refused=["system.settings WHERE name IN"]
    ),
    "a table that is not synced": Case(
        check="durability",
        says="a power failure .* `ALTER TABLE events MODIFY SETTING fsync_part_directory = 1`",
    ),
    "no macros on the second server": Case(
        check="macros",
        says="each server needs the macros shard and replica; 1 of 2 have any",
        replaced={**CLUSTER, MACROS: list_macros(*FIRST)},
    ),
    "a macro is missing": Case(
        check="macros",
        says="each server needs the macros shard and replica; 2 of 2",
        replaced={**CLUSTER, MACROS: list_macros(*FIRST, SECOND[0])},
    ),
    "the same macros on both servers": Case(
        check="macros",
        says="two servers have the same shard and replica",
        replaced={
            **CLUSTER,
            MACROS: list_macros(*FIRST, SECOND[0], ("b", "replica", "1")),
        },
    ),
    "a replica cannot be written": Case(
        check="replicas",
        says="read-only, because Keeper is away or has lost them: events_shard on b",
        replaced={
            **CLUSTER,
            MACROS: list_macros(*FIRST, *SECOND),
            REPLICAS: "'b' AS host, 'events_shard' AS table FROM (SELECT 1 AS is_readonly)",
        },
    ),
    "no right to create a table": Case(
        check="round trip", says="Not enough privileges", refused=["CREATE TABLE"]
    ),
    "no right to insert": Case(
        check="round trip", says="Not enough privileges", refused=["INSERT INTO"]
    ),
    "a repeated insert is stored twice": Case(
        check="round trip",
        says="a row that was written twice was read 2 times, not once",
        replaced={"_deduplication_window = 10": "_deduplication_window = 0"},
    ),
    "a written row is not found": Case(
        check="round trip",
        says="a row that was written twice was read 0 times, not once",
        replaced={r"SELECT count\(\) AS number FROM hedgerow_doctor": "SELECT 0 AS number --"},
    ),
    "a cluster as it should be": Case(
        check="macros",
        verdict="ok",
        says="2 servers of main",
        replaced={**CLUSTER, MACROS: list_macros(*FIRST, *SECOND)},
    ),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("doctor") / "data"
    assert run_in_process("init", data=data).returncode == 0
    return data


@pytest.mark.parametrize("name", CASES)
def test_each_check_says_what_is_wrong(
    name: str, data: Path, clickhouse: "ClickHouseTestServer"
) -> None:
    case = CASES[name]
    url = clickhouse.create_database()
    database = url.rpartition("/")[2]
    settings = f"fsync_after_insert = 1, fsync_part_directory = {case.check != 'durability':d}"
    table = f"{database}.events (uuid UUID) ENGINE = MergeTree ORDER BY uuid SETTINGS {settings}"
    clickhouse.run(f"CREATE TABLE {table}")
    with AlteredClickHouse(url, replaced=case.replaced, refused=case.refused) as server:
        done = run_in_process(
            "doctor", "--clickhouse", "--json", data=data, clickhouse_url=server.url
        )
    results = json.loads(done.stdout)
    found = {
        each["check"].removeprefix("ClickHouse "): each
        for each in results
        if each["check"].startswith("ClickHouse")
    }
    assert found[case.check]["verdict"] == case.verdict, found
    assert re.search(case.says, found[case.check]["detail"]), found
    expected = dict.fromkeys(found, "ok") | dict.fromkeys(case.also, "problem")
    expected[case.check] = case.verdict
    assert {check: each["verdict"] for check, each in found.items()} == expected
    assert {"version", "settings", "round trip"} <= found.keys()
    assert done.returncode == any(each["verdict"] == "problem" for each in results)
    left = clickhouse.run(f"SELECT name FROM system.tables WHERE database = '{database}'")
    assert left.strip() == b"events"


def test_a_server_that_refuses_the_connection_is_a_problem(
    data: Path, clickhouse: "ClickHouseTestServer"
) -> None:
    """The driver reads the settings of the server when it connects."""
    url = clickhouse.create_database()
    with AlteredClickHouse(url, replaced={}, refused=["system.settings"]) as server:
        done = run_in_process("doctor", "--clickhouse", data=data, clickhouse_url=server.url)
    assert done.returncode == 1
    for check in ("event store", "ClickHouse"):
        assert re.search(f"problem *{check}: The user of .* lacks a right", done.stdout), (
            done.stdout
        )


def test_an_error_without_a_meaning_of_its_own_is_a_problem(
    data: Path, clickhouse: "ClickHouseTestServer"
) -> None:
    url = clickhouse.create_database()
    broken = {"SELECT ": "SELECT no_such_function(), "}
    with AlteredClickHouse(url, replaced=broken, refused=()) as server:
        done = run_in_process("doctor", "--clickhouse", data=data, clickhouse_url=server.url)
    assert done.returncode == 1
    for check in ("event store", "ClickHouse"):
        assert re.search(f"problem *{check}: .*no_such_function", done.stdout), done.stdout
