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

from tests.support.receiver import wait_until

DELAY_S = 10
# The response of nginx.
BAD_GATEWAY: tuple[int, Mapping[str, str], bytes] = (
    502,
    {"content-type": "text/html"},
    b"<html><head><title>502 Bad Gateway</title></head></html>\r\n",
)
SERVER_ERROR: tuple[int, Mapping[str, str], bytes] = (
    500,
    {"content-type": "application/json"},
    b'{"type": "server_error", "code": "error", "detail": "A server error occurred."}',
)
HOP_BY_HOP_HEADERS = {
    "connection",
    "content-length",
    "date",
    "host",
    "keep-alive",
    "server",
    "transfer-encoding",
}


class Fault(Enum):
    CUTS_REQUESTS = "cuts requests"
    LOSES_ANSWERS = "loses answers"  # after the server has handled the request
    CUTS_ANSWERS = "cuts answers"
    ANSWERS_500 = "answers 500"
    ANSWERS_502 = "answers 502"
    DELAYS = "delays requests"  # and forwards them even if the client has left


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxiedRequest:
    """A request and the status that the client received; 0 for none."""

    method: str
    path: str
    status: int


class FaultyProxy:
    """Forwards everything, except between `fail` and `heal`."""

    def __init__(self, server: str) -> None:
        self._server_at = urlsplit(server).netloc
        self._fault: Fault | None = None
        self._containing = ""
        self._healed = threading.Event()
        self._lock = threading.Lock()
        self._forwarded_requests = 0
        self._failed_paths: list[str] = []
        self.requests: list[ProxiedRequest] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:  # the client closed the connection
                    self.close_connection = True

            def do_POST(self) -> None:
                proxy._handle(self)

            do_GET = do_OPTIONS = do_POST

            def log_message(self, format: str, *args: Any) -> None: ...

        self._proxy = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._proxy.server_port}"

    def fail(self, fault: Fault, containing: str = "") -> None:
        """Fail requests whose path and query contain this text."""
        self.heal()
        self._containing = containing
        self._failed_paths = []
        self._healed = threading.Event()
        self._fault = fault

    def wait_for_faults(self, path: str = "/", *, times: int = 1) -> None:
        """Wait until so many requests to the path have met the fault."""
        wait_until(lambda: sum(each.startswith(path) for each in list(self._failed_paths)) >= times)

    def heal(self) -> None:
        self._fault = None
        self._healed.set()

    def wait_until_idle(self) -> None:
        """Wait until the server has answered every request that was read. A frozen client may have
        sent half of another one."""
        wait_until(lambda: self._forwarded_requests == 0)

    def requests_to(self, path: str) -> list[ProxiedRequest]:
        return [each for each in list(self.requests) if each.path.startswith(path)]

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        fault, healed = self._fault, self._healed
        if self._containing not in handler.path:
            fault = None
        length = int(handler.headers.get("content-length", 0))
        is_cut_short = fault is Fault.CUTS_REQUESTS
        body = handler.rfile.read(length // 2 if is_cut_short else length)
        if fault is not None:
            self._failed_paths.append(handler.path)
        if is_cut_short:
            self._record(handler, 0)
            _reset_connection(handler)
            return
        if fault is Fault.ANSWERS_500:
            status, headers, content = SERVER_ERROR
        elif fault is Fault.ANSWERS_502:
            status, headers, content = BAD_GATEWAY
        else:
            with self._count_forwarded():
                if fault is Fault.DELAYS:
                    healed.wait(DELAY_S)
                status, headers, content = self._forward(handler, body)
        is_lost, is_cut = fault is Fault.LOSES_ANSWERS, fault is Fault.CUTS_ANSWERS
        # Record before the client has the response: a test that waits for it may look at once.
        self._record(handler, 0 if is_lost or is_cut else status)
        if not is_lost:
            _send_response(handler, status, headers, content, is_cut=is_cut)
        if is_lost or is_cut:
            _reset_connection(handler)

    def _record(self, handler: BaseHTTPRequestHandler, status: int) -> None:
        self.requests.append(
            ProxiedRequest(method=handler.command, path=handler.path, status=status)
        )

    def _forward(
        self, handler: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        given = {
            name: value
            for name, value in handler.headers.items()
            if name.lower() not in HOP_BY_HOP_HEADERS
        }
        server = http.client.HTTPConnection(self._server_at, timeout=60)
        try:
            server.request(handler.command, handler.path, body or None, given)
            answer = server.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        except OSError:  # the server is stopped
            return BAD_GATEWAY
        finally:
            server.close()

    @contextlib.contextmanager
    def _count_forwarded(self) -> Iterator[None]:
        with self._lock:
            self._forwarded_requests += 1
        try:
            yield
        finally:
            with self._lock:
                self._forwarded_requests -= 1

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


def _send_response(
    handler: BaseHTTPRequestHandler,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    is_cut: bool,
) -> None:
    handler.send_response_only(status)
    for name, value in headers.items():
        if name.lower() not in HOP_BY_HOP_HEADERS:
            handler.send_header(name, value)
    if status not in (204, 304):
        handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2] if is_cut else body)


def _reset_connection(handler: BaseHTTPRequestHandler) -> None:
    """Reset the connection instead of closing it."""
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection."""
