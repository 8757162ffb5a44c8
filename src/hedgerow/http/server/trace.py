"""The trace of a request: its id, the duration of each phase, its key and project."""

import itertools
import os
import re
import time
from functools import cache
from typing import Any

from starlette.types import Scope

SCOPE_KEY = "hedgerow.trace"

# The id is logged and returned, so a key sent by mistake is not accepted as an id.
_KEY = re.compile(rb"ph[xsar]_|hg[sli]_")
_SAFE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
# Unique without system randomness per request: a random prefix per process and a counter.
_numbers = itertools.count(1)


def contains_secret_key(text: str) -> bool:
    """Whether a text contains a personal key or a secret key of a project."""
    return _KEY.search(text.encode("utf-8", "replace")) is not None


class Trace:
    """`id` is the X-Request-Id of the client if it is safe to log, else a generated one."""

    __slots__ = (
        "_marks",
        "context",
        "id",
        "key_id",
        "origin",
        "project_id",
        "started",
        "traceparent",
    )

    def __init__(self, scope: Scope) -> None:
        self.started = time.perf_counter()
        headers = dict(scope["headers"])
        self.origin: bytes = headers.get(b"origin", b"")
        self.traceparent: bytes = headers.get(b"traceparent", b"")
        # The trace context, once `spans.py` has read it.
        self.context: Any = None
        sent_id = headers.get(b"x-request-id")
        if sent_id and _SAFE_ID.fullmatch(sent_id) and not _KEY.search(sent_id):
            self.id: bytes = sent_id
        else:
            self.id = b"%s-%x" % (_random_prefix(), next(_numbers))
        self._marks: list[tuple[str, float]] = []
        self.key_id: str | None = None
        self.project_id: int | None = None

    def mark(self, phase: str) -> None:
        """Mark the end of a phase. The access log shows its name."""
        self._marks.append((phase, time.perf_counter()))

    @property
    def phases(self) -> dict[str, float]:
        """The duration of each phase in milliseconds."""
        took: dict[str, float] = {}
        last = self.started
        for phase, now in self._marks:
            took[phase] = took.get(phase, 0.0) + (now - last) * 1000
            last = now
        return took


def get_trace(scope: Scope) -> Trace:
    trace = scope[SCOPE_KEY]
    assert isinstance(trace, Trace)
    return trace


@cache
def _random_prefix() -> bytes:
    """Drawn on first use, so that each forked process gets its own."""
    return os.urandom(6).hex().encode()
