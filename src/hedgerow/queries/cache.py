"""Answers that are kept for a while, as many as fit."""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from hedgerow.projects.model import ProjectId

MAX_BYTES = 32 << 20
# A larger answer would push out all others.
MAX_ENTRY_BYTES = MAX_BYTES // 8
# What an answer takes beside its rows.
OVERHEAD_BYTES = 4096

Key = tuple[ProjectId, str]
A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Generic[A]):
    """`state` is what had been changed by when it was asked for; `size` how many bytes it is."""

    answer: A
    size: int
    state: int
    at: datetime


class Cache(Generic[A]):
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Key, Kept[A]] = OrderedDict()
        self._size = 0

    def get(self, key: Key) -> Kept[A] | None:
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
        return kept

    def put(self, key: Key, kept: Kept[A]) -> None:
        self._drop(key)
        if _room(kept) > MAX_ENTRY_BYTES:
            return
        self._kept[key] = kept
        self._size += _room(kept)
        while self._size > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._size -= _room(kept)


def _room(kept: Kept[Any]) -> int:
    return OVERHEAD_BYTES + kept.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """Whether an answer would be the same now: nothing has been changed since, as far as this
    process can see, and it is not old, for a query may ask about now."""

    max_age: timedelta

    def holds(self, kept: Kept[Any], state: int, now: datetime) -> bool:
        return kept.state == state and now - kept.at < self.max_age
