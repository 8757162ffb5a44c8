"""A proxy between a client and a live server that fails as proxies and networks do."""

import contextlib
import http.client
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.receiver import wait_until

DELAY_S = 10
# As nginx says it.
BAD_GATEWAY: tuple[int, Mapping[str, str], bytes] = (
    502,
    {"content-type": "text/html"},
    b"<html><head><title>502 Bad Gateway</title></head></html>\r\n",
)
OF_THE_HOP = {"connection", "content-length", "date", "host", "keep-alive", "server"}


class Fault(Enum):
    CUTS_REQUESTS = "cuts requests"
    LOSES_ANSWERS = "loses answers"  # the server has done what it was asked to
    CUTS_ANSWERS = "cuts answers"
    ANSWERS_502 = "answers 502"
    DELAYS = "delays requests"  # and sends them on, whether somebody still waits or not


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request, and what the client was answered; 0 for nothing."""

    method: str
    path: str
    status: int


class FaultyProxy:
    """Lets everything through until it is told a fault, and again from `heal` on."""

    def __init__(self, server: str) -> None:
        self._server_at = urlsplit(server).netloc
        self._fault: Fault | None = None
        self._healed = threading.Event()
        self._lock = threading.Lock()
        self._under_way = 0
        self._struck: list[str] = []
        self.seen: list[Seen] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:  # whoever has had enough goes away
                    self.close_connection = True

            def do_POST(self) -> None:
                with proxy._counted():
                    proxy._handle(self)

            do_GET = do_OPTIONS = do_POST

            def log_message(self, format: str, *args: Any) -> None: ...

        self._proxy = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._proxy.server_port}"

    def fail(self, fault: Fault) -> None:
        self.heal()
        self._struck = []
        self._healed = threading.Event()
        self._fault = fault

    def wait_struck(self, path: str = "/", *, times: int = 1) -> None:
        """Until so many requests to that path have met the fault."""
        wait_until(lambda: sum(each.startswith(path) for each in list(self._struck)) >= times)

    def heal(self) -> None:
        self._fault = None
        self._healed.set()

    def wait_settled(self) -> None:
        """Until nothing is held back or on its way."""
        wait_until(lambda: self._under_way == 0)

    def seen_at(self, path: str) -> list[Seen]:
        return [each for each in list(self.seen) if each.path.startswith(path)]

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        fault, healed = self._fault, self._healed
        if fault is not None:
            self._struck.append(handler.path)
        length = int(handler.headers.get("content-length", 0))
        if fault is Fault.CUTS_REQUESTS:
            handler.rfile.read(length // 2)
            self._note(handler, 0)
            _cut(handler)
            return
        body = handler.rfile.read(length)
        if fault is Fault.ANSWERS_502:
            status, headers, content = BAD_GATEWAY
        else:
            if fault is Fault.DELAYS:
                healed.wait(DELAY_S)
            status, headers, content = self._forwarded(handler, body)
        is_lost, is_cut = fault is Fault.LOSES_ANSWERS, fault is Fault.CUTS_ANSWERS
        # Before the client knows, or a test that waits for the client would come too soon.
        self._note(handler, 0 if is_lost or is_cut else status)
        if not is_lost:
            _answer(handler, status, headers, content, is_cut=is_cut)
        if is_lost or is_cut:
            _cut(handler)

    def _note(self, handler: BaseHTTPRequestHandler, status: int) -> None:
        self.seen.append(Seen(method=handler.command, path=handler.path, status=status))

    def _forwarded(
        self, handler: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        given = {
            name: value for name, value in handler.headers.items() if name.lower() not in OF_THE_HOP
        }
        server = http.client.HTTPConnection(self._server_at, timeout=60)
        try:
            server.request(handler.command, handler.path, body or None, given)
            answer = server.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        except OSError:  # the server is away
            return BAD_GATEWAY
        finally:
            server.close()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.heal()
        self._proxy.shutdown()
        self._proxy.server_close()


def _answer(
    handler: BaseHTTPRequestHandler,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    is_cut: bool,
) -> None:
    handler.send_response_only(status)
    for name, value in headers.items():
        if name.lower() not in OF_THE_HOP:
            handler.send_header(name, value)
    if status not in (204, 304):
        handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2] if is_cut else body)


def _cut(handler: BaseHTTPRequestHandler) -> None:
    """The connection is reset: no polite end."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever talks to us may go away meanwhile."""
