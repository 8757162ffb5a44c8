"""chDB in a child process, on a folder that only one service may open.

A query that does not end can be ended with its process. The next connection starts a new one.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import structlog

from hedgerow.errors import OperatorError
from hedgerow.lib.workers.process import lower_priority
from hedgerow.storage.events.clickhouse import ClickHousePool, connect_embedded
from hedgerow.storage.events.embedded.quarantine import list_quarantined
from hedgerow.storage.events.folder_lock import CHDB_FOLDER, FolderLock, lock_folder

DATABASE = "hedgerow"
MIB = 1 << 20
SERVER_MODULE = "hedgerow.storage.events.embedded.chdb_server"
# Opening a folder with many parts on a slow disk takes long.
START_TIMEOUT_S = 300.0
END_TIMEOUT_S = 10.0
# Queries of one project must not slow down the requests of all.
NICENESS = 5

# The defaults assume a dedicated machine: gigabytes of caches and a thread per core.
_ENGINE_OPTIONS: dict[str, Any] = {
    "mark_cache_size": 16 * MIB,
    "index_mark_cache_size": 16 * MIB,
    "primary_index_cache_size": 16 * MIB,
    "query_condition_cache_size": MIB,
    "uncompressed_cache_size": 0,
    "background_pool_size": 2,
    "background_schedule_pool_size": 1,
    "max_server_memory_usage": 1024 * MIB,
    # The operator chooses where backups go.
    "backups.allowed_path": "/",
    "max_threads": 2,
    "max_memory_usage": 512 * MIB,
    "max_bytes_before_external_sort": 128 * MIB,
    "max_bytes_before_external_group_by": 128 * MIB,
}

_log = structlog.get_logger("hedgerow.events")


class ChdbProcess:
    """The child process. It starts with `start` or the first connection, and again after it ended.
    It shares the folder's lock, so the lock is held until both processes have ended."""

    def __init__(self, folder: Path, lock: FolderLock) -> None:
        self._folder = folder
        self._folder_lock = lock
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._is_closed = False
        self._reported: set[Path] = set()
        self.starts = 0
        self.quarantined_count = 0

    def start(self) -> None:
        """Start the process unless it runs. Raises OperatorError if it cannot open the folder."""
        with self._lock:
            self._ensure_started()

    def connect(self) -> socket.socket:
        """Open a connection. Raises OSError."""
        with self._lock:
            try:
                return self._send_connection(self._ensure_started())
            except BrokenPipeError:  # it has just ended
                self._end()
                return self._send_connection(self._ensure_started())
            except OperatorError as error:
                _log.error("the event engine cannot be started", reason=str(error))
                raise OSError(str(error)) from error

    def kill(self) -> None:
        """Kill the process, with everything that it runs. Does not block."""
        if (process := self._process) is not None and process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the process, and start no other. Returns once the folder is free."""
        self._is_closed = True
        self.kill()
        with self._lock:
            self._end()

    def _ensure_started(self) -> socket.socket:
        if self._is_closed:
            raise OSError("The event store is closed.")
        if self._process is not None and self._control is not None and self._process.poll() is None:
            return self._control
        if self._process is not None:
            _log.warning(
                "the event engine has ended and is started again", status=self._process.poll()
            )
            self._end()
        self._control, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = self._spawn(theirs)
            except OSError:
                self._end()
                raise
        lower_priority(self._process.pid, NICENESS)
        self.starts += 1
        self._wait_until_ready(self._control)
        self._report_quarantined()
        return self._control

    def _report_quarantined(self) -> None:
        """The engine starts again after a part was quarantined."""
        listed = list_quarantined(self._folder / CHDB_FOLDER)
        self.quarantined_count = len(listed)
        for each in listed:
            if each.folder not in self._reported:
                self._reported.add(each.folder)
                _log.error(
                    "the event store could not write a part, and has quarantined it",
                    folder=str(each.folder),
                    rows=each.rows,
                    reason=each.reason,
                    remedy="Look after the disk, and run `hedgerow doctor`.",
                )

    def _spawn(self, control: socket.socket) -> subprocess.Popen[bytes]:
        path = f"{self._folder / CHDB_FOLDER}?{urlencode(_ENGINE_OPTIONS)}"
        shared = (control.fileno(), self._folder_lock.descriptor)
        return subprocess.Popen(  # noqa: S603 - this Python, a module of ours
            # -P: modules must not come from the current folder.
            [sys.executable, "-P", "-m", SERVER_MODULE, str(control.fileno()), path, DATABASE],
            pass_fds=shared,
            stdin=subprocess.DEVNULL,
            stdout=2,
            env=_build_environment(),
            # Ctrl-C in a terminal must not reach the process: it ends with the control socket.
            start_new_session=True,
        )

    def _wait_until_ready(self, control: socket.socket) -> None:
        control.settimeout(START_TIMEOUT_S)
        try:
            answer = control.recv(4096)
        except TimeoutError:
            answer = b"it did not start in time"
        control.settimeout(None)
        if answer != b"ready":
            self._end()
            # The first line is the error, the others are the engine's call stack.
            reason = answer.decode(errors="replace").partition("\n")[0] or "its process ended"
            reason = reason.partition(", Stack trace (")[0]
            raise OperatorError(f"The event store in {self._folder} cannot be opened: {reason}")

    def _send_connection(self, control: socket.socket) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(control, [b"c"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise
        return ours

    def _end(self) -> None:
        process, self._process = self._process, None
        if self._control is not None:
            self._control.close()
            self._control = None
        if process is not None:
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _build_environment() -> dict[str, str]:
    """Build an environment without the settings, which contain secrets."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HEDGEROW_")}
    return {**kept, "TZ": "UTC"}


def open_chdb(folder: Path, lock: FolderLock | None = None) -> ClickHousePool:
    """Open the folder, creating it if needed. A `lock` stays the caller's; without one, the folder
    is locked until the pool is closed."""
    folder = folder.resolve()
    held = lock or lock_folder(folder)
    process = ChdbProcess(folder, held)

    def release() -> None:
        process.close()
        if lock is None:
            held.release()

    try:
        process.start()
    except OSError as error:
        release()
        problem = f"The event store in {folder} cannot be opened: {error.strerror or error}."
        raise OperatorError(problem) from error
    except OperatorError:
        release()
        raise
    return connect_embedded(process, DATABASE, release)
