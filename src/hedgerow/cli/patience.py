"""Waiting at the terminal for another process that is busy with the database."""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from hedgerow.errors import Unavailable

T = TypeVar("T")

PATIENCE_S = 60.0


def patiently(step: Callable[[], T]) -> T:
    """Run `step`, and again while the database is taken, up to a minute. Says that it waits."""
    deadline = time.monotonic() + PATIENCE_S
    told = False
    while True:
        try:
            return step()
        except Unavailable as error:
            if time.monotonic() > deadline or "lock" not in error.detail:
                raise
            if not told:
                print("Another process is at work on the database: waiting.", file=sys.stderr)
                told = True
