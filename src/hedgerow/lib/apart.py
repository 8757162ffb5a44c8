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
from contextlib import suppress

_HEAD = 4
_PIECE = 1 << 16


class Lost(Exception):
    """The process took too long, which is `late`, or it ended."""

    def __init__(self, *, late: bool) -> None:
        super().__init__("took too long" if late else "ended")
        self.late = late


class Apart:
    """Runs `module` with this Python, once there is something to ask; and again after it was
    lost, which `starts` counts. It has `start_s` to begin, or to prepare itself for a question, and
    `answer_s` for each answer."""

    def __init__(self, module: str, *, start_s: float, answer_s: float) -> None:
        self._module = module
        self._start_s = start_s
        self._answer_s = answer_s
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self.starts = 0

    def ask(self, question: bytes, prepare: Callable[[int], bytes] | None = None) -> bytes:
        """`prepare` is given the number of the process that will hear the question, and what it
        says, if anything, is asked before. Blocks."""
        with self._turn:
            process = self._started()
            if prepare is not None and (first := prepare(self.starts)):
                self._asked(process, first, self._start_s)
            return self._asked(process, question, self._answer_s)

    def close(self) -> None:
        """Who asks at the moment is told that it ended."""
        self._is_closed = True
        if (process := self._process) is not None:
            _kill(process)
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
            # The folder that we happen to be in is no place for modules.
            [sys.executable, "-P", "-m", self._module, str(self._start_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # What is meant for us at a terminal is not meant for it: it ends with its input.
            start_new_session=True,
        )
        if self._is_closed:  # by somebody who did not see it
            self._end()
            raise Lost(late=False)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self._asked(self._process, b"", self._start_s)
        return self._process

    def _asked(self, process: subprocess.Popen[bytes], question: bytes, at_most_s: float) -> bytes:
        answer = None
        try:
            answer = _exchange(process, question, at_most_s)
            return answer
        finally:
            if answer is None:  # whatever it was, one may still be on its way
                self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            _kill(process)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started: the group is its own."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def answering(make: Callable[[], Callable[[bytes], bytes]]) -> None:
    """The other side: make what answers, and let it answer questions until there are no more."""
    start_s = float(sys.argv[1])
    questions, answers = os.dup(0), os.dup(1)
    # Whatever is printed is no answer, and nobody types here.
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    # Who stops all processes of a service means the one that asks: it has questions until its end.
    # Not ignored, which would be handed on to whatever is started here.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    # If who asked has died, nobody else would end us: the system does.
    signal.setitimer(signal.ITIMER_REAL, 2 * start_s)
    answer = make()
    signal.setitimer(signal.ITIMER_REAL, 0)
    while (question := _read(questions)) is not None:
        at_most_s = int.from_bytes(question[:_HEAD], "big") / 1000
        signal.setitimer(signal.ITIMER_REAL, 2 * at_most_s)
        said = answer(question[_HEAD:]) if len(question) > _HEAD else b""
        signal.setitimer(signal.ITIMER_REAL, 0)
        written = memoryview(_framed(said))
        while written:
            written = written[os.write(answers, written) :]
    # Whatever threads there are, nobody asks any more.
    os._exit(0)


def _exchange(process: subprocess.Popen[bytes], question: bytes, at_most_s: float) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    deadline = time.monotonic() + at_most_s
    to, back = process.stdin.fileno(), process.stdout.fileno()
    # It is told how long it has.
    told = math.ceil(at_most_s * 1000).to_bytes(_HEAD, "big")
    unsent, received, size = memoryview(_framed(told + question)), bytearray(), _HEAD
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
