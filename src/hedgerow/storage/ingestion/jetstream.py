"""The connection to NATS JetStream: the stream of the inbox, its messages, and what is in it.

The rows that requests add at about the same time become one message, which the server acknowledges
when it has stored it. Every process follows the headers of all messages, so that its readers know
what other processes accepted.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
import structlog

from hedgerow.errors import Unavailable
from hedgerow.lib import jsonio
from hedgerow.lib.eager import ensure_task
from hedgerow.lib.optional_packages import import_package
from hedgerow.storage.engine.database import Database
from hedgerow.storage.ingestion.inbox_packing import DECODE_ERRORS
from hedgerow.storage.ingestion.nats_connection import (
    REQUEST_TIMEOUT_S,
    JetStreamConnection,
    StreamError,
    StreamState,
    ensure_stream,
    fetch_message,
    make_era,
    read_answer,
    read_place,
    update_stream,
)
from hedgerow.storage.ingestion.stream_index import (
    MAX_KEYS_PER_MESSAGE,
    MAX_ROWS_PER_MESSAGE,
    StreamIndex,
    StreamRow,
    decode_summary,
    encode_summary,
    make_row_id,
)
from hedgerow.storage.ingestion.stream_positions import begin_era, fetch_positions

SUMMARY_HEADER = "Hedgerow-Rows"
# Rows of several requests share a message of this size. A row alone may be larger.
MESSAGE_BYTES = 512 << 10
MESSAGES_IN_FLIGHT = 2
# How many messages the server sends ahead, and how long a request for them lasts.
FOLLOW_BATCH = 1000
FOLLOW_S = 20
# How long an operation waits for the connection.
OPEN_TIMEOUT_S = 3.0
RETRY_S = 0.25
# Look again after this time whether a message that did not arrive is still there.
CATCH_UP_S = 0.1
CACHE_BYTES = 32 << 20
INACTIVE_S = 60
NANOSECONDS = 1_000_000_000
FULL_ERRORS = frozenset({10047, 10077})
RETRY_AFTER_S = 10
AWAY = "The inbox cannot be reached. Try again shortly."
# The server removes what is before a message, but everything if this is the first one.
PURGE_ALL = 1

_log = structlog.get_logger("hedgerow.inbox")
_encode_rows = msgspec.msgpack.Encoder().encode


class _Addition:
    """Rows that wait to be sent."""

    __slots__ = ("accepted_ms", "done", "keys", "rows", "size")

    def __init__(
        self, rows: Sequence[StreamRow], keys: Sequence[Sequence[int]], accepted_ms: int
    ) -> None:
        self.rows = rows
        self.keys = keys
        self.accepted_ms = accepted_ms
        self.size = sum(len(row.events) for row in rows)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class InboxStream:
    """The stream, through one connection at a time. It opens with its first use."""

    def __init__(self, url: str, max_bytes: int, database: Database) -> None:
        self._url = url
        self._max_bytes = max_bytes
        self._database = database
        self._connection: JetStreamConnection | None = None
        self._opened = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None
        self._problem = ""
        self.era = ""
        self.index = StreamIndex()
        # Set when a message arrives.
        self._news = asyncio.Event()
        self._additions: deque[_Addition] = deque()
        self._senders: set[asyncio.Task[None]] = set()
        self._next_state: asyncio.Task[StreamState] | None = None
        self._current_state: asyncio.Task[StreamState] | None = None
        self._cache: OrderedDict[int, Sequence[StreamRow]] = OrderedDict()
        self._cached_bytes = 0
        self._purged = PURGE_ALL

    async def open(self) -> JetStreamConnection:
        """Return the open connection, after waiting for the first one. Raises Unavailable."""
        if self._follower is None:
            self._follower = asyncio.create_task(self._run())
        if self._connection is None and not self._problem:
            with suppress(TimeoutError):
                async with asyncio.timeout(OPEN_TIMEOUT_S):
                    await self._opened.wait()
        if self._connection is None:
            raise Unavailable(AWAY)
        return self._connection

    async def close(self) -> None:
        if self._follower is None:
            return
        self._follower.cancel()
        with suppress(asyncio.CancelledError):
            await self._follower
        await asyncio.gather(*self._senders, return_exceptions=True)

    # Sending

    async def add(
        self, rows: Sequence[StreamRow], keys: Sequence[Sequence[int]], accepted_ms: int
    ) -> None:
        """Store rows, together with those of other callers. Raises Unavailable; the server may have
        stored them nevertheless."""
        await ensure_task()
        await self.open()
        made = [
            _Addition(rows[start:end], keys[start:end], accepted_ms)
            for start, end in _split_rows(rows)
        ]
        self._additions += made
        if len(self._senders) < MESSAGES_IN_FLIGHT:
            sender = asyncio.create_task(self._send())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        if len(made) == 1:  # nearly always
            await made[0].done
        else:
            await asyncio.gather(*(each.done for each in made))

    async def _send(self) -> None:
        """Send messages until no rows wait."""
        while self._additions:
            taken = self._take_additions()
            try:
                await self._send_message(taken)
            except Exception as error:  # noqa: BLE001 - those who wait for it raise it
                _finish(taken, error)
            else:
                _finish(taken, None)

    def _take_additions(self) -> list[_Addition]:
        taken = [self._additions.popleft()]
        size, rows = taken[0].size, len(taken[0].rows)
        keys = sum(map(len, taken[0].keys))
        while self._additions:
            following = self._additions[0]
            size += following.size
            rows += len(following.rows)
            keys += sum(map(len, following.keys))
            if size > MESSAGE_BYTES or rows > MAX_ROWS_PER_MESSAGE or keys > MAX_KEYS_PER_MESSAGE:
                break
            taken.append(self._additions.popleft())
        return taken

    async def _send_message(self, additions: Sequence[_Addition]) -> None:
        rows = [row for each in additions for row in each.rows]
        keys = [of_row for each in additions for of_row in each.keys]
        summary = encode_summary(rows, keys, min(each.accepted_ms for each in additions))
        connection = await self.open()
        try:
            answer = await connection.request(
                f"{connection.stream}.{self.era}", _encode_rows(rows), {SUMMARY_HEADER: summary}
            )
            read_answer(answer)
        except StreamError as error:
            if error.code in FULL_ERRORS:
                raise Unavailable(
                    "Too many events wait to be processed. Try again later.",
                    retry_after_s=RETRY_AFTER_S,
                ) from error
            raise Unavailable(AWAY) from error

    # Reading

    async def catch_up(self, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Learn of every message that is acknowledged at this moment. Raises Unavailable."""
        await ensure_task()
        try:
            async with asyncio.timeout(timeout_s):
                await self.open()
                state = await self._fetch_state()
                while not self._knows(state):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(CATCH_UP_S):
                            while not self._knows(state):
                                self._news.clear()
                                await self._news.wait()
                            return
                    # Perhaps the message is processed, and gone.
                    first = (await self._fetch_state()).first
                    self.index.skip(min(first - 1, state.last))
        except (StreamError, TimeoutError) as error:
            raise Unavailable(AWAY) from error

    def _knows(self, state: StreamState) -> bool:
        if state.era == self.era:
            self.index.skip(min(state.first - 1, state.last))
            return self.index.last_sequence >= state.last
        return False

    async def _fetch_state(self) -> StreamState:
        """Return the state of the stream after this call. Callers share a request if it has not
        begun."""
        if self._next_state is None:
            self._next_state = asyncio.create_task(self._ask_state(self._current_state))
        return await asyncio.shield(self._next_state)

    async def _ask_state(self, before: asyncio.Task[StreamState] | None) -> StreamState:
        if before is not None:
            await asyncio.wait({before})
        self._current_state, self._next_state = self._next_state, None
        connection = self._connection
        if connection is None:
            raise StreamError("The connection to NATS is lost.")
        return await connection.fetch_state()

    async def fetch_messages(self, sequences: Sequence[int]) -> Mapping[int, Sequence[StreamRow]]:
        """Return the rows of messages, without those that do not exist. Raises Unavailable."""
        connection = await self.open()
        missing = [each for each in sequences if each not in self._cache]
        try:
            found = await asyncio.gather(*(fetch_message(connection, each) for each in missing))
        except StreamError as error:
            raise Unavailable(AWAY) from error
        rows = {each: self._cache[each] for each in sequences if each in self._cache}
        rows.update({each: of for each, of in zip(missing, found, strict=True) if of is not None})
        for each, of_message in rows.items():
            if each not in self._cache:
                self._cache[each] = of_message
                self._cached_bytes += _measure(of_message)
        while self._cached_bytes > CACHE_BYTES:
            _, oldest = self._cache.popitem(last=False)
            self._cached_bytes -= _measure(oldest)
        return rows

    async def purge(self) -> None:
        """Let the server forget what is processed. Does nothing while it cannot be reached."""
        connection, first = self._connection, self.index.first_sequence
        if connection is None or first <= self._purged:
            return
        with suppress(StreamError):
            await connection.call(f"STREAM.PURGE.{connection.stream}", {"seq": first})
            self._purged = first

    # Following

    async def _run(self) -> None:
        """Keep a connection open, and follow the stream."""
        while True:
            connection = JetStreamConnection(self._url)
            try:
                await connection.open()
                await self._prepare(connection)
                await self._follow(connection)
            except (StreamError, Unavailable) as error:
                if str(error) != self._problem:
                    _log.warning("inbox stream", problem=str(error))
                self._problem = str(error)
            except Exception:  # noqa: BLE001 - the next connection may work
                _log.exception("inbox stream")
            finally:
                self._connection = None
                self._opened.clear()
                await connection.close()
            await asyncio.sleep(RETRY_S)

    async def _prepare(self, connection: JetStreamConnection) -> None:
        """Create the stream if it is missing, and begin another era if it lost messages."""
        state = await ensure_stream(connection, self._max_bytes)
        # In this order: a position that is committed by now is in the stream.
        positions = await fetch_positions(self._database, state.era)
        state = await connection.fetch_state()
        last = make_row_id(state.last + 1, 0) - 1
        if any(position.last_id > last for position in positions.values()):
            _log.error("the inbox stream lost messages that were processed already")
            era = make_era()
            await begin_era(self._database, state.era, era, last)
            subject = f"{connection.stream}.{era}"
            await update_stream(connection, {"subjects": [subject]})
            state = await connection.fetch_state()
        if state.era != self.era or state.last < self.index.last_sequence:
            self.era, self.index, self._purged = state.era, StreamIndex(), PURGE_ALL
            self._cache.clear()
            self._cached_bytes = 0

    async def _follow(self, connection: JetStreamConnection) -> None:
        """Add the messages to the index as they come. Ends with StreamError."""
        nats = import_package("nats")
        stream, next_sequence = connection.stream, self.index.last_sequence + 1
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": next_sequence,
            "ack_policy": "none",
            "replay_policy": "instant",
            "headers_only": True,
            "mem_storage": True,
            "inactive_threshold": INACTIVE_S * NANOSECONDS,
        }
        made = await connection.call(
            f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config}
        )
        reply, messages = await connection.subscribe()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{made['name']}"
        body = jsonio.encode({"batch": FOLLOW_BATCH, "expires": FOLLOW_S * NANOSECONDS})
        expected, wanted = 1, 0
        self._connection, self._problem = connection, ""
        self._opened.set()
        while True:
            if not wanted:
                await connection.publish(subject, body, reply)
                wanted = FOLLOW_BATCH
            try:
                message = await messages.next_msg(timeout=2 * FOLLOW_S)
            except (OSError, TimeoutError, nats.errors.Error) as error:
                raise StreamError("The connection to NATS is lost.") from error
            headers = message.headers or {}
            if "Status" in headers and SUMMARY_HEADER not in headers:
                wanted = 0
                if headers["Status"] not in ("404", "408"):
                    raise StreamError(f"NATS ended the subscription: {headers['Status']}")
                continue
            wanted -= 1
            sequence, delivered = read_place(message.reply)
            if delivered != expected:
                raise StreamError("A message of NATS was lost on the way.")
            expected += 1
            if SUMMARY_HEADER in headers:
                # Only Hedgerow writes to the stream; what others wrote is left out.
                with suppress(*DECODE_ERRORS):
                    self.index.add(sequence, decode_summary(headers[SUMMARY_HEADER]))
            self.index.skip(sequence)
            self._news.set()


def _split_rows(rows: Sequence[StreamRow]) -> list[tuple[int, int]]:
    """Split the rows of a request into parts for messages."""
    parts, start, size = [], 0, 0
    for number, row in enumerate(rows):
        size += len(row.events)
        if number > start and (size > MESSAGE_BYTES or number - start >= MAX_ROWS_PER_MESSAGE):
            parts.append((start, number))
            start, size = number, len(row.events)
    return [*parts, (start, len(rows))]


def _finish(additions: Sequence[_Addition], error: Exception | None) -> None:
    for each in additions:
        if each.done.done():
            continue
        if error is None:
            each.done.set_result(None)
        else:
            each.done.set_exception(error)


def _measure(rows: Sequence[StreamRow]) -> int:
    return sum(len(row.events) for row in rows)
