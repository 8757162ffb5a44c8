"""A connection: uvicorn's protocol with limits that uvicorn and httptools lack, and speed.

Only this file, connections.py and uvicorn_server.py rely on uvicorn's private behaviour.
pyproject.toml pins uvicorn to UVICORN_VERSIONS; before you widen the range, compare
httptools_impl.py, flow_control.py and server.py of both versions and run test_hostile_sockets.py.
"""

import asyncio
import math
from asyncio import TimerHandle
from collections.abc import Coroutine
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from hedgerow.errors import AppError, HeadersTooLarge, Malformed
from hedgerow.http.payload.receive import TAKE_BODY_KEY
from hedgerow.http.server.acceptor import ADMITTED
from hedgerow.http.server.connections import (
    ConnectionState,
    ConnectionTable,
    HoldingFlowControl,
    build_surplus_error,
)
from hedgerow.http.server.errors import build_error_reply
from hedgerow.http.server.health import ALIVE, LIVENESS_PATH
from hedgerow.http.server.proxies import choose_host
from hedgerow.http.server.refusals import (
    CLOSING,
    OVERLOADED,
    OVERLOADED_HEAD,
    SimpleHead,
    find_simple_head,
    render_headers,
    render_refusals,
)
from hedgerow.http.server.request_queues import RequestQueue, RequestQueues, Sender
from hedgerow.http.server.response import WRITE_RESPONSE_KEY, header_lines
from hedgerow.http.server.senders import Senders
from hedgerow.lib.eager import start_eagerly

UVICORN_VERSIONS = ">=0.54,<0.55"
MAX_HEADER_BYTES = 64 * 1024
UPGRADE_HEADERS = (b"upgrade", b"connection", b"http2-settings")
INVALID_HOST = "Exactly one Host header with a host name or an address is required."
REFUSED = b"HTTP/1.1 429 "
REFUSAL_PAUSE_S = 0.1
LIVENESS_LINES = tuple(f"GET {LIVENESS_PATH}{end}".encode() for end in (" ", "/ "))
# So many bytes are parsed at once. A client may send many requests without waiting for responses,
# or a body in many tiny chunks.
HEAD_PIECE_BYTES = 512
BODY_PIECE_BYTES = 4 * 1024
# How long a connection over the limit may take to request a health check.
SURPLUS_TIMEOUT_S = 2.0


class BoundedProtocol(HttpToolsProtocol):
    """Limits connections, the size and duration of headers and trailers, and the wait for a client
    that does not read. Invalid HTTP gets the common error shape.

    One timer per connection checks `_deadline`; uvicorn creates and cancels a timer per request.
    """

    # With more than 30 attributes in its dictionary, an object is slower.
    __slots__ = (
        "_active_cycle",
        "_deadline",
        "_extensions",
        "_has_turn",
        "_has_waited",
        "_held",
        "_held_at",
        "_in_headers",
        "_is_quick",
        "_is_surplus",
        "_last_head",
        "_last_queue",
        "_may_be_large",
        "_progress",
        "_queue",
        "_reading_task",
        "_rejection",
        "_sender",
        "_since",
        "_timer",
        "_token",
        "_token_at",
        "_unparsed_bytes",
        "_waiting",
        "_was_refused",
        "address",
        "received",
    )

    header_timeout_s = 30.0
    queues: ClassVar[RequestQueues]
    senders: ClassVar[Senders]
    open_connections: ClassVar[ConnectionTable]
    # Set while the service waits for its balancer: each connection closes after its next response.
    draining: ClassVar[asyncio.Event]

    @staticmethod
    def find_queue(path: str) -> tuple[RequestQueue, bool]:
        """Return the queue in which requests for a path wait, and whether they may run without a
        task: their handler rarely waits once the body is complete."""
        raise NotImplementedError

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = ""
        # A request that was read before the connection was opened. It has a place in its queue.
        self.received = b""
        self._is_surplus = False
        # When the server began to wait for the client, or to work on a request.
        self._since = 0.0
        self._in_headers = True
        # Increases when bytes complete headers or add to a body.
        self._progress = 0
        # Bytes received since then, and whether they exceed the limit of headers.
        self._unparsed_bytes = 0
        self._may_be_large = False
        # The time by which the client must send its next request or read the response; infinite
        # while a request is in progress.
        self._deadline = 0.0
        self._timer: TimerHandle | None = None
        # The request in progress. Pipelined requests wait; `cycle` is the last one that was read.
        self._active_cycle: RequestResponseCycle | None = None
        self._queue = self.queues.api
        self._is_quick = False
        # Who sends requests on this connection; None before there were many requests.
        self._sender: Sender = None
        # What it sent last while requests were refused.
        self._last_head: SimpleHead | None = None
        self._last_queue = self._queue
        # Whether nothing but refusals has happened on this connection since it was examined.
        self._was_refused = False
        self._token, self._token_at = b"", 0
        # Bytes that are parsed later: after the response, or in another iteration.
        self._held, self._held_at = b"", 0
        self._has_turn = False
        # A request that waits unparsed, and whether it is being parsed.
        self._waiting = b""
        self._has_waited = False
        # The task of the active request, while its body is not complete.
        self._reading_task: asyncio.Task[None] | None = None
        self._rejection: AppError | None = None
        self._extensions = {
            TAKE_BODY_KEY: self._take_whole_body,
            WRITE_RESPONSE_KEY: self._write_response,
        }

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow: HoldingFlowControl = HoldingFlowControl(transport)
        self.address = self.client[0] if self.client else ""
        self._since = self.loop.time()
        self._is_surplus = not self.open_connections.add(self)
        self._set_deadline(SURPLUS_TIMEOUT_S if self._is_surplus else self.header_timeout_s)
        if self._is_surplus and self.open_connections.is_exhausted:
            self._reject(build_surplus_error())
        elif self.received:
            received, self.received = self.received, b""
            self._find_sender(received)
            if not self._wait_unparsed(received):
                self._receive_in_crowd(received)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections.remove(self)
        self._stop_timer()
        # uvicorn notifies the last request it read; with pipelining that is not the active one.
        if self._active_cycle is not None and not self._active_cycle.response_complete:
            self._active_cycle.disconnected = True
            self._active_cycle.message_event.set()
        super().connection_lost(exc)
        # These refer back to the connection, which would otherwise stay until a full collection.
        self.cycle = self._active_cycle = None  # type: ignore[assignment]
        self._held = self._waiting = b""
        self._extensions.clear()

    def data_received(self, data: bytes) -> None:
        if self.queues.is_refusing and self._refuse(data):
            return
        self._was_refused = False
        if self._rejection is not None:
            return
        if self._held or self._waiting or self._is_answering():
            self._hold(data)
        elif self.queues.is_crowded and self._in_headers:
            self._receive_in_crowd(data)
        elif len(data) <= HEAD_PIECE_BYTES:
            self._parse(data)
        else:
            self._parse_pieces(data)

    def _refuse(self, data: bytes) -> bool:
        """Refuse a request whose sender has too many. Return False if the bytes are not exactly one
        simple request, or if it is to be served. At overload most requests end here."""
        is_simple = self._was_refused or (self._is_idle() and self._is_simple())
        if not is_simple or self.draining.is_set():
            return False
        head, queue = self._last_head, self._last_queue
        # Most connections repeat themselves.
        if head is None or len(data) != head.request_bytes or not data.startswith(head.raw):
            head = self._last_head = find_simple_head(data)
            if head is None:
                return False
            queue = self._last_queue = self.find_queue(head.path)[0]
        if not self._token or not data.startswith(self._token, self._token_at):
            self._find_sender(data)
        if not queue.refuses(self._sender):
            return False
        self._since = self.loop.time()
        self._deadline = self._since + self.timeout_keep_alive
        refusal = render_refusals(self.server_state.default_headers)[head.closes]
        if head.closes:
            queue.refused += 1
            self.transport.write(refusal)
            self.transport.close()
        else:
            self._was_refused = True
            self.queues.refuse(queue, self.transport, refusal)
        return True

    def _find_sender(self, data: bytes) -> None:
        self._sender, self._token = self.senders.find(self.address, data)
        self._token_at = data.find(self._token)

    def _receive_in_crowd(self, data: bytes) -> None:
        if not self._token or not data.startswith(self._token, self._token_at):
            self._find_sender(data)
        if self.queues.can_parse():
            if len(data) <= HEAD_PIECE_BYTES:
                self._parse(data)
                return
        elif self._wait_unparsed(data):
            return
        self._parse_pieces(data)

    def _wait_unparsed(self, data: bytes) -> bool:
        """Let a request wait. Return False if the bytes are not exactly one simple request."""
        head = find_simple_head(data) if self._is_simple() else None
        if head is None:
            return False
        self._waiting = data
        self._deadline = math.inf
        self.queues.add(self.find_queue(head.path)[0], self._sender, self._parse_waiting)
        return True

    def _parse_waiting(self) -> None:
        """Parse the request that waits, and start its handler."""
        data, self._waiting = self._waiting, b""
        if self.transport.is_closing():
            return
        self._has_waited = True
        self._parse(data)
        if self._has_waited:  # it was rejected
            self._has_waited = False
        else:
            self.start()

    def _parse_pieces(self, data: bytes) -> None:
        """Parse until there is a request to answer, or until this iteration has no time left."""
        at = 0
        while at < len(data) and self._rejection is None:
            if self._is_answering() or not self.queues.can_parse():
                self._hold(data[at:])
                self._parse_later()
                return
            ends = at + self._piece_bytes()
            self._parse(data[at:ends])
            at = ends

    def _hold(self, data: bytes) -> None:
        self._held = self._held[self._held_at :] + data
        self._held_at = 0
        self.flow.pause_reading()
        self.flow.is_held = True

    def _parse_later(self) -> None:
        """Parse what is held in the next turn of its sender, unless a response comes first."""
        if self._held and not self._has_turn and not self._is_answering():
            self._has_turn = True
            self.queues.add(self.queues.unparsed, self._sender, self._parse_held)

    def _parse_held(self) -> None:
        self._has_turn = False
        if self.transport.is_closing() or self._rejection is not None:
            return
        start, self._held_at = self._held_at, self._held_at + self._piece_bytes()
        self._parse(self._held[start : self._held_at])
        if self._held_at < len(self._held):
            self._parse_later()
        else:
            self._held, self._held_at = b"", 0
            self.flow.is_held = False
            self.flow.resume_reading()

    def _piece_bytes(self) -> int:
        return HEAD_PIECE_BYTES if self._in_headers else BODY_PIECE_BYTES

    def _parse(self, data: bytes) -> None:
        steps = self._progress
        self._may_be_large = self._unparsed_bytes + len(data) > MAX_HEADER_BYTES
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline_upgrade(data[offer.args[0] :])
        except httptools.HttpParserError:
            self._reject(Malformed("Invalid HTTP request received."))
        if self._progress != steps:
            self._unparsed_bytes = 0
        else:
            self._count_unparsed(len(data))

    def on_header(self, name: bytes, value: bytes) -> None:
        # Ignore trailers, which follow a chunked body.
        if self._in_headers:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # feed_data raises HttpParserUpgrade with the offset of the remaining bytes
        self._progress += 1
        self._in_headers = False
        if not self.flow.write_paused:
            self._deadline = math.inf
        if self._may_be_large and self._header_bytes() > MAX_HEADER_BYTES:
            self._reject(HeadersTooLarge())
            # Leave the parser: the body of a rejected request is not read.
            raise ConnectionAbortedError
        if not choose_host(self.url, self.headers, self.parser.get_http_version()):
            self._reject(Malformed(INVALID_HOST))
            raise ConnectionAbortedError
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]
        self._since = self.loop.time()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._progress += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            self._in_headers = True
            super().on_message_complete()
            if self._reading_task is not None and self.cycle is self._active_cycle:
                self._count_running(self._reading_task)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._since = self.loop.time()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            self._parse_later()  # its body may be held
            return
        self._parse_later()
        self.flow.resume_reading()
        if not self.flow.write_paused:
            self._deadline = self._since + self.timeout_keep_alive
        if self._rejection is not None:
            self._write_rejection(self._rejection)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._was_refused = False
        self._since = self.loop.time()
        self._set_deadline(self.header_timeout_s)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._deadline = self.loop.time() + self.timeout_keep_alive if self._is_idle() else math.inf

    def shutdown(self) -> None:
        self.queues.send_refusals()
        if self._waiting:
            self._parse_waiting()
        super().shutdown()

    def describe(self) -> tuple[ConnectionState, float]:
        seconds = self.loop.time() - self._since
        if self.flow.write_paused or self._is_reading_active_body():
            return ConnectionState.SLOW, seconds
        if self._waiting or not self._is_idle():
            return ConnectionState.BUSY, seconds
        has_begun = self._active_cycle is None or self._unparsed_bytes > 0
        return ConnectionState.SLOW if has_begun else ConnectionState.IDLE, seconds

    def abort(self) -> None:
        self.transport.abort()

    def start(self) -> None:
        cycle = self._active_cycle
        if cycle is None or cycle.disconnected:
            return
        answering: Coroutine[Any, Any, None] = cycle.run_asgi(self.app)
        if self._is_quick and not cycle.more_body:
            rest = start_eagerly(answering)
            if rest is None:
                return
            answering = rest
        task = self.loop.create_task(answering)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        if cycle.more_body:
            self._reading_task = task
        else:
            self._count_running(task)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._active_cycle = cycle
        self._reading_task = None
        self._queue, self._is_quick = self.find_queue(cycle.scope["path"])
        if self._is_surplus and self.open_connections.has_surplus:
            cycle.keep_alive = False
            if self._queue is not self.queues.probes:
                self._reject(build_surplus_error())
                return
        if self.draining.is_set():
            cycle.keep_alive = False
        if self._has_waited:
            self._has_waited = False  # _parse_waiting starts it, with its body
        elif self._queue.refuses(self._sender) and self._write_response(
            OVERLOADED_HEAD, OVERLOADED.body
        ):
            self._queue.refused += 1
        else:
            self.queues.add(self._queue, self._sender, self.start)

    def _count_running(self, task: asyncio.Task[None]) -> None:
        """Count the handler until it ends. It has its whole body and waits for something else."""
        self._reading_task = None
        if not task.done():
            queue, sender = self._queue, self._sender
            self.queues.begin(queue, sender)
            task.add_done_callback(lambda _: self.queues.end(queue, sender))

    @classmethod
    def find_early_answer(cls, address: str, data: bytes, state: ServerState) -> bytes | None:
        """Return the answer to the only request of a new connection, if it needs no handler: that
        the process is alive, or a refusal. ADMITTED if it has a place in its queue."""
        head = find_simple_head(data)
        if head is None:
            return None
        if data.startswith(LIVENESS_LINES):
            return ALIVE.head + render_headers(state.default_headers) + CLOSING + ALIVE.body
        queue, _ = cls.find_queue(head.path)
        if not head.closes or queue is cls.queues.probes:
            return None
        if cls.queues.reserve(queue, cls.senders.find(address, data)[0]):
            return ADMITTED
        queue.refused += 1
        return render_refusals(state.default_headers)[True]

    def _is_simple(self) -> bool:
        """Whether a whole request can be answered without regard to what came before it."""
        return self._in_headers and not (
            self._unparsed_bytes
            or self._waiting
            or self._held
            or self._is_surplus
            or self._rejection is not None
            or self.flow.write_paused
            or self.draining.is_set()
        )

    def _take_whole_body(self) -> bytes | None:
        """Return the body if it is complete, else None. A second call returns empty bytes."""
        cycle = self._active_cycle
        if cycle is None or cycle.more_body or cycle.disconnected:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def _write_response(self, head: bytes, body: bytes) -> bool:
        """Send a response in one write. Return False, without effect, if the client must read
        first."""
        cycle = self._active_cycle
        if cycle is None or self.flow.write_paused or cycle.disconnected:
            return False
        cycle.response_started = cycle.response_complete = True
        ending = b"\r\n" if cycle.keep_alive else CLOSING
        if cycle.scope["method"] == "HEAD":
            body = b""
        self.transport.write(
            b"".join((head, render_headers(self.server_state.default_headers), ending, body))
        )
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        if head.startswith(REFUSED):
            self._pause_reading()
        return True

    def _pause_reading(self) -> None:
        """Read the next request a little later, so that a client which ignores refusals does not
        keep the server busy. A trusted proxy sends requests of others on the same connection."""
        if not self.open_connections.is_proxy(self.address):
            self.flow.pause_reading()
            self.loop.call_later(REFUSAL_PAUSE_S, self._resume_reading)

    def _resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _decline_upgrade(self, rest: bytes) -> None:
        """Ignore an offered protocol upgrade. The parser would lose the body, so a new parser reads
        the request without the upgrade headers."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._reject(Malformed("CONNECT is not supported: this server is not a proxy."))
            return
        headers = [header for header in self.headers if header[0] not in UPGRADE_HEADERS]
        closes = any(name == b"connection" and b"close" in value for name, value in self.headers)
        if closes:
            headers.append((b"connection", b"close"))
        head = b"%s %s HTTP/1.1\r\n%s\r\n" % (method, self.url, header_lines(headers))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._parse(head + rest)

    def _reject(self, error: AppError) -> None:
        """Send an error and close the connection, after the responses to earlier requests."""
        if self.transport.is_closing() or self._rejection is not None:
            return
        self._rejection = error
        if self._is_idle() or self._is_reading_active_body():
            self._write_rejection(error)

    def _write_rejection(self, error: AppError) -> None:
        self.queues.send_refusals()  # perhaps of an earlier request
        answer = build_error_reply(error)
        self.transport.write(
            answer.head + render_headers(self.server_state.default_headers) + CLOSING + answer.body
        )
        self.transport.close()

    def _header_bytes(self) -> int:
        lines = sum(len(name) + len(value) + 4 for name, value in self.headers)
        return len(self.url) + lines

    def _count_unparsed(self, more: int) -> None:
        """Limit the size and duration of bytes that neither complete headers nor add to a body,
        such as empty lines."""
        self._unparsed_bytes += more
        if self._unparsed_bytes > MAX_HEADER_BYTES:
            self._reject(HeadersTooLarge())
        elif self._unparsed_bytes == more and self._is_idle():
            self._set_deadline(self.header_timeout_s)

    def _is_answering(self) -> bool:
        """Whether further bytes belong to a request after the one that is being answered."""
        cycle = self._active_cycle
        return (
            cycle is not None
            and not cycle.response_complete
            and not (cycle.more_body and cycle is self.cycle)
        )

    def _is_idle(self) -> bool:
        return self._active_cycle is None or self._active_cycle.response_complete

    def _is_reading_active_body(self) -> bool:
        """Whether the invalid bytes belong to the body of the active request."""
        cycle = self._active_cycle
        return (
            cycle is not None
            and cycle is self.cycle
            and cycle.more_body
            and not cycle.response_started
        )

    def _set_deadline(self, seconds: float) -> None:
        self._stop_timer()
        self._deadline = self.loop.time() + seconds
        self._timer = self.loop.call_later(seconds, self._check_deadline)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_deadline(self) -> None:
        left = self._deadline - self.loop.time()
        if left <= 0:
            self._timer = None
            self.transport.abort()  # close() would wait for the client to read everything
        else:
            wait = min(left, self.timeout_keep_alive)
            self._timer = self.loop.call_later(wait, self._check_deadline)
