"""Answers that are the same until something changes: kept as bytes, found by what they depend on.

The key of an answer must hold everything that it depends on, a generation number first of all.
"""

from collections import OrderedDict
from collections.abc import Hashable

MAX_BYTES = 32 * 1024 * 1024
KEY_BYTES = 2048


class PageCache:
    """The most recently used answers, bounded by their size in all."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._pages: OrderedDict[Hashable, bytes] = OrderedDict()

    def get(self, key: Hashable) -> bytes | None:
        page = self._pages.get(key)
        if page is not None:
            self._pages.move_to_end(key)
        return page

    def put(self, key: Hashable, page: bytes) -> None:
        """Keep a page. Keys count as a fixed size: whoever makes them keeps them short."""
        if len(page) + KEY_BYTES > self._max_bytes:
            return
        replaced = self._pages.pop(key, None)
        if replaced is not None:
            self._bytes -= len(replaced) + KEY_BYTES
        self._pages[key] = page
        self._bytes += len(page) + KEY_BYTES
        while self._bytes > self._max_bytes:
            self._bytes -= len(self._pages.popitem(last=False)[1]) + KEY_BYTES
