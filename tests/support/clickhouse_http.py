"""A ClickHouse server for tests: chDB in a process of its own, behind ClickHouse's HTTP interface.

    python -m tests.support.clickhouse_http FOLDER

The real client library talks to the real engine; only what lies between the two is ours.
"""

import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import chdb
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hedgerow.storage.events.chdb_server import parse_form
from tests.support.live import find_free_port

NOT_SETTINGS = {"query", "query_id", "database", "client_protocol_version", "wait_end_of_query"}
INSERT = re.compile(rb"(INSERT INTO .*) FORMAT (\w+)\n", re.DOTALL)
ROOT = Path(__file__).parents[2]


class ClickHouseTestServer:
    """The server process. Each test creates its own database."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._databases = 0
        self._port = find_free_port()
        self.start()

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "tests.support.clickhouse_http",
            str(self._folder),
            self._port,
        ]
        self._process = subprocess.Popen(command, cwd=ROOT)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.run("SELECT 1")
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def create_database(self) -> str:
        """Create an empty database and return its URL."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.run(f"CREATE DATABASE {name}")
        return f"http://127.0.0.1:{self._port}/{name}"

    def run(self, sql: str) -> bytes:
        with urlopen(f"http://127.0.0.1:{self._port}/", data=sql.encode(), timeout=60) as answer:
            return bytes(answer.read())


def build_app(folder: str) -> Starlette:
    keeper = chdb.connect(folder)

    async def answer(request: Request) -> Response:
        query = dict(request.query_params)
        content_type = request.headers.get("content-type", "")
        if content_type.startswith("multipart/"):
            boundary = content_type.partition("boundary=")[2]
            query |= parse_form(await request.body(), boundary.encode())
            body = query.pop("query").encode()
        else:
            body = b"\n".join(filter(None, (query.get("query", "").encode(), await request.body())))
        return _run(folder, body, query)

    # The engine closes with its last connection, so the application keeps one open.
    app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])
    app.state.keeper = keeper
    return app


def _run(folder: str, body: bytes, query: dict[str, str]) -> Response:
    parameters = {k.removeprefix("param_"): v for k, v in query.items() if k.startswith("param_")}
    settings = {
        k: v for k, v in query.items() if not k.startswith("param_") and k not in NOT_SETTINGS
    }
    connection = chdb.connect(folder)
    try:
        if database := query.get("database"):
            connection.query(f"USE `{database}`")
        # A server runs all statements of a request; chDB would accept no request after this one.
        for name, value in sorted(settings.items(), key=lambda each: each[0] == "readonly"):
            connection.query(f"SET {name} = '{value}'")
        if insert := INSERT.match(body):
            with connection.send_insert(insert[1].decode(), insert[2].decode()) as stream:
                stream.append(body[insert.end() :])
                stream.finish()
            return Response(b"")
        result = connection.query(body.decode(), "TabSeparated", params=parameters)
        return Response(result.bytes() or b"", headers={"X-ClickHouse-Timezone": "UTC"})
    except (chdb.ChdbError, RuntimeError) as error:
        code = re.search(r"Code: (\d+)", str(error))
        headers = {"X-ClickHouse-Exception-Code": code[1]} if code else {}
        return Response(str(error), status_code=500, headers=headers)
    finally:
        connection.close()


if __name__ == "__main__":
    uvicorn.run(build_app(sys.argv[1]), port=int(sys.argv[2]), log_level="warning")
