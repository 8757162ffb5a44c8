"""Which events are stored already, also if files of an embedded store are damaged.

Each event is looked up before it is stored. A damaged file must not stop that: readers cannot read
the events in it anyway, so the look-up leaves out its part.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from hedgerow.events.model import EventKey
from hedgerow.lib.optional_packages import import_package
from hedgerow.projects.model import ProjectId
from hedgerow.storage.events.clickhouse import fetch_rows, is_damage, translate_error
from hedgerow.storage.events.schema import TABLE

if TYPE_CHECKING:
    from hedgerow.storage.events.uuid_bloom_filter import UuidBloomFilter

# A server accepts form fields of up to 128 KiB.
MAX_IDS_PER_STATEMENT = 2_500
# How many bytes of UUIDs are read at a time when the filter is loaded.
UUID_READ_BYTES = 16 << 18
UUID_FILTER_MODULE = "hedgerow.storage.events.uuid_bloom_filter"

ALL_PARTS = "1"
_ACTIVE_PARTS = """
    SELECT name FROM system.parts
    WHERE active AND database = currentDatabase() AND table = {table:String}
"""

Item = TypeVar("Item")


class ReadableParts:
    """The parts of the table of events that are not known to be damaged. Damaged parts keep their
    names, because the engine cannot merge them."""

    def __init__(self, report: Callable[[Exception], None]) -> None:
        """`report` gets the error of each part that is found to be damaged."""
        self._damaged: set[str] = set()
        self._report = report

    def read(self, client: Client, read: Callable[[str], Item]) -> Item:
        """Call `read` with an SQL condition for the parts that it may read. If it fails, look for
        damaged parts, and call it again without them."""
        while True:
            try:
                return read(self._build_condition())
            except (Error, OSError) as error:
                if not is_damage(translate_error(error)):
                    raise
                damaged = dict(self._find_damaged(client, read))
                if not damaged:
                    raise
            for reason in damaged.values():
                self._report(reason)
            self._damaged.update(damaged)

    def _build_condition(self) -> str:
        names = ", ".join(f"'{name}'" for name in sorted(self._damaged))
        return f"_part NOT IN ({names})" if names else ALL_PARTS

    def _find_damaged(
        self, client: Client, read: Callable[[str], Item]
    ) -> Iterator[tuple[str, Exception]]:
        names = {row["name"] for row in fetch_rows(client, _ACTIVE_PARTS, {"table": TABLE})}
        for name in sorted(names - self._damaged):
            try:
                read(f"_part = '{name}'")
            except (Error, OSError) as error:
                if not is_damage(translate_error(error)):
                    raise
                yield name, error


def load_uuids(client: Client, parts: str) -> "UuidBloomFilter":
    """Return a filter with the UUIDs of some parts."""
    # The maximum reads all of them, so that an error because of damage comes with its code. In the
    # middle of a result an error only breaks the connection.
    sql = f"SELECT count() AS count, max(uuid) FROM {TABLE} WHERE {parts}"  # noqa: S608
    (row,) = fetch_rows(client, sql, {})
    # Imported on demand: a server needs neither the filter nor numpy.
    memory: UuidBloomFilter = import_package(UUID_FILTER_MODULE).UuidBloomFilter(row["count"])
    sql = f"SELECT uuid FROM {TABLE} WHERE {parts}"  # noqa: S608
    with client.raw_stream(sql, fmt="RowBinary") as stream:
        while uuids := stream.read(UUID_READ_BYTES):
            memory.add_stored(uuids)
    return memory


def find_stored(client: Client, keys: Sequence[EventKey], parts: str) -> dict[EventKey, datetime]:
    """Return when those of these events that are stored in some parts were accepted."""
    found = {}
    for some in split_ids(keys):
        params = {"projects": [*{project for project, _ in some}], "uuids": [u for _, u in some]}
        sql = f"""
            SELECT project_id, uuid, created_at FROM {TABLE}
            WHERE project_id IN {{projects:Array(Int64)}} AND uuid IN {{uuids:Array(UUID)}}
            AND {parts}
        """  # noqa: S608
        for row in fetch_rows(client, sql, params):
            found[ProjectId(row["project_id"]), str(row["uuid"])] = row["created_at"]
    return found


def split_ids(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), MAX_IDS_PER_STATEMENT):
        yield items[start : start + MAX_IDS_PER_STATEMENT]
