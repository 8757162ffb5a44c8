"""A real HTTP server that records requests and answers as the test decides."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

HANGS = -1
DROPS = -2
# Faults within a response: the connection ends, bytes come one by one, the body never ends.
CUTS = -3
DRIPS = -4
POURS = -5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedResponse:
    """A status, or one of the faults above."""

    status: int = 200
    headers: Mapping[str, str] | None = None
    body: bytes = b"ok"


Decide = Callable[[ReceivedRequest], PlannedResponse]


def accept(_: ReceivedRequest) -> PlannedResponse:
    return PlannedResponse()


class Receiver:
    def __init__(self, decide: Decide = accept, *, at: str = "127.0.0.1", port: int = 0) -> None:
        self.decide = decide
        self.received: list[ReceivedRequest] = []
        self._ended = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                received = ReceivedRequest(
                    method=self.command,
                    path=self.path,
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=self.rfile.read(length),
                )
                if len(received.body) < length:
                    return  # the sender was killed meanwhile
                receiver.received.append(received)
                receiver._answer(self, receiver.decide(received))

            do_GET = do_HEAD = do_PUT = do_PATCH = do_DELETE = do_POST

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = _Server((at, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _answer(self, handler: BaseHTTPRequestHandler, answer: PlannedResponse) -> None:
        if answer.status == HANGS:
            self._ended.wait(60)
        if answer.status < 0:
            with contextlib.suppress(OSError):  # the client closed the connection
                self._misbehave(handler.connection, answer.status)
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        handler.send_response(answer.status)
        for name, value in (answer.headers or {}).items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(answer.body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(answer.body)

    def _misbehave(self, connection: socket.socket, how: int) -> None:
        begun = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n"
        if how == CUTS:
            connection.sendall(begun + b"x")
        while how == POURS:
            connection.sendall(begun)
        for byte in begun * (how == DRIPS):
            connection.sendall(bytes([byte]))
            if self._ended.wait(0.2):
                return

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def names(self) -> list[str]:
        """The names of all received events in their order, those of batches included."""
        return [each["event"]["event"] for each in self.bodies]

    @property
    def uuids(self) -> list[str]:
        return [each["event"]["uuid"] for each in self.bodies]

    @property
    def bodies(self) -> list[Any]:
        return [
            each
            for received in list(self.received)
            for each in (received.json if isinstance(received.json, list) else [received.json])
        ]

    def wait_for(self, number: int, timeout_s: float = 60) -> None:
        """Wait until so many requests have arrived."""
        wait_until(lambda: len(self.received) >= number, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that were killed."""


def wait_until(is_so: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)
