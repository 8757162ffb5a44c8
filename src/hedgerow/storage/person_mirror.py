"""The copies of persons, distinct ids, groups and members of cohorts, stored in ClickHouse.

Nothing here loads the engine or its driver: whoever opens the event store does.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from hedgerow.persons.mirrored import (
    Copy,
    DistinctIdCopy,
    GroupCopy,
    MemberCopy,
    PersonCopy,
)
from hedgerow.storage.mirror_schema import DISTINCT_IDS, GROUPS, KEYS, MEMBERS, PERSONS

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from hedgerow.storage.events import EventRecords

LOOK_AT_MOST_S = 60.0

TABLE_OF: dict[type[Copy], str] = {
    PersonCopy: PERSONS,
    DistinctIdCopy: DISTINCT_IDS,
    GroupCopy: GROUPS,
    MemberCopy: MEMBERS,
}
_SETTINGS = {"date_time_input_format": "best_effort", "input_format_parallel_parsing": 0}


class PersonTables:
    """`opened` gives the event store, which has these tables too."""

    def __init__(
        self, opened: Callable[[], Awaitable["EventRecords"]], is_open: Callable[[], bool]
    ) -> None:
        self._opened = opened
        self._is_open = is_open
        self._encoder = msgspec.json.Encoder()

    @property
    def is_open(self) -> bool:
        return self._is_open()

    async def append(self, copies: Sequence[Copy]) -> None:
        def run(client: "Client") -> None:
            for kind, table in TABLE_OF.items():
                rows = [each for each in copies if isinstance(each, kind)]
                if rows:
                    client.raw_insert(
                        table,
                        kind.__struct_fields__,
                        self._encoder.encode_lines(rows),
                        fmt="JSONCompactEachRow",
                        settings=_SETTINGS,
                    )

        await (await self._opened()).run(run)

    async def newest_version(self) -> int:
        each = " UNION ALL ".join(
            f"SELECT max(version) AS newest FROM {table}"  # noqa: S608
            for table in TABLE_OF.values()
        )
        sql = f"SELECT max(newest) AS newest FROM ({each})"  # noqa: S608
        store = await self._opened()
        [row] = await store.query(sql, {}, max_rows=1, timeout_s=LOOK_AT_MOST_S)
        return int(row["newest"])

    async def forget_older(self, kind: type[Copy], version: int) -> None:
        table = TABLE_OF[kind]
        keys = ", ".join(KEYS[table])
        sql = (
            f"INSERT INTO {table} ({keys}, version, is_deleted)"  # noqa: S608
            f" SELECT {keys}, {{version:UInt64}}, 1 FROM {table} FINAL"
            " WHERE version < {version:UInt64}"
        )
        await (await self._opened()).run(
            lambda client: client.command(sql, parameters={"version": version})
        )
