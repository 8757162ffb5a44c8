"""Results of queries as the bytes of ClickHouse's Native format, and their conversion to Python.

The size is limited while the bytes are read, because the conversion needs many times more memory.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

import structlog
from clickhouse_connect.driver import ctypes
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import OperationalError
from clickhouse_connect.driver.external import ExternalData
from clickhouse_connect.driver.query import QueryContext
from clickhouse_connect.driver.transform import NativeTransform
from urllib3.exceptions import HTTPError
from urllib3.response import HTTPResponse

from hedgerow.errors import Invalid
from hedgerow.events.store import QueryResult, ResultTooLarge

_UNREPRESENTABLE = (
    "The result has a value that cannot be returned, such as a date outside of the years 1 to 9999."
    " Convert it with toString()."
)

_log = structlog.get_logger("hedgerow.events")


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeResult:
    """`types` is known if there are no rows. `zone` is that of times without one."""

    data: bytes
    has_block_info: bool
    types: list[str]
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class NativeQuery:
    """`tables` are sent with the query: each has a column `k`, and its rows as TabSeparated."""

    sql: str
    parameters: Mapping[str, Any]
    tables: Mapping[str, bytes] = field(default_factory=dict)

    def build_external_data(self) -> ExternalData | None:
        """Build ClickHouse's external tables. They exist for the query alone."""
        if not self.tables:
            return None
        data = ExternalData()
        for name, rows in self.tables.items():
            data.add_file(file_name=name, data=rows, fmt="TabSeparated", structure="k String")
        return data


def fetch_native(
    client: Client, query: NativeQuery, settings: Mapping[str, Any], max_bytes: int
) -> NativeResult:
    """Run a query and read its result. Raises ResultTooLarge as soon as it exceeds `max_bytes`."""
    transport: dict[str, Any] = {"wait_end_of_query": 1}
    if client.protocol_version:
        transport["client_protocol_version"] = client.protocol_version
    response = client.raw_stream(
        query.sql,
        parameters=dict(query.parameters),
        settings={**transport, **settings},
        fmt="Native",
        external_data=query.build_external_data(),
    )
    assert isinstance(response, HTTPResponse)
    data = _read_at_most(response, max_bytes)
    types = [] if data else _describe_columns(client, query, settings)
    return NativeResult(
        data=data,
        has_block_info=bool(client.protocol_version),
        types=types,
        zone=client.server_tz,
    )


def _read_at_most(response: HTTPResponse, max_bytes: int) -> bytes:
    try:
        data = response.read(max_bytes + 1)
    except HTTPError as error:
        response.close()
        raise OperationalError("The response ended early.") from error
    if len(data) > max_bytes:
        response.close()
        raise ResultTooLarge
    response.release_conn()
    return data


def decode_native(result: NativeResult) -> QueryResult:
    """Convert a result to Python values. Raises Invalid for a value that Python lacks."""
    context = QueryContext(query_tz=result.zone, tz_mode="aware")
    context.block_info = result.has_block_info
    if not result.data:
        return QueryResult(types=result.types, rows=[])
    try:
        # The C implementation replaces this class when the driver is loaded.
        buffer: Any = ctypes.RespBuffCls(_Bytes(result.data))  # type: ignore[no-untyped-call]
        decoded: Any = NativeTransform.parse_response(buffer, context)
        types = [each.name for each in decoded.column_types]
        return QueryResult(types=types, rows=decoded.result_rows)
    except MemoryError:
        raise
    except Exception as error:
        # The driver raises many kinds of errors for values that it cannot convert.
        _log.info("result not decoded", reason=repr(error))
        raise Invalid(_UNREPRESENTABLE, code="invalid_query") from error


class _Bytes:
    """A source for the driver's buffer."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.last_message: bytes | None = None
        self.exception_tag: str | None = None

    @property
    def gen(self) -> Iterator[bytes]:
        return iter((self._data,))

    def close(self) -> None:
        """There is nothing to close."""


def _describe_columns(client: Client, query: NativeQuery, settings: Mapping[str, Any]) -> list[str]:
    """Return the column types of an empty result, which the engine omits."""
    description = client.query(
        f"DESCRIBE ({query.sql})",
        parameters=dict(query.parameters),
        settings=dict(settings),
        external_data=query.build_external_data(),
    )
    return [row["type"] for row in description.named_results()]
