"""What one request leaves behind: an id, the time each phase took, who asked for which project."""

import itertools
import os
import re
import time
from functools import cache

from starlette.types import Scope

SCOPE_KEY = "hedgerow.trace"

# An id is logged and sent back, so a key that was put there by mistake is no id.
_KEY = re.compile(rb"ph[xsar]_")
_GOOD_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
# Unique without asking the system for randomness each time: a random process part and a counter.
_numbers = itertools.count(1)


class Trace:
    """`id` is the caller's X-Request-Id when that is plain, else one of ours."""

    __slots__ = ("_marks", "id", "key_id", "origin", "project_id", "started")

    def __init__(self, scope: Scope) -> None:
        self.started = time.perf_counter()
        self.id = self.origin = b""
        # One walk over the headers for all that the door wants of them.
        for name, value in scope["headers"]:
            if name == b"x-request-id":
                self.id = value if _GOOD_ID.fullmatch(value) and not _KEY.search(value) else b""
            elif name == b"origin":
                self.origin = value
        if not self.id:
            self.id = b"%s-%x" % (_process_part(), next(_numbers))
        self._marks: list[tuple[str, float]] = []
        self.key_id: str | None = None
        self.project_id: int | None = None

    def mark(self, phase: str) -> None:
        """The phase that just ended; names are the same in logs and docs."""
        self._marks.append((phase, time.perf_counter()))

    @property
    def phases(self) -> dict[str, float]:
        """How long each took, in milliseconds."""
        took: dict[str, float] = {}
        last = self.started
        for phase, now in self._marks:
            took[phase] = took.get(phase, 0.0) + (now - last) * 1000
            last = now
        return took


def trace_of(scope: Scope) -> Trace:
    trace = scope[SCOPE_KEY]
    assert isinstance(trace, Trace)
    return trace


@cache
def _process_part() -> bytes:
    """Drawn when it is first needed: a process that is forked before then has one of its own."""
    return os.urandom(6).hex().encode()
