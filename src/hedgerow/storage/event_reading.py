"""Queries that somebody outside has a part in: read-only, within limits, and whatever is wrong with
one is told without a word of the engine's own.
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
from hedgerow.events.store import Answer, AnswerTooLarge, Limits
from hedgerow.storage.clickhouse import TOO_MANY_ROWS, translated

T = TypeVar("T")

MIB = 1 << 20
# As many as the gate lets through at once must fit into what the embedded engine has.
MAX_MEMORY = 256 * MIB
NOT_ENOUGH_MEMORY = 241
END_EVERY_S = 0.1
# The query's own limit, as newer and older engines call it.
_OWN_MEMORY = re.compile(r"Query memory limit|\(for query\)")

_TYPES = "A function or an operator got a value of a type that it does not take."
_REASONS = {
    6: "A text cannot be read as the type that is asked of it.",
    10: "There is no such column here.",
    27: "A text cannot be read as the type that is asked of it.",
    36: "A function got arguments that it does not take.",
    38: "A text cannot be read as a date.",
    41: "A text cannot be read as a date.",
    42: "A function got more or fewer arguments than it takes.",
    43: _TYPES,
    44: "A function needs a constant where it got an expression.",
    46: "There is no such function.",
    47: "There is no such column here.",
    50: "There is no such type.",
    53: _TYPES,
    62: "The query cannot be read.",
    69: "A number is out of the range that is possible.",
    70: "A value cannot be converted to the type that is asked of it.",
    72: "A text cannot be read as a number.",
    130: "An array cannot be read.",
    131: "A text is too long.",
    152: "An array or a number is not of the size that is needed.",
    153: "Nothing can be divided by zero.",
    158: "The query reads more than is possible: ask for a shorter time or for less.",
    173: "The query makes something that is too large.",
    179: "A name is used for several things.",
    184: "An aggregation cannot be used there.",
    190: "Arrays of one length are needed.",
    207: "A name may mean several things.",
    215: "A column must be aggregated, or be grouped by.",
    307: "The query reads more than is possible: ask for a shorter time or for less.",
    349: "A value cannot be null there.",
    386: "The values that are compared or joined are of different types.",
    407: "A number is out of the range that is possible.",
    427: "A regular expression cannot be read.",
}
_UNKNOWN = "The query cannot be run as it is."

_log = structlog.get_logger("hedgerow.events")


class RunsWork(Protocol):
    async def run(self, work: Callable[[Client], T]) -> T: ...


class EventQueries:
    """Reads for those who ask from outside. `reached` opens the event store if need be."""

    def __init__(self, reached: Callable[[], Awaitable[RunsWork]]) -> None:
        self._reached = reached

    async def read(self, sql: str, parameters: Mapping[str, Any], limits: Limits) -> Answer:
        store = await self._reached()
        # The engine's own query ids are not ours to choose in chDB.
        tag = uuid4().hex
        settings = {"log_comment": tag, **_settings(limits)}

        def work(client: Client) -> Answer:
            try:
                result = client.query(sql, parameters=dict(parameters), settings=settings)
                types = [each.name for each in result.column_types]
                return Answer(
                    types=types or _types(client, sql, parameters, settings),
                    rows=result.result_rows,
                )
            except Error as error:
                raise _refused(error) from error

        running = asyncio.create_task(store.run(work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await _end(store, tag, running)
            raise


async def _end(store: RunsWork, tag: str, running: "asyncio.Task[Answer]") -> None:
    """Nobody waits for a query any more: it need not go on. Who follows waits until it is over. It
    may not have begun yet, so it is told again and again."""
    ending = "KILL QUERY WHERE Settings['log_comment'] = {tag:String} ASYNC"
    while not running.done():
        with suppress(AppError, Error):
            await store.run(lambda client: client.query(ending, parameters={"tag": tag}))
        await asyncio.wait({running}, timeout=END_EVERY_S)
    if not running.cancelled():
        running.exception()  # looked at, so that asyncio does not complain


def _types(
    client: Client, sql: str, parameters: Mapping[str, Any], settings: dict[str, Any]
) -> list[str]:
    """Of the columns of an answer without rows, which comes without columns too."""
    told = client.query(f"DESCRIBE ({sql})", parameters=dict(parameters), settings=settings)
    return [row["type"] for row in told.named_results()]


def _settings(limits: Limits) -> dict[str, Any]:
    """Read-only comes last: after it, no other setting may be changed."""
    return {
        "max_execution_time": limits.timeout_s,
        "timeout_overflow_mode": "break" if limits.is_enough_in_time else "throw",
        "max_result_rows": limits.max_rows,
        "max_result_bytes": limits.max_bytes,
        "max_memory_usage": MAX_MEMORY,
        "readonly": 1,
    }


def _refused(error: Error) -> Exception:
    """Unavailable when the engine is away, Invalid when it is the query."""
    if error.code == NOT_ENOUGH_MEMORY and _OWN_MEMORY.search(str(error)):
        detail = "The query needs too much memory: ask for a shorter time or for less."
        return AnswerTooLarge(detail)
    if error.code == TOO_MANY_ROWS:
        return AnswerTooLarge("The answer is too large: ask for fewer rows or for less of each.")
    known = translated(error)
    if isinstance(known, AppError):
        return known
    _log.info("a query cannot be run", code=error.code, name=error.name)
    return Invalid(_REASONS.get(error.code or 0, _UNKNOWN), code="invalid_query")
