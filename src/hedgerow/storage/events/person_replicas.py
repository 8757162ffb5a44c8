"""Writes replicas of persons, distinct ids, groups and cohort members to ClickHouse.

This module must not import the engine or its driver: opening the event store does.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from hedgerow.persons.replicas import (
    CohortMemberReplica,
    DistinctIdReplica,
    GroupReplica,
    PersonReplica,
    Replica,
)
from hedgerow.persons.store import ReplicaTables
from hedgerow.storage.events.replica_schema import (
    DISTINCT_IDS,
    GROUPS,
    KEY_COLUMNS,
    MEMBERS,
    PERSONS,
)
from hedgerow.storage.events.schema import INSERT_SETTINGS

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from hedgerow.storage.events.events import ClickHouseEventStore

VERSION_QUERY_TIMEOUT_S = 60.0

TABLES_BY_KIND: dict[type[Replica], str] = {
    PersonReplica: PERSONS,
    DistinctIdReplica: DISTINCT_IDS,
    GroupReplica: GROUPS,
    CohortMemberReplica: MEMBERS,
}


class ClickHousePersonReplicas(ReplicaTables):
    """Replicas in the event store, which `opened` opens on demand."""

    def __init__(
        self, opened: Callable[[], Awaitable["ClickHouseEventStore"]], is_open: Callable[[], bool]
    ) -> None:
        self._open_store = opened
        self._is_open = is_open
        self._encoder = msgspec.json.Encoder()

    @property
    def is_open(self) -> bool:
        return self._is_open()

    async def append(self, replicas: Sequence[Replica]) -> None:
        def run(client: "Client") -> None:
            for kind, table in TABLES_BY_KIND.items():
                rows = [each for each in replicas if isinstance(each, kind)]
                if rows:
                    client.raw_insert(
                        table,
                        kind.__struct_fields__,
                        self._encoder.encode_lines(rows),
                        fmt="JSONCompactEachRow",
                        settings=INSERT_SETTINGS,
                    )

        await (await self._open_store()).run(run)

    async def newest_version(self) -> int:
        each = " UNION ALL ".join(
            f"SELECT max(version) AS newest FROM {table}"  # noqa: S608
            for table in TABLES_BY_KIND.values()
        )
        sql = f"SELECT max(newest) AS newest FROM ({each})"  # noqa: S608
        store = await self._open_store()
        [row] = await store.query(sql, {}, max_rows=1, timeout_s=VERSION_QUERY_TIMEOUT_S)
        return int(row["newest"])

    async def delete_older(self, kind: type[Replica], version: int) -> None:
        table = TABLES_BY_KIND[kind]
        keys = ", ".join(KEY_COLUMNS[table])
        sql = (
            f"INSERT INTO {table} ({keys}, version, is_deleted)"  # noqa: S608
            f" SELECT {keys}, {{version:UInt64}}, 1 FROM {table} FINAL"
            " WHERE version < {version:UInt64}"
        )
        await (await self._open_store()).run(
            lambda client: client.command(sql, parameters={"version": version})
        )
