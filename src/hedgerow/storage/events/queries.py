"""Queries with user input: read-only, limited, and with error messages that do not expose the
engine's own text.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import structlog
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from hedgerow.errors import AppError, Invalid
from hedgerow.events.store import EventReader, QueryLimits, QueryResult, ResultTooLarge
from hedgerow.storage.events.clickhouse import TOO_MANY_ROWS, translate_error

T = TypeVar("T")

MIB = 1 << 20
# As many queries as the QueryLimiter admits must fit into the memory of the embedded engine.
MAX_QUERY_MEMORY_BYTES = 256 * MIB
MEMORY_LIMIT_EXCEEDED = 241
KILL_INTERVAL_S = 0.1
# Distinguishes the limit of the query from that of the server, in newer and older engines.
_QUERY_MEMORY_LIMIT = re.compile(r"Query memory limit|\(for query\)")

_TYPE_MISMATCH = "A function or operator received a value of an unsupported type."
_REASONS = {
    6: "A string cannot be parsed as the requested type.",
    10: "Unknown column.",
    27: "A string cannot be parsed as the requested type.",
    36: "A function received invalid arguments.",
    38: "A string cannot be parsed as a date.",
    41: "A string cannot be parsed as a date.",
    42: "A function received the wrong number of arguments.",
    43: _TYPE_MISMATCH,
    44: "A function argument must be a constant, not an expression.",
    46: "Unknown function.",
    47: "Unknown column.",
    50: "Unknown type.",
    53: _TYPE_MISMATCH,
    62: "The query has a syntax error.",
    69: "A number is out of range.",
    70: "A value cannot be converted to the requested type.",
    72: "A string cannot be parsed as a number.",
    130: "A string cannot be parsed as an array.",
    131: "A string is too long.",
    152: "An array or a number has the wrong size.",
    153: "Division by zero.",
    158: "The query reads too much data. Query a shorter time range or fewer columns.",
    173: "The query creates a value that is too large.",
    179: "An alias is used for several expressions.",
    184: "An aggregate function is not allowed there.",
    190: "Arrays must have the same length.",
    207: "An identifier is ambiguous.",
    215: "A column must be aggregated or listed in GROUP BY.",
    307: "The query reads too much data. Query a shorter time range or fewer columns.",
    349: "A value must not be null there.",
    386: "Compared or joined values have different types.",
    407: "A number is out of range.",
    427: "Invalid regular expression.",
}
_UNKNOWN_REASON = "The query cannot be executed. Check its functions, types and limits."

_log = structlog.get_logger("hedgerow.events")


class ClientRunner(Protocol):
    async def run(self, work: Callable[[Client], T]) -> T: ...


class ClickHouseEventReader(EventReader):
    """Runs read-only queries. `reached` opens the event store on demand."""

    def __init__(self, reached: Callable[[], Awaitable[ClientRunner]]) -> None:
        self._open_store = reached

    async def read(
        self, sql: str, parameters: Mapping[str, Any], limits: QueryLimits
    ) -> QueryResult:
        store = await self._open_store()
        # chDB does not let the caller choose query ids, so tag the query with a comment.
        tag = uuid4().hex
        settings = {"log_comment": tag, **_build_settings(limits)}

        def work(client: Client) -> QueryResult:
            try:
                result = client.query(sql, parameters=dict(parameters), settings=settings)
                types = [each.name for each in result.column_types]
                return QueryResult(
                    types=types or _describe_columns(client, sql, parameters, settings),
                    rows=result.result_rows,
                )
            except Error as error:
                raise _translate_query_error(error) from error

        running = asyncio.create_task(store.run(work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await _kill_query(store, tag, running)
            raise


async def _kill_query(store: ClientRunner, tag: str, running: asyncio.Task[QueryResult]) -> None:
    """Kill a query whose caller was cancelled, and wait until it has ended.

    The query may not have started yet, so repeat the KILL.
    """
    ending = "KILL QUERY WHERE Settings['log_comment'] = {tag:String} ASYNC"
    while not running.done():
        with suppress(AppError, Error):
            await store.run(lambda client: client.query(ending, parameters={"tag": tag}))
        await asyncio.wait({running}, timeout=KILL_INTERVAL_S)
    if not running.cancelled():
        running.exception()  # retrieved, so that asyncio does not log it


def _describe_columns(
    client: Client, sql: str, parameters: Mapping[str, Any], settings: dict[str, Any]
) -> list[str]:
    """Return the column types of an empty result, which the driver omits."""
    description = client.query(f"DESCRIBE ({sql})", parameters=dict(parameters), settings=settings)
    return [row["type"] for row in description.named_results()]


def _build_settings(limits: QueryLimits) -> dict[str, Any]:
    """`readonly` must be last: after it, no other setting can be changed."""
    return {
        "max_execution_time": limits.timeout_s,
        "timeout_overflow_mode": "break" if limits.is_partial_on_timeout else "throw",
        "max_result_rows": limits.max_rows,
        "max_result_bytes": limits.max_bytes,
        "max_memory_usage": MAX_QUERY_MEMORY_BYTES,
        "readonly": 1,
    }


def _translate_query_error(error: Error) -> Exception:
    """Return Unavailable if the engine is unavailable, Invalid if the query is wrong."""
    if error.code == MEMORY_LIMIT_EXCEEDED and _QUERY_MEMORY_LIMIT.search(str(error)):
        detail = "The query needs too much memory. Query a shorter time range or fewer columns."
        return ResultTooLarge(detail)
    if error.code == TOO_MANY_ROWS:
        return ResultTooLarge("The result is too large. Lower the LIMIT or select fewer columns.")
    known = translate_error(error)
    if isinstance(known, AppError):
        return known
    _log.info("query rejected", code=error.code, name=error.name)
    return Invalid(_REASONS.get(error.code or 0, _UNKNOWN_REASON), code="invalid_query")
