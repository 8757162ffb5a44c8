"""Calls of what may hang or crash, in a process of its own that can be ended.

One question at a time goes there and one answer comes back, as bytes. A thread cannot be ended, and
one that hangs in C code, in a regular expression for instance, holds up all others.
"""

import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

_HEAD = 4
_PIECE = 1 << 16


class Lost(Exception):
    """The process took too long, which is `late`, or it ended."""

    def __init__(self, *, late: bool) -> None:
        super().__init__("took too long" if late else "ended")
        self.late = late


class Apart:
    """Runs `module` with this Python, once there is something to ask; and again after it was
    lost, which `starts` counts. It has `start_s` to begin and `answer_s` for each answer."""

    def __init__(self, module: str, *, start_s: float, answer_s: float) -> None:
        self._module = module
        self._start_s = start_s
        self._answer_s = answer_s
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self.starts = 0

    def ask(self, question: Callable[[int], bytes]) -> bytes:
        """`question` is given the number of the process that will hear it. Blocks."""
        with self._turn:
            answer = None
            try:
                process = self._started()
                answer = _exchange(process, question(self.starts), self._answer_s)
                return answer
            finally:
                if answer is None:  # whatever it was, one may still be on its way
                    self._end()

    def close(self) -> None:
        """Who asks at the moment is told that it ended."""
        self._is_closed = True
        if (process := self._process) is not None:
            process.kill()
        with self._turn:
            self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._is_closed:
            raise Lost(late=False)
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        self.starts += 1
        self._process = subprocess.Popen(  # noqa: S603 - this Python, a module of ours
            [sys.executable, "-m", self._module, str(self._answer_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What is meant for us at a terminal is not meant for it: it ends with its input.
            start_new_session=True,
        )
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        _exchange(self._process, b"", self._start_s)
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def answering(make: Callable[[], Callable[[bytes], bytes]]) -> None:
    """The other side: make what answers, and let it answer questions until there are no more."""
    answer_s = float(sys.argv[1])
    questions, answers = os.dup(0), os.dup(1)
    # Whatever is printed is no answer, and nobody types here.
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    # Who stops all processes of a service means the one that asks: it has questions until its end.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    answer = make()
    while (question := _read(questions)) is not None:
        # If who asked has died, nobody else would end us: the system does.
        signal.setitimer(signal.ITIMER_REAL, 2 * answer_s)
        said = answer(question) if question else b""
        signal.setitimer(signal.ITIMER_REAL, 0)
        written = memoryview(_framed(said))
        while written:
            written = written[os.write(answers, written) :]


def _exchange(process: subprocess.Popen[bytes], question: bytes, at_most_s: float) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    deadline = time.monotonic() + at_most_s
    to, back = process.stdin.fileno(), process.stdout.fileno()
    unsent, received, size = memoryview(_framed(question)), bytearray(), _HEAD
    while len(received) < size:
        left = deadline - time.monotonic()
        ready = _ready([back, to] if unsent else [back], left)
        if not ready:
            raise Lost(late=True)
        try:
            if to in ready:
                unsent = unsent[os.write(to, unsent[:_PIECE]) :]
            if back in ready:
                piece = os.read(back, _PIECE)
                if not piece:
                    raise Lost(late=False)
                received += piece
        except (BrokenPipeError, ConnectionResetError):
            raise Lost(late=False) from None
        if len(received) >= _HEAD:
            size = _HEAD + int.from_bytes(received[:_HEAD], "big")
    return bytes(received[_HEAD:])


def _ready(pipes: Sequence[int], at_most_s: float) -> set[int]:
    """Those of them that can go on, or never will. The first is read, the other is written to."""
    poll = select.poll()
    for pipe, event in zip(pipes, (select.POLLIN, select.POLLOUT), strict=False):
        poll.register(pipe, event)
    return {pipe for pipe, _ in poll.poll(max(0, math.ceil(at_most_s * 1000)))}


def _framed(said: bytes) -> bytes:
    return len(said).to_bytes(_HEAD, "big") + said


def _read(questions: int) -> bytes | None:
    head = _read_exactly(questions, _HEAD)
    return None if head is None else _read_exactly(questions, int.from_bytes(head, "big"))


def _read_exactly(source: int, size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        piece = os.read(source, min(_PIECE, size - len(found)))
        if not piece:
            return None
        found += piece
    return bytes(found)
