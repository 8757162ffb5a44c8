"""A server of hostile responses, each at its own path: of a web server, of another instance, and
of S3-compatible storage."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any, Self

MIB = 1 << 20
CHUNK_BYTES = 64 * 1024
DRIP_INTERVAL_S = 0.5

Respond = Callable[["HostileHandler"], None]


class HostileHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        behavior = self.path.partition("?")[0].split("/")[1]
        self.close_connection = True
        with contextlib.suppress(OSError):  # the client has enough
            if self.command == "HEAD":
                self.start(0)
            else:
                BEHAVIORS[behavior](self)

    do_HEAD = do_POST = do_GET

    def start(self, length: int | None, **headers: str) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("content-length", str(length))
        self.send_header("connection", "close")
        self.end_headers()

    def send_body(self, body: bytes) -> None:
        self.start(len(body))
        self.wfile.write(body)

    @property
    def is_ended(self) -> threading.Event:
        return self.server.is_ended

    def log_message(self, format: str, *args: Any) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HostileHandler)
        self.is_ended = threading.Event()
        self.counter = count(1)

    def handle_error(self, *_: Any) -> None: ...


class HostileServer:
    def __init__(self) -> None:
        self._server = _Server()
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._server.is_ended.set()
        self._server.shutdown()
        self._server.server_close()


def drip(handler: HostileHandler) -> None:
    """Send a byte every now and then."""
    handler.start(1_000_000)
    while not handler.is_ended.wait(DRIP_INTERVAL_S):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def send_endless_body(handler: HostileHandler) -> None:
    handler.start(None)
    while not handler.is_ended.is_set():
        handler.wfile.write(b" " * CHUNK_BYTES)


def send_less_than_announced(handler: HostileHandler) -> None:
    handler.start(1_000_000)
    handler.wfile.write(b'{"results": []}')


def redirect_to_itself(handler: HostileHandler) -> None:
    handler.send_response(302)
    handler.send_header("location", handler.path)
    handler.send_header("content-length", "0")
    handler.end_headers()


def send_huge_headers(handler: HostileHandler) -> None:
    handler.start(2, **{f"x-{n}": "x" * 60_000 for n in range(50)})


def send_html(handler: HostileHandler) -> None:
    handler.send_body(b"<html><body>Sign in</body></html>" * 1000)


def build_page(items: Iterator[bytes] | bytes, following: str = "null") -> bytes:
    return b'{"next": %s, "results": [%s]}' % (following.encode(), items)


def send_empty_pages(handler: HostileHandler) -> None:
    """Each page names another next one."""
    number = next(handler.server.counter)
    path = handler.path.partition("?")[0]
    handler.send_body(build_page(b"", f'"http://127.0.0.1{path}?cursor={number}"'))


def send_page_that_follows_itself(handler: HostileHandler) -> None:
    path = handler.path.partition("?")[0]
    handler.send_body(build_page(b"", f'"http://127.0.0.1{path}?cursor=same"'))


def send_objects(number: int) -> Respond:
    body = build_page(b"{}," * (number - 1) + b"{}")
    return lambda handler: handler.send_body(body)


def send_deep_page(handler: HostileHandler) -> None:
    handler.send_body(build_page(b"[" * 200_000 + b"]" * 200_000))


def send_xml(content: bytes) -> Respond:
    body = b'<?xml version="1.0"?>' + content
    return lambda handler: handler.send_body(body)


LAUGHS = b"".join(
    b'<!ENTITY l%d "%s">' % (n, (b"&l%d;" % (n - 1)) * 10 if n else b"lol") for n in range(10)
)
SAME_TOKEN = (
    b"<ListBucketResult><Contents><Key>notes.txt</Key><Size>1</Size><ETag>e</ETag></Contents>"
    b"<NextContinuationToken>same</NextContinuationToken></ListBucketResult>"
)
MANY_OBJECTS = (
    b"<ListBucketResult>"
    + b"<Contents><Key>k</Key><Size>1</Size><ETag>e</ETag></Contents>" * 20_000
    + b"</ListBucketResult>"
)

BEHAVIORS: Mapping[str, Respond] = {
    "drip": drip,
    "endless-body": send_endless_body,
    "less-than-announced": send_less_than_announced,
    "redirect-loop": redirect_to_itself,
    "huge-headers": send_huge_headers,
    "html": send_html,
    "empty-pages": send_empty_pages,
    "same-page": send_page_that_follows_itself,
    "many-items": send_objects(1_000_000),
    "too-many-items": send_objects(5_500_000),
    "deep-page": send_deep_page,
    "billion-laughs": send_xml(b"<!DOCTYPE x [" + LAUGHS + b"]><x>&l9;</x>"),
    "deep-xml": send_xml(b"<a>" * 500_000 + b"</a>" * 500_000),
    "same-token": send_xml(SAME_TOKEN),
    "many-objects": send_xml(MANY_OBJECTS),
}
