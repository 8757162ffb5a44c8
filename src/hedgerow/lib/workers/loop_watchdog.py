"""Finds callbacks and tasks that hold the event loop, by the processor time of its thread.

A heartbeat runs in the loop, and a thread looks at the loop's stack while the heartbeat is overdue.
A thread that waits for a processor or the interpreter lock uses no processor time, so that a busy
machine does not count. What calls into C for long is seen when the call returns.
"""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import FrameType

MIN_HOLD_S = 0.05
INTERVAL_S = 0.02
# Of the stack in the log, from the inside.
SHOWN_FRAMES = 8
PACKAGE = "hedgerow."
# It calls callbacks and tasks in asyncio's own loop, where uvloop calls them from C.
_RUN_HANDLE = asyncio.events.Handle._run.__code__


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopHold:
    """`handler` is the function that held the loop for this processor time, `stack` what it was
    doing, the innermost function first."""

    handler: str
    seconds: float
    stack: Sequence[str]


@dataclass(slots=True, kw_only=True)
class _Candidate:
    """What the loop has been doing since `start_s`, seen until `end_s`, both processor times."""

    root: FrameType
    beats: int
    start_s: float
    end_s: float
    stack: Sequence[str]

    def is_same(self, root: FrameType | None, beats: int) -> bool:
        return self.root is root and self.beats == beats


class LoopWatchdog:
    """`plumbing` are beginnings of modules that call handlers: a hold is named after the first
    function of another module. `on_hold` is called in the loop."""

    def __init__(self, on_hold: Callable[[LoopHold], None], plumbing: tuple[str, ...] = ()) -> None:
        self._on_hold = on_hold
        self._plumbing = plumbing
        self._ended = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        # The frame that runs the loop, and the number and the processor time of the last heartbeat.
        self._base: FrameType | None = None
        self._beats = 0
        self._beat_s = 0.0
        # By handler.
        self.counts: dict[str, int] = {}
        self.seconds: dict[str, float] = {}

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Watch the running loop during the block, where the system can tell the processor time of
        a thread."""
        if not hasattr(time, "pthread_getcpuclockid"):
            yield
            return
        self._loop = asyncio.get_running_loop()
        self._beat()
        ident = threading.get_ident()
        clock = time.pthread_getcpuclockid(ident)
        thread = threading.Thread(target=self._look, args=(ident, clock), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            if self._timer is not None:
                self._timer.cancel()
            self._base = None
            thread.join()

    def _beat(self) -> None:
        assert self._loop is not None
        if self._timer is not None:  # the first one is called by a task
            self._base = sys._getframe().f_back
        self._beats += 1
        self._beat_s = time.thread_time()
        self._timer = self._loop.call_later(INTERVAL_S, self._beat)

    def _look(self, ident: int, clock: int) -> None:
        """Look at the loop again and again. This runs in a thread."""
        candidate: _Candidate | None = None
        seen_s = 0.0
        while not self._ended.wait(INTERVAL_S):
            beats, beat_s, now_s = self._beats, self._beat_s, time.clock_gettime(clock)
            is_late = now_s - beat_s >= INTERVAL_S
            root, stack = self._read_stack(ident) if is_late else (None, ())
            if candidate is not None and candidate.is_same(root, beats):
                candidate.end_s, candidate.stack = now_s, stack
            else:
                self._finish(candidate)
                # What ran before the last look was something else.
                start_s = beat_s if candidate is None else max(beat_s, seen_s)
                candidate = root and _Candidate(
                    root=root, beats=beats, start_s=start_s, end_s=now_s, stack=stack
                )
            seen_s = now_s
            root = None  # frames keep their variables
        self._finish(candidate)

    def _read_stack(self, ident: int) -> tuple[FrameType | None, Sequence[str]]:
        """Return the outermost frame of what the loop runs, None if it waits, and its stack."""
        frame, base = sys._current_frames().get(ident), self._base
        stack: list[str] = []
        root = None
        while frame is not None and frame is not base and frame.f_code is not _RUN_HANDLE:
            root = frame
            stack.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_qualname}")
            frame = frame.f_back
        # Without its base, this is not the stack of a callback.
        return (None, ()) if base is None else (root, stack)

    def _finish(self, candidate: _Candidate | None) -> None:
        if candidate is None or candidate.end_s - candidate.start_s < MIN_HOLD_S:
            return
        hold = LoopHold(
            handler=self._name(candidate.stack),
            seconds=candidate.end_s - candidate.start_s,
            stack=candidate.stack[:SHOWN_FRAMES],
        )
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._count, hold)

    def _name(self, stack: Sequence[str]) -> str:
        own = [each for each in reversed(stack) if each.startswith(PACKAGE)]
        handlers = (each for each in own if not each.startswith(self._plumbing))
        last = own[-1] if own else stack[-1]
        return next(handlers, last).removeprefix(PACKAGE).replace(".<locals>", "")

    def _count(self, hold: LoopHold) -> None:
        self.counts[hold.handler] = self.counts.get(hold.handler, 0) + 1
        self.seconds[hold.handler] = self.seconds.get(hold.handler, 0.0) + hold.seconds
        self._on_hold(hold)
