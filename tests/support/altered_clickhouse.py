"""A ClickHouse server that is not as it should be: a proxy before the server of the tests, which
changes what it is asked, or refuses it as ClickHouse does.

What needs another version, a cluster or users with few rights cannot be had of an embedded engine.
"""

import http.client
import re
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

TIMEOUT_S = 60
HEADERS = ("content-type", "content-encoding", "x-clickhouse-format", "x-clickhouse-summary")
NO_RIGHTS = b"Code: 497. DB::Exception: hedgerow: Not enough privileges. (ACCESS_DENIED)"


class AlteredClickHouse:
    """`replaced` has regular expressions for parts of statements, and what is asked instead;
    `refused` parts of statements for which the user has no right."""

    def __init__(self, url: str, *, replaced: Mapping[str, str], refused: Sequence[str]) -> None:
        server = urlsplit(url)
        self._server_at = server.netloc
        self._replaced = replaced
        self._refused = refused
        altered = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                altered._handle(self)

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None: ...

        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._proxy.daemon_threads = True
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._proxy.server_port}{server.path}"

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0))).decode()
        path, _, query = handler.path.partition("?")
        fields = dict(parse_qsl(query, keep_blank_values=True))
        statement = fields.get("query", "") + body
        if any(each in statement for each in self._refused):
            _answer(handler, 403, {"x-clickhouse-exception-code": "497"}, NO_RIGHTS)
            return
        if "query" in fields:
            fields["query"] = self._alter(fields["query"])
        server = http.client.HTTPConnection(self._server_at, timeout=TIMEOUT_S)
        try:
            sent = self._alter(body).encode()
            # Parameters are in a form.
            headers = {"content-type": handler.headers.get("content-type", "text/plain")}
            server.request(handler.command, f"{path}?{urlencode(fields)}", sent, headers)
            answer = server.getresponse()
            kept = {name: value for name in HEADERS if (value := answer.getheader(name))}
            if code := answer.getheader("x-clickhouse-exception-code"):
                kept["x-clickhouse-exception-code"] = code
            _answer(handler, answer.status, kept, answer.read())
        finally:
            server.close()

    def _alter(self, statement: str) -> str:
        for part, instead in self._replaced.items():
            statement = re.sub(part, instead.replace("\\", r"\\"), statement)
        return statement

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._proxy.shutdown()
        self._proxy.server_close()


def _answer(
    handler: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    handler.send_response_only(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
