"""Answers that are kept for a while, as many as fit."""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta

from hedgerow.projects.model import ProjectId
from hedgerow.queries.model import Answered

MAX_BYTES = 32 << 20
# A larger answer would push out all others.
MAX_ENTRY_BYTES = MAX_BYTES // 8
# What an answer takes beside its rows.
OVERHEAD_BYTES = 4096

Key = tuple[ProjectId, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """`state` is what had been changed by when it was asked for."""

    answer: Answered
    state: int
    at: datetime

    @property
    def size(self) -> int:
        rows = len(bytes(self.answer.results)) if self.answer.results else 0
        return OVERHEAD_BYTES + rows


class Cache:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Key, Kept] = OrderedDict()
        self._size = 0

    def get(self, key: Key) -> Kept | None:
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
        return kept

    def put(self, key: Key, kept: Kept) -> None:
        self._drop(key)
        if kept.size > MAX_ENTRY_BYTES:
            return
        self._kept[key] = kept
        self._size += kept.size
        while self._size > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= kept.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Whether an answer would be the same now: nothing has been changed since, as far as this
    process can see, and it is not old, for a query may ask about now."""

    max_age: timedelta

    def holds(self, kept: Kept, state: int, now: datetime) -> bool:
        return kept.state == state and now - kept.at < self.max_age
