"""Blocking work off the event loop, in a bounded number of threads that never delay an exit."""

import asyncio
import errno
import os
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from hedgerow.lib.workers.sender_places import SenderPlaces

T = TypeVar("T")

DEFAULT_MAX_THREADS = 64
IDLE_TIMEOUT_S = 30.0


class ThreadLimiter:
    """Runs blocking calls in at most `max_threads` daemon threads. Further calls wait in a queue.

    Unlike the threads of `asyncio.to_thread`, these do not keep a stopping process alive. Threads
    start on demand and end after they were idle for a while. With `has_turns`, senders take turns,
    and each gets as many threads as it leaves for others.
    """

    def __init__(self, max_threads: int, *, has_turns: bool = False) -> None:
        self._max_threads = max_threads
        self._has_turns = has_turns
        self._reset()
        # A forked child inherits the counters but not the threads.
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread_count = 0
        # Idle threads without a queued call, and queued calls without a free thread.
        self._idle_count = 0
        self._backlog_count = 0
        # Of one event loop.
        self._places: tuple[asyncio.AbstractEventLoop, SenderPlaces] | None = None

    async def run(self, work: Callable[[], T]) -> T:
        if not self._has_turns:
            return await self._run(work, _do_nothing)
        places = self._get_places()
        sender = await places.acquire_for_sender()
        # A thread is not free before its call ends, which may be after the caller has given up.
        return await self._run(work, partial(places.release, sender))

    def _get_places(self) -> SenderPlaces:
        loop = asyncio.get_running_loop()
        if self._places is None or self._places[0] is not loop:
            self._places = loop, SenderPlaces(self._max_threads)
        return self._places[1]

    async def _run(self, work: Callable[[], T], on_end: Callable[[], None]) -> T:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def finish(result: T | None, error: BaseException | None) -> None:
            on_end()
            if done.done():
                return
            if error is None:
                done.set_result(result)  # type: ignore[arg-type]
            else:
                done.set_exception(error)

        def call() -> None:
            result: T | None = None
            error: BaseException | None = None
            try:
                result = work()
            except StopIteration as raised:  # a future refuses this exception
                error = RuntimeError(f"{type(raised).__name__} was raised")
                error.__cause__ = raised
            except BaseException as raised:  # noqa: BLE001 - raised again in the awaiting task
                error = raised
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish, result, error)

        try:
            self._submit(call)
        except OSError:
            on_end()
            raise
        return await done

    def _submit(self, call: Callable[[], None]) -> None:
        with self._lock:
            if self._idle_count:
                self._idle_count -= 1
            elif self._thread_count < self._max_threads and self._start_thread():
                self._thread_count += 1
            else:
                self._backlog_count += 1
        self._queue.put(call)

    def _start_thread(self) -> bool:
        try:
            threading.Thread(target=self._serve, daemon=True).start()
        except RuntimeError as error:
            if not self._thread_count:
                raise OSError(errno.EAGAIN, "No thread can be started") from error
            return False
        return True

    def _serve(self) -> None:
        while True:
            try:
                call = self._queue.get(timeout=IDLE_TIMEOUT_S)
            except queue.Empty:
                with self._lock:
                    if self._idle_count:  # otherwise a call is about to be queued for this thread
                        self._idle_count -= 1
                        self._thread_count -= 1
                        return
                continue
            call()
            del call  # it holds the caller's arguments
            with self._lock:
                if self._backlog_count:
                    self._backlog_count -= 1
                else:
                    self._idle_count += 1


_default = ThreadLimiter(DEFAULT_MAX_THREADS, has_turns=True)


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run a blocking call in the process's default threads."""
    return await _default.run(work)


def _do_nothing() -> None: ...


def build_pauses(work_s: float = 0.002, rest_s: float = 0.002) -> Callable[[], None]:
    """Return a function for long work in a thread to call again and again: it rests after every
    `work_s`. A thread that never waits delays the event loop, with which it takes turns."""
    began = time.monotonic()

    def pause() -> None:
        nonlocal began
        if time.monotonic() - began >= work_s:
            time.sleep(rest_s)
            began = time.monotonic()

    return pause


def consume_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task that no caller waits for, so that asyncio does not log it.
    For `add_done_callback`."""
    if not task.cancelled():
        task.exception()
