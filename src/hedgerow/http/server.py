"""The HTTP server: uvicorn on uvloop and httptools, with the bounds that they leave open."""

import asyncio
import socket
from asyncio import TimerHandle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import HANDLED_SIGNALS

from hedgerow.errors import AppError, HeadersTooLarge, Malformed, Unready
from hedgerow.http.errors import error_reply

MAX_HEADER_BYTES = 64 * 1024
BACKLOG = 2048


class BoundedProtocol(HttpToolsProtocol):
    """httptools puts no limit on headers, neither in size nor in time; this does. What cannot be
    read as HTTP at all is refused in our one error shape."""

    header_timeout_s = 30.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Bytes of headers that have not ended yet, and whether more came than headers may have.
        self._unread = 0
        self._may_be_large = False
        self._in_headers = True
        self._header_timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._may_be_large = self._unread + len(data) > MAX_HEADER_BYTES
        super().data_received(data)
        if self._in_headers:
            self._unread += len(data)
            if self._unread > MAX_HEADER_BYTES:
                self._refuse(HeadersTooLarge())
        if self._header_timer is None and (self._in_headers or self._is_between_requests()):
            self._start_timer()

    def on_message_begin(self) -> None:
        self._in_headers = True
        self._unread = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._stop_timer()
        if self._may_be_large and self._header_bytes() > MAX_HEADER_BYTES:
            self._refuse(HeadersTooLarge())
            # Leaves the parser, so that it does not go on to a body that nobody will read.
            raise ConnectionAbortedError
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(Malformed(msg))

    def _refuse(self, error: AppError) -> None:
        if self.transport.is_closing():
            return
        answer = error_reply(error)
        lines = [b"HTTP/1.1 %d Refused" % answer.status, b"connection: close"]
        lines += [name + b": " + value for name, value in answer.headers]
        self.transport.write(b"\r\n".join([*lines, b"", answer.body]))
        self.transport.close()

    def _header_bytes(self) -> int:
        lines = sum(len(name) + len(value) + 4 for name, value in self.headers)
        return len(self.url) + lines

    def _is_between_requests(self) -> bool:
        """Bytes that come now and begin no request, such as empty lines, may not make us wait."""
        return bool(getattr(self.cycle, "response_complete", True))  # no cycle before the first

    def _start_timer(self) -> None:
        self._header_timer = self.loop.call_later(self.header_timeout_s, self._give_up)

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _give_up(self) -> None:
        self._header_timer = None
        self.transport.close()


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
