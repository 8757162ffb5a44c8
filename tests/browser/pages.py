"""A server for pages, on another origin than the service: what a site of somebody would be."""

import mimetypes
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HTML = "text/html; charset=utf-8"


class PageServer:
    """`pages` are texts by their path; everything under /packages/ is read from a folder."""

    def __init__(self, packages: Path) -> None:
        self.pages: dict[str, str] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                content, kind = server._found(path, packages)
                self.send_response(200 if content is not None else 404)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _found(self, path: str, packages: Path) -> tuple[bytes | None, str]:
        if path in self.pages:
            return self.pages[path].encode(), HTML
        if path == "/favicon.ico":
            return b"", "image/x-icon"
        file = (packages / path.removeprefix("/packages/")).resolve()
        if path.startswith("/packages/") and file.is_relative_to(packages.resolve()):
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            return (file.read_bytes(), kind) if file.is_file() else (None, kind)
        return None, HTML

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def put(self, path: str, page: str) -> str:
        """Where the page is then."""
        self.pages[path] = page
        return self.address + path

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def with_posthog(
    host: str,
    token: str,
    options: Mapping[str, str],
    script: str = "array.js",
    *,
    package: str = "posthog-js",
    body: str = "<h1>A page</h1>",
) -> str:
    """A page with posthog-js as its package brings it. `options` are JavaScript expressions."""
    given = {"api_host": f"'{host}'", "opt_out_useragent_filter": "true", **options}
    init = ", ".join(f"{name}: {value}" for name, value in given.items())
    return f"""<!doctype html>
<html><head><title>A page</title></head>
<body>{body}
<script>
  // The smallest part of the snippet: calls before the library is there are kept for it.
  window.posthog = window.posthog || []
  posthog._i = [['{token}', {{ {init} }}, 'posthog']]
  posthog.__SV = 1
</script>
<script src="/packages/{package}/dist/{script}"></script>
</body></html>"""
