"""A cache bounded by the size of its entries."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """Keeps the most recently used entries whose sizes add up to at most `max_bytes`.

    An entry counts `size_of(value)` plus `overhead_bytes`, which covers its key. An entry larger
    than `max_entry_bytes` is not kept.
    """

    def __init__(
        self,
        max_bytes: int,
        *,
        size_of: Callable[[V], int],
        overhead_bytes: int,
        max_entry_bytes: int | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_entry_bytes = max_bytes if max_entry_bytes is None else max_entry_bytes
        self._size_of = size_of
        self._overhead_bytes = overhead_bytes
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V) -> None:
        """Keep a value, in place of the one that the key had."""
        if key in self._entries:
            self._bytes -= self._entries.pop(key)[1]
        size = self._size_of(value) + self._overhead_bytes
        if size > self._max_entry_bytes:
            return
        self._entries[key] = value, size
        self._bytes += size
        while self._bytes > self._max_bytes:
            self._bytes -= self._entries.popitem(last=False)[1][1]
