"""The process of the embedded engine: chDB behind ClickHouse's HTTP interface.

    python -m hedgerow.storage.events.embedded.chdb_server CONTROL_FD CONNECTION_STRING DATABASE

There is no address to connect to. The parent sends one end of a socket pair for each connection
over the control socket, and the process ends when the control socket closes. It may be killed at
any time: everything acknowledged is on disk, since chDB's own success is not taken for it.
"""

import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO
from urllib.parse import parse_qsl

from hedgerow.storage.events.embedded.repair import repair_folder
from hedgerow.storage.events.embedded.verifier import (
    IncompleteWriteError,
    PartVerifier,
    end_engine,
)

READY = b"ready"
# More than the engine allows itself: it does not count everything that it allocates.
MAX_RESIDENT_BYTES = 2 << 30
MEMORY_CHECK_INTERVAL_S = 0.5
# The kernel ends the engine before the service if the machine lacks memory.
OOM_SCORE_FILE, OOM_SCORE = Path("/proc/self/oom_score_adj"), "500"
EXIT_OUT_OF_MEMORY = 12

# Columns and indexes take more space than the text of the rows, before they are compressed.
SPACE_FACTOR, SPACE_RESERVE_BYTES = 3, 8 << 20

EVENTS_TABLE = "events"

_MAX_LINE_BYTES = 16 << 20
_MAX_RECORD_BYTES = 64 << 10
_NOT_SETTINGS = {
    "query",
    "query_id",
    "database",
    "client_protocol_version",
    "wait_end_of_query",
    "enable_http_compression",
    "send_progress_in_http_headers",
    "http_headers_progress_interval_ms",
}
_INSERT = re.compile(rb"\s*(INSERT INTO [^\n]*?) FORMAT (\w+)\s*\n", re.IGNORECASE)
# A statement with a result, in a format whose blocks can be sent one after another.
_READ = re.compile(rb"(.*)\bFORMAT\s+(Native|RowBinary)\s*$", re.IGNORECASE | re.DOTALL)
_FIELD_NAME = re.compile(rb'\bname="([^"]*)"')
_FILE_NAME = b"filename="
_BOUNDARY = re.compile(r"boundary=([^;]+)")
_ERROR_LINE = re.compile(rb"^Code: .*", re.MULTILINE)
_ERROR_CODE = re.compile(r"Code: (\d+)")
_WRITE = re.compile(
    rb"\s*(ALTER|CREATE|DELETE|DROP|EXCHANGE|OPTIMIZE|RENAME|TRUNCATE)\b", re.IGNORECASE
)
_DEFINITION = re.compile(
    rb"\s*(CREATE|DROP|EXCHANGE|RENAME|ALTER TABLE \S+ (ADD|MODIFY|DROP COLUMN))\b",
    re.IGNORECASE,
)
_NO_SPACE = "Code: 243. DB::Exception: The disk is almost full. (NOT_ENOUGH_SPACE)"
_TOO_LARGE = "Code: 396. DB::Exception: The result has too many bytes. (TOO_MANY_ROWS_OR_BYTES)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """`statement` is SQL, followed by the rows of an insert. `tables` are the rows of external
    tables, which exist for the statement alone."""

    statement: bytes
    parameters: dict[str, str]
    tables: dict[str, bytes]

    @property
    def use(self) -> str:
        return f"USE `{self.parameters.get('database', 'default')}`"

    @property
    def values(self) -> dict[str, str]:
        """The values of the placeholders in the statement."""
        prefix = "param_"
        return {k[len(prefix) :]: v for k, v in self.parameters.items() if k.startswith(prefix)}

    @property
    def settings(self) -> str:
        return ", ".join(
            f"{name} = {_quote(value)}"
            for name, value in self.parameters.items()
            if not name.startswith("param_")
            and name not in _NOT_SETTINGS
            and name.rpartition("_")[0] not in self.tables
        )

    @property
    def settings_clause(self) -> str:
        return f"SETTINGS {settings}" if (settings := self.settings) else ""


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


class _Failure(Exception):
    """An error of the engine, with its code in the text."""


@dataclass(frozen=True, slots=True)
class Engine:
    """`connect` opens a session. Without a `verifier`, the engine's word is taken for what it has
    written."""

    connect: Callable[[], Any]
    verifier: PartVerifier | None = None

    @contextmanager
    def verify_command(self, statement: bytes) -> Iterator[None]:
        """Verify what a statement within has written, if it writes."""
        if self.verifier is None or not _WRITE.match(statement):
            yield
            return
        changes_definition = _DEFINITION.match(statement)
        with self.verifier.keep_definitions() if changes_definition else nullcontext():
            yield
        with self._end_if_incomplete():
            self.verifier.verify_command()

    def verify_parts(self) -> None:
        """Verify parts that an insert has written, or a merge may just have."""
        with self._end_if_incomplete():
            if self.verifier is not None:
                self.verifier.verify_parts()

    def require_space(self, size: int) -> None:
        """Refuse to write `size` bytes of rows unless there is much more space."""
        if self.verifier is not None and self.verifier.measure_free_space() < (
            SPACE_FACTOR * size + SPACE_RESERVE_BYTES
        ):
            raise _Failure(_NO_SPACE)

    @contextmanager
    def _end_if_incomplete(self) -> Iterator[None]:
        """End the process without an answer: the engine takes an incomplete part for a good one,
        also if it cannot be moved away."""
        try:
            yield
        except (IncompleteWriteError, OSError) as error:
            end_engine(error)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    path, database = sys.argv[2:4]
    _ignore_stop_signals()
    with suppress(OSError):
        OOM_SCORE_FILE.write_text(OOM_SCORE)
    folder = Path(path.partition("?")[0])
    connect = partial(import_chdb().connect, path)
    try:
        loaded = repair_folder(folder)
        # The engine stops with its last connection.
        keeper = _open_folder(connect)
        _create_database(keeper, database, folder)
        verifier = PartVerifier(folder, connect)
        verifier.start(loaded)
    except (RuntimeError, OSError) as error:  # the parent reports it
        control.sendall(str(error).encode(errors="replace")[:4096])
        os._exit(1)
    except IncompleteWriteError:
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - the same command again
    engine = Engine(connect, verifier)
    threading.Thread(target=_watch_memory, daemon=True).start()
    control.sendall(READY)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            # An orderly end takes longer and makes nothing safer.
            os._exit(0)
        connection = socket.socket(fileno=descriptors[0])
        threading.Thread(target=serve_connection, args=(engine, connection), daemon=True).start()


def _open_folder(connect: Callable[[], Any]) -> Any:
    """The engine writes to standard error why it cannot open a folder, and raises less than that:
    raise what it has written."""
    stderr, record = os.dup(2), os.memfd_create("errors")
    os.dup2(record, 2)
    try:
        return connect()
    except RuntimeError as error:
        reason = _ERROR_LINE.search(os.pread(record, _MAX_RECORD_BYTES, 0))
        raise RuntimeError(reason[0].decode(errors="replace") if reason else str(error)) from error
    finally:
        os.dup2(stderr, 2)
        os.write(2, os.pread(record, _MAX_RECORD_BYTES, 0))
        os.close(stderr)
        os.close(record)


def _create_database(session: Any, database: str, folder: Path) -> None:
    """Create the database unless it exists. Without its list of tables, which is in other files
    than the events, the folder would look empty: raise RuntimeError instead."""
    session.query(f"CREATE DATABASE IF NOT EXISTS {database}")
    if session.query(f"EXISTS TABLE {database}.{EVENTS_TABLE}").bytes().strip() == b"1":
        return
    if part := next(folder.glob("store/*/*/*/checksums.txt"), None):
        raise RuntimeError(
            f"the definition of the table {EVENTS_TABLE} is missing, although there is data in "
            f"{part.parent.parent}. Restore a backup."
        )


def import_chdb() -> ModuleType:
    """Import chDB's connections without their package, whose import takes twice as long as opening
    a folder: it starts another engine to ask for its version, and loads pyarrow for results that we
    do not use."""
    found = find_spec("chdb")
    package = ModuleType("chdb")
    package.__path__ = list(found.submodule_search_locations or ()) if found else []
    sys.modules["chdb"] = package
    sys.modules["pyarrow"] = None  # type: ignore[assignment] # as if it were not installed
    return import_module("chdb.state.sqlitelike")


def _ignore_stop_signals() -> None:
    """A stop signal for the whole service is meant for the parent, which still uses the engine."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _watch_memory() -> None:
    page_bytes, sizes = os.sysconf("SC_PAGE_SIZE"), Path("/proc/self/statm")
    while sizes.exists():
        resident_bytes = int(sizes.read_text().split()[1]) * page_bytes
        if resident_bytes > MAX_RESIDENT_BYTES:
            os.write(2, b"The event engine needs too much memory and ends.\n")
            os._exit(EXIT_OUT_OF_MEMORY)
        time.sleep(MEMORY_CHECK_INTERVAL_S)


def serve_connection(engine: Engine, connection: socket.socket) -> None:
    """Answer the requests of one connection until the client closes it."""
    session = engine.connect()
    try:
        with connection, connection.makefile("rb") as stream:
            while (request := _read_request(stream)) is not None:
                _respond(_execute(session, engine, request), connection)
    except OSError:  # the service has closed the connection
        return
    finally:
        session.close()


def _read_request(stream: BinaryIO) -> _Request | None:
    line = stream.readline(_MAX_LINE_BYTES)
    if not line:
        return None
    query = line.split(b" ")[1].decode().partition("?")[2]
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    headers: dict[str, str] = {}
    while (header := stream.readline(_MAX_LINE_BYTES).strip()) != b"":
        name, _, value = header.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    tables: dict[str, bytes] = {}
    if boundary := _BOUNDARY.search(headers.get("content-type", "")):
        fields, tables = _parse_form(body, boundary[1].encode())
        parameters |= fields
        body = b""
    statement = parameters.pop("query", "").encode()
    parts = [part for part in (statement, body) if part]
    return _Request(statement=b"\n".join(parts), parameters=parameters, tables=tables)


def _parse_form(body: bytes, boundary: bytes) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return the fields of a multipart form, in which the driver sends parameters, and its files,
    which are external tables."""
    fields, files = {}, {}
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, value = part.partition(b"\r\n\r\n")
        value = value.removesuffix(b"\r\n")
        if name := _FIELD_NAME.search(head):
            if _FILE_NAME in head:
                files[name[1].decode()] = value
            else:
                fields[name[1].decode()] = value.decode()
    return fields, files


def _respond(result: Iterator[bytes], connection: socket.socket) -> None:
    """Answer with the result. An error after its beginning closes the connection."""
    is_started = False
    try:
        for chunk in result:
            if not is_started:
                connection.sendall(_build_head(200, {"Transfer-Encoding": "chunked"}))
                is_started = True
            connection.sendall(b"%x\r\n" % len(chunk))
            connection.sendall(chunk)
            connection.sendall(b"\r\n")
    except _Failure as failure:
        if is_started:
            raise OSError from failure
        connection.sendall(_build_error(str(failure)))
        return
    connection.sendall(b"0\r\n\r\n" if is_started else _build_head(200, {"Content-Length": "0"}))


def _build_head(status: int, headers: dict[str, str]) -> bytes:
    headers = {"X-ClickHouse-Timezone": "UTC", **headers}
    lines = [f"HTTP/1.1 {status} -", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "\r\n"]).encode()


def _build_error(text: str) -> bytes:
    body = text.encode(errors="replace")
    headers = {"Content-Length": str(len(body))}
    if code := _ERROR_CODE.search(text):
        headers["X-ClickHouse-Exception-Code"] = code[1]
    return _build_head(500, headers) + body


def _execute(session: Any, engine: Engine, request: _Request) -> Iterator[bytes]:
    try:
        if request.tables:
            session.query(request.use)
            _create_tables(session, request)
        if insert := _INSERT.match(request.statement):
            session.query(request.use)
            rows = memoryview(request.statement)[insert.end() :]
            engine.require_space(len(rows))
            _insert(session, insert[1].decode(), insert[2].decode(), rows, request)
            engine.verify_parts()
        elif found := _READ.match(request.statement):
            session.query(request.use)
            sql = f"{found[1].decode()}\n {request.settings_clause} FORMAT {found[2].decode()}"
            yield from _read(session, sql, found[2].decode(), request)
        else:
            with engine.verify_command(request.statement):
                yield from _run_command(engine.connect, request)
    except (RuntimeError, UnicodeDecodeError, OSError) as error:
        # Perhaps it has read a part that is not complete.
        engine.verify_parts()
        raise _Failure(str(error)) from error
    finally:
        for name in request.tables:
            with suppress(RuntimeError):
                session.query(f"DROP TEMPORARY TABLE IF EXISTS `{name}`")


def _create_tables(session: Any, request: _Request) -> None:
    for name, rows in request.tables.items():
        structure, format = (request.parameters[f"{name}_{k}"] for k in ("structure", "format"))
        session.query(f"CREATE TEMPORARY TABLE `{name}` ({structure}) ENGINE = Memory")
        _insert_rows(session, f"INSERT INTO `{name}`", memoryview(rows), f"FORMAT {format}")


def _insert(session: Any, into: str, format: str, rows: memoryview, request: _Request) -> None:
    _insert_rows(session, into, rows, f"{request.settings_clause} FORMAT {format}")


def _insert_rows(session: Any, into: str, rows: memoryview, clause: str) -> None:
    """The engine reads the rows from a file in memory. Its `send_insert` would not report that the
    disk is full."""
    with open(os.memfd_create("rows"), "wb") as file:
        file.write(rows)
        file.flush()
        path = f"/proc/self/fd/{file.fileno()}"
        session.query(f"{into} FROM INFILE '{path}' {clause}", "TabSeparated")


def _read(session: Any, sql: str, format: str, request: _Request) -> Iterator[bytes]:
    """With `wait_end_of_query` every error comes before the first byte of the result."""
    if "wait_end_of_query" not in request.parameters:
        with session.send_query(sql, format, params=request.values) as blocks:
            yield from filter(None, (block.bytes() for block in blocks))
        return
    result = session.query(sql, format, params=request.values)
    # The engine itself checks the limit only between blocks.
    if 0 < int(request.parameters.get("max_result_bytes", 0)) < result.size():
        raise _Failure(_TOO_LARGE)
    if data := result.bytes():
        yield data


def _run_command(connect: Callable[[], Any], request: _Request) -> Iterator[bytes]:
    """Run a statement that cannot carry settings, in a session of its own: none of them stays."""
    session = connect()
    try:
        session.query(request.use)
        if request.settings:
            session.query(f"SET {request.settings}")
        result = session.query(request.statement.decode(), "TabSeparated", params=request.values)
        if data := result.bytes():
            yield data
    finally:
        session.close()


if __name__ == "__main__":
    main()
