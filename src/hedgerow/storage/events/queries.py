"""Queries with user input: read-only, limited, and with error messages that do not expose the
engine's own text.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import structlog
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error

from hedgerow.errors import AppError, Invalid, Unavailable
from hedgerow.events.store import EventReader, QueryLimits, QueryResult, ResultTooLarge, Shape
from hedgerow.lib.threads import consume_exception, run_in_thread
from hedgerow.lib.workers.function_pool import FunctionPool
from hedgerow.lib.workers.pool import PoolFull
from hedgerow.lib.workers.process import WorkerDied
from hedgerow.storage.events.clickhouse import (
    NO_ANSWER,
    TOO_MANY_ROWS,
    PooledClient,
    translate_error,
)
from hedgerow.storage.events.native_results import (
    NativeQuery,
    NativeResult,
    decode_native,
    fetch_native,
)

T = TypeVar("T")

MIB = 1 << 20
# As many queries as the QueryLimiter admits must fit into the memory of the embedded engine.
MAX_QUERY_MEMORY_BYTES = 256 * MIB
MEMORY_LIMIT_EXCEEDED = 241
# The engine checks its time limit between blocks only. After this time the query is killed, which
# takes effect between blocks too; then its connection is closed, and with it an embedded engine.
GRACE_S = 1.0
KILL_TIMEOUT_S = 1.0
KILL_INTERVAL_S = 0.1
ABORT_TIMEOUT_S = 5.0
# A query that has run for longer is not repeated if the engine was killed because of another one.
MAX_REPEATED_AGE_S = 5.0
# A larger result is shaped by a worker process: it would hold the interpreter lock for too long.
MAX_INLINE_BYTES = 128 << 10
# Distinguishes the limit of the query from that of the server, in newer and older engines.
_QUERY_MEMORY_LIMIT = re.compile(r"Query memory limit|\(for query\)")

_TIMEOUT = "The query takes too long. Query a shorter time range or fewer columns."
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

    async def run_abortable(self, work: Callable[[PooledClient], T]) -> T: ...

    async def abort(self, leased: PooledClient) -> None: ...


class ClickHouseEventReader(EventReader):
    """Runs read-only queries. `reached` opens the event store on demand; `workers` shape large
    results."""

    def __init__(
        self,
        reached: Callable[[], Awaitable[ClientRunner]],
        workers: FunctionPool | None = None,
        reads_typed_columns: Callable[[], bool] = lambda: False,
    ) -> None:
        self._open_store = reached
        self._workers = workers
        self._running: set[_QueryRun] = set()
        self._reads_typed_columns = reads_typed_columns

    @property
    def reads_typed_columns(self) -> bool:
        return self._reads_typed_columns()

    async def read(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        limits: QueryLimits,
        tables: Mapping[str, bytes] = {},
    ) -> QueryResult:
        result = await self._fetch(NativeQuery(sql, parameters, tables), limits)
        return await run_in_thread(lambda: decode_native(result))

    async def read_shaped(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        limits: QueryLimits,
        shape: Shape[T],
        tables: Mapping[str, bytes] = {},
    ) -> T:
        result = await self._fetch(NativeQuery(sql, parameters, tables), limits)
        if self._workers is None or len(result.data) <= MAX_INLINE_BYTES:
            return await run_in_thread(lambda: _decode_and_shape(result, shape))
        try:
            return await self._workers.run(partial(_decode_and_shape, result, shape), limits.sender)
        except PoolFull:
            raise Unavailable("Too many large results are being encoded.") from None
        except WorkerDied as error:
            _log.info("large result not encoded", reason=str(error))
            raise ResultTooLarge from error

    async def _fetch(self, query: NativeQuery, limits: QueryLimits) -> NativeResult:
        run = _QueryRun(await self._open_store(), query, limits)
        self._running.add(run)
        try:
            await run.wait()
            if run.task.done():
                return run.task.result()
        finally:
            if not run.task.done():
                await self._end(run)
            self._running.discard(run)
        if run.is_server_silent:
            raise Unavailable(NO_ANSWER)
        raise Invalid(_TIMEOUT, code="query_limit_exceeded")

    async def _end(self, run: "_QueryRun") -> None:
        """End the query, even if the caller is cancelled again."""
        await asyncio.shield(asyncio.create_task(self._end_or_abort(run)))

    async def _end_or_abort(self, run: "_QueryRun") -> None:
        await run.kill()
        if run.task.done() or run.leased is None:
            return
        _log.warning("a query does not end and is aborted", seconds=round(run.age_s, 1))
        if run.limits.on_abort is not None and not run.is_server_silent:
            run.limits.on_abort()
        for other in self._running:
            # Repeating a long query could end in the same way.
            if other.age_s > MAX_REPEATED_AGE_S and other.leased is not None:
                other.leased.sockets.refuse_reconnects()
        await run.abort()


def _decode_and_shape(result: NativeResult, shape: Shape[T]) -> T:
    return shape(decode_native(result))


class _QueryRun:
    """A query that runs in a thread. Its time begins when it is sent to the engine, again if the
    engine was restarted in between."""

    def __init__(self, store: ClientRunner, query: NativeQuery, limits: QueryLimits) -> None:
        # chDB does not let the caller choose query ids, so tag the query with a comment.
        self._tag = uuid4().hex
        self._store = store
        self._query = query
        self._is_ended = False
        self._started_at = 0.0
        self.limits = limits
        self.leased: PooledClient | None = None
        # Whether a server answers nothing. An embedded engine that does so is busy with the query.
        self.is_server_silent = False
        self.task = asyncio.create_task(store.run_abortable(self._work))

    @property
    def age_s(self) -> float:
        if self.leased is None:
            return 0.0
        return time.monotonic() - max(self._started_at, self.leased.sockets.connected_at)

    async def wait(self) -> None:
        """Wait until the query has ended, or should have."""
        limit_s = self.limits.timeout_s + GRACE_S
        while not self.task.done() and (left_s := limit_s - self.age_s) > 0:
            await asyncio.wait({self.task}, timeout=left_s)

    async def kill(self) -> None:
        """Kill the query and wait a moment until it has ended. It may not have started yet, so
        repeat the KILL."""
        self._is_ended = True
        if self.leased is not None:
            self.leased.sockets.refuse_reconnects()
        ending = "KILL QUERY WHERE Settings['log_comment'] = {tag:String} ASYNC"
        deadline = time.monotonic() + KILL_TIMEOUT_S
        is_answered = self.task.done()
        while not self.task.done() and time.monotonic() < deadline:
            killing = asyncio.create_task(
                self._store.run(lambda client: client.query(ending, parameters={"tag": self._tag}))
            )
            killing.add_done_callback(consume_exception)
            await asyncio.wait({killing}, timeout=KILL_TIMEOUT_S)
            await asyncio.wait({self.task}, timeout=KILL_INTERVAL_S)
            is_answered = is_answered or killing.done() or self.task.done()
        is_server = self.leased is not None and not self.leased.sockets.is_embedded
        self.is_server_silent = is_server and not is_answered
        self.task.add_done_callback(consume_exception)

    async def abort(self) -> None:
        assert self.leased is not None
        await self._store.abort(self.leased)
        await asyncio.wait({self.task}, timeout=ABORT_TIMEOUT_S)

    def _work(self, leased: PooledClient) -> NativeResult:
        self._started_at = time.monotonic()
        self.leased = leased
        if self._is_ended:  # while it waited for a client
            raise Unavailable
        settings = {"log_comment": self._tag, **_build_settings(self.limits)}
        try:
            return fetch_native(leased.client, self._query, settings, self.limits.max_bytes)
        except Error as error:
            raise _translate_query_error(error) from error


def _build_settings(limits: QueryLimits) -> dict[str, Any]:
    """`readonly` must be last: after it, no other setting can be changed."""
    return {
        "max_execution_time": limits.timeout_s,
        "timeout_overflow_mode": "break" if limits.is_partial_on_timeout else "throw",
        "max_result_rows": limits.max_rows,
        "max_result_bytes": limits.max_bytes,
        "max_memory_usage": MAX_QUERY_MEMORY_BYTES,
        # A part of the events must not look like all of them.
        "skip_unavailable_shards": 0,
        # A page of the newest events would read ahead in months that it does not need.
        "read_in_order_use_buffering": 0,
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
