"""What was seen of late, up to a number; the oldest is forgotten first."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Recent(Generic[T]):
    def __init__(self, size: int) -> None:
        self._size = size
        self._seen: dict[T, None] = {}

    def __contains__(self, item: T) -> bool:
        return item in self._seen

    def add(self, items: Iterable[T]) -> None:
        self._seen.update(dict.fromkeys(items))
        for oldest in list(self._seen)[: max(0, len(self._seen) - self._size)]:
            del self._seen[oldest]

    def clear(self) -> None:
        self._seen.clear()
