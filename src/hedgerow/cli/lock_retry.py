"""Retry a database step while another process holds the lock."""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from hedgerow.errors import Unavailable

T = TypeVar("T")

LOCK_TIMEOUT_S = 60.0


def retry_while_locked(step: Callable[[], T]) -> T:
    """Run `step` until it gets the database lock, for at most a minute."""
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    has_warned = False
    while True:
        try:
            return step()
        except Unavailable as error:
            if time.monotonic() > deadline or "lock" not in error.detail:
                raise
            if not has_warned:
                print("Waiting for another process that holds the database.", file=sys.stderr)
                has_warned = True
