"""The HTTP server: uvicorn on uvloop and httptools, with the bounds that they leave open."""

import asyncio
import math
import socket
from asyncio import TimerHandle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import HANDLED_SIGNALS

from hedgerow.errors import AppError, HeadersTooLarge, Malformed, Unready
from hedgerow.http.door import FrontDoor
from hedgerow.http.errors import error_reply
from hedgerow.http.payload.reader import WHOLE_BODY
from hedgerow.http.reply import WHOLE_ANSWER, header_lines
from hedgerow.lib.eager import begun

MAX_HEADER_BYTES = 64 * 1024
BACKLOG = 2048
CLOSING = b"connection: close\r\n\r\n"
UPGRADE_HEADERS = (b"upgrade", b"connection", b"http2-settings")


# The headers of every answer and their bytes, as long as the server has that very list.
_usual: list[Any] = [None, b""]


class BoundedProtocol(HttpToolsProtocol):
    """httptools puts no limit on headers, neither in size nor in time, nor on trailers, nor on a
    peer that does not read; this does. What cannot be read as HTTP at all is refused in our one
    error shape.

    One timer per connection looks at `_deadline` and goes on sleeping while that lies ahead, where
    uvicorn makes and cancels a timer for every request.
    """

    header_timeout_s = 30.0
    # Requests that came in this turn of the loop, on all connections. They are begun one after the
    # other when all are read: reading and answering by turns takes longer, because each drives the
    # other out of the cache.
    due: "ClassVar[list[tuple[BoundedProtocol, RequestResponseCycle]]]"

    @staticmethod
    def is_quick(scope: Any) -> bool:
        """Whether a request is answered without a task of its own, if all of it is here and nothing
        has to be waited for."""
        return False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_headers = True
        # Counts what bytes may lead to: the end of headers, or some body.
        self._steps = 0
        # Bytes that have led to neither, and whether more came than headers may have.
        self._unread = 0
        self._may_be_large = False
        # When the peer must have sent its next request, or read what it was sent; never, while we
        # work on a request.
        self._deadline = 0.0
        self._timer: TimerHandle | None = None
        # Requests are answered one after the other; `cycle` is the one that was read last.
        self._answering: RequestResponseCycle | None = None
        self._refusal: AppError | None = None
        self._extensions = {WHOLE_BODY: self._whole_body, WHOLE_ANSWER: self._write_whole}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_at_most(self.header_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        # uvicorn tells the request that it read last; with several under way that is another one.
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        steps = self._steps
        self._may_be_large = self._unread + len(data) > MAX_HEADER_BYTES
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            self._decline(data[offer.args[0] :])
        except httptools.HttpParserError:
            self._refuse(Malformed("Invalid HTTP request received."))
        if self._steps != steps:
            self._unread = 0
        else:
            self._nothing_came_of(len(data))

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers, which come after a body in chunks, are no headers: nobody here asks for any.
        if self._in_headers:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return  # feed_data says so too, and knows where the rest begins
        self._steps += 1
        self._in_headers = False
        if not self.flow.write_paused:
            self._deadline = math.inf
        if self._may_be_large and self._header_bytes() > MAX_HEADER_BYTES:
            self._refuse(HeadersTooLarge())
            # Leaves the parser, so that it does not go on to a body that nobody will read.
            raise ConnectionAbortedError
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._steps += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            self._in_headers = True
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        if not self.flow.write_paused:
            self._deadline = self.loop.time() + self.timeout_keep_alive
        if self._refusal is not None:
            self._write_refusal(self._refusal)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_at_most(self.header_timeout_s)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._deadline = self.loop.time() + self.timeout_keep_alive if self._is_idle() else math.inf

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        if not self.due:
            self.loop.call_soon(self._begin_due)
        self.due.append((self, cycle))

    @classmethod
    def _begin_due(cls) -> None:
        due = cls.due.copy()
        cls.due.clear()
        for protocol, cycle in due:
            protocol._begin(cycle)

    def _begin(self, cycle: RequestResponseCycle) -> None:
        answering = cycle.run_asgi(self.app)
        if cycle.more_body or not self.is_quick(cycle.scope):
            self._keep(self.loop.create_task(answering))
        elif (rest := begun(answering)) is not None:
            self._keep(self.loop.create_task(rest))

    def _keep(self, task: asyncio.Task[None]) -> None:
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _whole_body(self) -> bytes | None:
        """What came so far, if that is all; it is given away once."""
        cycle = self._answering
        if cycle is None or cycle.more_body or cycle.disconnected:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def _write_whole(self, head: bytes, body: bytes) -> bool:
        """Answer in one write; False if that must wait, then nothing happened."""
        cycle = self._answering
        if cycle is None or self.flow.write_paused or cycle.disconnected:
            return False
        cycle.response_started = cycle.response_complete = True
        ending = b"\r\n" if cycle.keep_alive else CLOSING
        if cycle.scope["method"] == "HEAD":
            body = b""
        self.transport.write(b"".join((head, self._usual_headers(), ending, body)))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True

    def _usual_headers(self) -> bytes:
        """The date, which the server writes anew each second."""
        headers = self.server_state.default_headers
        if headers is not _usual[0]:
            _usual[:] = [headers, header_lines(headers)]
        lines: bytes = _usual[1]
        return lines

    def _decline(self, rest: bytes) -> None:
        """Go on as if no other protocol had been offered. The parser would lose the body, so
        another one reads the request without the offer."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(Malformed("This is no proxy."))
            return
        kept = [header for header in self.headers if header[0] not in UPGRADE_HEADERS]
        closes = any(name == b"connection" and b"close" in value for name, value in self.headers)
        if closes:
            kept.append((b"connection", b"close"))
        head = b"%s %s HTTP/1.1\r\n%s\r\n" % (method, self.url, header_lines(kept))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(head + rest)

    def _refuse(self, error: AppError) -> None:
        """Say what is wrong and end the connection, after the answers to earlier requests."""
        if self.transport.is_closing() or self._refusal is not None:
            return
        self._refusal = error
        if self._is_idle() or self._is_reading_what_it_answers():
            self._write_refusal(error)

    def _write_refusal(self, error: AppError) -> None:
        answer = error_reply(error)
        self.transport.write(answer.head + self._usual_headers() + CLOSING + answer.body)
        self.transport.close()

    def _header_bytes(self) -> int:
        lines = sum(len(name) + len(value) + 4 for name, value in self.headers)
        return len(self.url) + lines

    def _nothing_came_of(self, more: int) -> None:
        """Bytes came that ended no headers and brought no body. They may neither grow nor last
        without end, not even when they begin no request at all, such as empty lines."""
        self._unread += more
        if self._unread > MAX_HEADER_BYTES:
            self._refuse(HeadersTooLarge())
        elif self._unread == more and self._is_idle():
            self._wait_at_most(self.header_timeout_s)

    def _is_idle(self) -> bool:
        return self._answering is None or self._answering.response_complete

    def _is_reading_what_it_answers(self) -> bool:
        """What is wrong is then the body of the very request that is being answered."""
        cycle = self._answering
        return (
            cycle is not None
            and cycle is self.cycle
            and cycle.more_body
            and not cycle.response_started
        )

    def _wait_at_most(self, seconds: float) -> None:
        self._stop_timer()
        self._deadline = self.loop.time() + seconds
        self._timer = self.loop.call_later(seconds, self._look_at_deadline)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at_deadline(self) -> None:
        left = self._deadline - self.loop.time()
        if left <= 0:
            self._timer = None
            self.transport.abort()  # closing would wait until the peer has read everything
        else:
            wait = min(left, self.timeout_keep_alive)
            self._timer = self.loop.call_later(wait, self._look_at_deadline)


class Server(uvicorn.Server):
    """uvicorn that ends with a clean exit status when it is told to stop, and says so first."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in HANDLED_SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in HANDLED_SIGNALS:
                loop.remove_signal_handler(number)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or Unready saying why there is none."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        raise Unready(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. "
            "Choose another port with --port or HEDGEROW_PORT."
        ) from None
    return listening


def address_of(listening: socket.socket) -> str:
    """The address to show: one that works in a browser on this machine."""
    host, port = listening.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}"


def server(door: FrontDoor, *, header_timeout_s: float, grace_s: float) -> Server:
    protocol = type(
        "Protocol",
        (BoundedProtocol,),
        {
            "header_timeout_s": header_timeout_s,
            "is_quick": staticmethod(door.is_quick),
            "due": [],
        },
    )
    config = uvicorn.Config(
        door,
        interface="asgi3",
        http=protocol,
        loop="none",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=65,
    )
    # uvicorn's annotation says whole seconds; it hands the value to asyncio.wait_for as it is.
    config.timeout_graceful_shutdown = grace_s  # type: ignore[assignment]
    return Server(config, door.stopping)
