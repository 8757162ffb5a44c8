"""Counts calls instead of measuring time: the result is the same on any machine, however busy."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_calls(work: Callable[[], object]) -> int:
    """Return how many functions `work` calls, including those written in C."""
    count = 0

    def count_event(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count_event)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
