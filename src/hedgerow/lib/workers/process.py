"""A worker process for code that may hang or crash, with one request at a time, as bytes.

A thread would not do: it cannot be killed, and one that hangs in C code, such as a regular
expression, blocks all others.
"""

import math
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

# Heavy work must not slow down the requests of others.
NICENESS = 10
_MAX_NICENESS = 19

_HEADER_BYTES = 4
_CHUNK_BYTES = 1 << 16
_EXIT_OUT_OF_MEMORY = 12
# At the limit of the address space the stack cannot grow either, and some libraries crash.
_OUT_OF_MEMORY_CODES = (_EXIT_OUT_OF_MEMORY, -signal.SIGSEGV, -signal.SIGABRT)
_EXIT_TIMEOUT_S = 1.0
# The process ends itself when its time is over, or the CPU time that its handler has set.
_TIME_SIGNALS = (-signal.SIGALRM, -signal.SIGPROF)
_MAX_FILES = 4

FileHandler = Callable[[bytes, Sequence[int]], bytes]


class WorkerDied(Exception):
    """The process was killed because it `timed_out`, or it ended, `out_of_memory` or otherwise."""

    def __init__(self, *, timed_out: bool, out_of_memory: bool = False) -> None:
        reason = "needed too much memory" if out_of_memory else "ended"
        super().__init__("took too long" if timed_out else reason)
        self.timed_out = timed_out
        self.out_of_memory = out_of_memory


class WorkerProcess:
    """Runs `module` with this Python on the first request, and again after it died; `starts` counts
    the processes. `start_timeout_s` bounds the start and preparations, `response_timeout_s` each
    response, and `max_memory_bytes` the address space of the process; 0 means no limit."""

    def __init__(
        self,
        module: str,
        *,
        start_timeout_s: float,
        response_timeout_s: float,
        max_memory_bytes: int = 0,
    ) -> None:
        self._module = module
        self._start_timeout_s = start_timeout_s
        self._response_timeout_s = response_timeout_s
        self._max_memory_bytes = max_memory_bytes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        # Requests go through a socket instead of a pipe, because only a socket carries open files.
        self._requests: socket.socket | None = None
        self._is_killed = self._is_closed = False
        self.starts = 0

    def request(
        self,
        body: bytes,
        prepare: Callable[[int], bytes] | None = None,
        files: Sequence[int] = (),
    ) -> bytes:
        """Send a request and return the response. Blocks. Raises WorkerDied.

        `prepare` receives the start count of the process and may return a request to send first.
        `files` are descriptors that a process of `serve_file_requests` receives copies of.
        """
        with self._lock:
            process = self._ensure_started()
            if prepare is not None and (first := prepare(self.starts)):
                self._exchange_or_end(process, first, self._start_timeout_s)
            return self._exchange_or_end(process, body, self._response_timeout_s, files)

    def kill(self) -> None:
        """Kill the process. A request in progress raises WorkerDied; the next one starts a new
        process. Does not block."""
        if (process := self._process) is not None:
            # It may still look alive for a moment.
            self._is_killed = True
            _kill(process)

    def end(self) -> None:
        """Kill the process after the request in progress, until the next request. Blocks."""
        with self._lock:
            self._end()

    def close(self) -> None:
        """Kill the process, and start no other."""
        self._is_closed = True
        self.kill()
        with self._lock:
            self._end()

    def _ensure_started(self) -> subprocess.Popen[bytes]:
        if self._is_closed:
            raise WorkerDied(timed_out=False)
        is_alive = self._process is not None and self._process.poll() is None
        if self._process is not None and is_alive and not self._is_killed:
            return self._process
        self._end()
        self.starts += 1
        self._requests, theirs = socket.socketpair()
        self._process = subprocess.Popen(  # noqa: S603 - this Python, a module of ours
            # -P: modules must not come from the current folder.
            [
                *(sys.executable, "-P", "-m", self._module),
                *(str(self._start_timeout_s), str(self._max_memory_bytes)),
            ],
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
            # Ctrl-C in a terminal must not reach the process: it ends when its input ends.
            start_new_session=True,
        )
        theirs.close()
        lower_priority(self._process.pid, NICENESS)
        if self._is_closed:  # close() ran in another thread before the process existed
            self._end()
            raise WorkerDied(timed_out=False)
        assert self._process.stdout is not None
        for pipe in (self._requests, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)
        self._exchange_or_end(self._process, b"", self._start_timeout_s)
        return self._process

    def _exchange_or_end(
        self,
        process: subprocess.Popen[bytes],
        request: bytes,
        timeout_s: float,
        files: Sequence[int] = (),
    ) -> bytes:
        response = None
        try:
            assert self._requests is not None
            assert process.stdout is not None
            channel = (self._requests, process.stdout.fileno())
            response = _exchange(channel, request, timeout_s, files)
            return response
        except EOFError:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_EXIT_TIMEOUT_S)
            raise WorkerDied(
                # The timer of the process can be earlier than ours on a busy machine.
                timed_out=process.returncode in _TIME_SIGNALS,
                out_of_memory=process.returncode in _OUT_OF_MEMORY_CODES,
            ) from None
        finally:
            if response is None:  # a late response must not answer the next request
                self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        self._is_killed = False
        if process is not None:
            _kill(process)
            process.wait()
            for pipe in (self._requests, process.stdout):
                if pipe is not None:
                    pipe.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children, which share its process group."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def serve_requests(build_handler: Callable[[], Callable[[bytes], bytes]]) -> None:
    """Handle requests in the worker process until its input ends. Never returns."""

    def build_file_handler() -> FileHandler:
        handle = build_handler()
        return lambda body, _: handle(body)

    serve_file_requests(build_file_handler)


def serve_file_requests(build_handler: Callable[[], FileHandler]) -> None:
    """The same for requests with open files, which the handler closes."""
    start_timeout_s, max_memory_bytes = float(sys.argv[1]), int(sys.argv[2])
    if max_memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (max_memory_bytes, max_memory_bytes))
    requests, responses = socket.socket(fileno=os.dup(0)), os.dup(1)
    # Output of the handler must not mix with responses, and it has no input.
    os.dup2(2, 1)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    # A stop signal for the whole service is meant for the parent, which sends requests until it
    # ends. A handler instead of SIG_IGN, because child processes would inherit SIG_IGN.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    # If the parent has died, the timer ends a handler that hangs.
    signal.setitimer(signal.ITIMER_REAL, 2 * start_timeout_s)
    handle = build_handler()
    signal.setitimer(signal.ITIMER_REAL, 0)
    while (received := _read_frame(requests)) is not None:
        request, files = received
        timeout_s = int.from_bytes(request[:_HEADER_BYTES], "big") / 1000
        signal.setitimer(signal.ITIMER_REAL, 2 * timeout_s)
        try:
            body = handle(request[_HEADER_BYTES:], files) if len(request) > _HEADER_BYTES else b""
        except MemoryError:
            os._exit(_EXIT_OUT_OF_MEMORY)
        signal.setitimer(signal.ITIMER_REAL, 0)
        written = memoryview(_frame(body))
        while written:
            written = written[os.write(responses, written) :]
    # Do not wait for threads that the handler has started.
    os._exit(0)


def lower_priority(pid: int, by: int) -> None:
    """Make a new process nicer than this one. Its own code could do so only after its imports, the
    most expensive part of a short life."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, min(own + by, _MAX_NICENESS))


def _exchange(
    channel: tuple[socket.socket, int], request: bytes, timeout_s: float, files: Sequence[int]
) -> bytes:
    """Raises EOFError if the process ended."""
    deadline = time.monotonic() + timeout_s
    requests, responses = channel
    # The first bytes tell the process its time limit.
    limit = math.ceil(timeout_s * 1000).to_bytes(_HEADER_BYTES, "big")
    unsent, received, size = memoryview(_frame(limit + request)), bytearray(), _HEADER_BYTES
    while len(received) < size:
        left = deadline - time.monotonic()
        ready = _poll([responses, requests.fileno()] if unsent else [responses], left)
        if not ready:
            raise WorkerDied(timed_out=True)
        try:
            if requests.fileno() in ready:
                # The files belong to the first byte.
                sent = socket.send_fds(requests, [unsent[:_CHUNK_BYTES]], list(files))
                unsent, files = unsent[sent:], ()
            if responses in ready:
                chunk = os.read(responses, _CHUNK_BYTES)
                if not chunk:
                    raise EOFError
                received += chunk
        except (BrokenPipeError, ConnectionResetError):
            raise EOFError from None
        if len(received) >= _HEADER_BYTES:
            size = _HEADER_BYTES + int.from_bytes(received[:_HEADER_BYTES], "big")
    return bytes(memoryview(received)[_HEADER_BYTES:])  # one copy instead of two


def _poll(pipes: Sequence[int], timeout_s: float) -> set[int]:
    """Return the pipes that are ready or broken. The first is read, the other is written."""
    poll = select.poll()
    for pipe, event in zip(pipes, (select.POLLIN, select.POLLOUT), strict=False):
        poll.register(pipe, event)
    return {pipe for pipe, _ in poll.poll(max(0, math.ceil(timeout_s * 1000)))}


def _frame(body: bytes) -> bytes:
    return len(body).to_bytes(_HEADER_BYTES, "big") + body


def _read_frame(requests: socket.socket) -> tuple[bytes, Sequence[int]] | None:
    """Return a request and its files; None at the end of the input."""
    files: list[int] = []
    head = bytearray()
    while len(head) < _HEADER_BYTES:
        missing = _HEADER_BYTES - len(head)
        chunk, received, *_ = socket.recv_fds(requests, missing, _MAX_FILES)
        if not chunk:
            return None
        head += chunk
        files += received
    body = _read_exactly(requests.fileno(), int.from_bytes(head, "big"))
    return None if body is None else (body, files)


def _read_exactly(source: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        chunk = os.read(source, min(_CHUNK_BYTES, size - len(data)))
        if not chunk:
            return None
        data += chunk
    return bytes(data)
