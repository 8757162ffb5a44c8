"""The HTTP server: uvicorn on uvloop and httptools, with the bounds that they leave open."""

import asyncio
import math
import socket
from asyncio import TimerHandle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import HANDLED_SIGNALS

from hedgerow.errors import AppError, HeadersTooLarge, Malformed, Unready
from hedgerow.http.errors import error_reply
from hedgerow.http.reply import WHOLE_ANSWER

MAX_HEADER_BYTES = 64 * 1024
BACKLOG = 2048
CLOSING = b"connection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """httptools puts no limit on headers, neither in size nor in time; this does. What cannot be
    read as HTTP at all is refused in our one error shape.

    One timer per connection looks at `_deadline` and goes on sleeping while that lies ahead, where
    uvicorn makes and cancels a timer for every request.
    """

    header_timeout_s = 30.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_headers = True
        # Bytes of headers that have not ended yet, and whether more came than headers may have.
        self._unread = 0
        self._may_be_large = False
        # When the peer must have sent its next request; never, while we work on one.
        self._deadline = 0.0
        self._timer: TimerHandle | None = None
        # Requests are answered one after the other; `cycle` is the one that was read last.
        self._answering: RequestResponseCycle = None  # type: ignore[assignment]
        self._extensions = {WHOLE_ANSWER: self._write_whole}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_at_most(self.header_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        cycle, were_headers = self.cycle, self._in_headers
        self._may_be_large = self._unread + len(data) > MAX_HEADER_BYTES
        super().data_received(data)
        if self.cycle is not cycle:
            self._unread = 0
        elif were_headers:
            self._headers_go_on(len(data))

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._deadline = math.inf
        if self._may_be_large and self._header_bytes() > MAX_HEADER_BYTES:
            self._refuse(HeadersTooLarge())
            # Leaves the parser, so that it does not go on to a body that nobody will read.
            raise ConnectionAbortedError
        self.scope["extensions"] = self._extensions  # type: ignore[typeddict-item]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_headers = True
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._deadline = self.loop.time() + self.timeout_keep_alive

    def send_400_response(self, msg: str) -> None:
        self._refuse(Malformed(msg))

    def _write_whole(self, head: bytes, body: bytes) -> bool:
        """Answer in one write; False if that must wait, then nothing happened."""
        cycle = self._answering
        if self.flow.write_paused or cycle.disconnected:
            return False
        cycle.response_started = cycle.response_complete = True
        ending = b"\r\n" if cycle.keep_alive else CLOSING
        if cycle.scope["method"] == "HEAD":
            body = b""
        self.transport.write(b"".join((head, ending, body)))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True

    def _refuse(self, error: AppError) -> None:
        if self.transport.is_closing():
            return
        answer = error_reply(error)
        self.transport.write(answer.head + CLOSING + answer.body)
        self.transport.close()

    def _header_bytes(self) -> int:
        lines = sum(len(name) + len(value) + 4 for name, value in self.headers)
        return len(self.url) + lines

    def _headers_go_on(self, more: int) -> None:
        """Bytes came that ended no headers. They may neither grow nor last without end, not even
        when they begin no request at all, such as empty lines."""
        self._unread += more
        if self._unread > MAX_HEADER_BYTES:
            self._refuse(HeadersTooLarge())
        elif self._unread == more and self._is_idle():
            self._wait_at_most(self.header_timeout_s)

    def _is_idle(self) -> bool:
        return bool(getattr(self.cycle, "response_complete", True))  # no cycle before the first

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
            self.transport.close()
        else:
            wait = min(left, self.timeout_keep_alive)
            self._timer = self.loop.call_later(wait, self._look_at_deadline)


class Server(uvicorn.Server):
    """uvicorn that ends with a clean exit status when it is told to stop."""

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


def server(app: ASGIApp, *, header_timeout_s: float, grace_s: float) -> Server:
    protocol = type("Protocol", (BoundedProtocol,), {"header_timeout_s": header_timeout_s})
    config = uvicorn.Config(
        app,
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
    return Server(config)
