"""Bounds the events that delivery rounds hold in memory, per project and in total.

A project may have many destinations and large events. Without a bound, all of its lanes together
would load as many events as there are.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hedgerow.projects.model import ProjectId

MAX_PROJECT_BYTES = 32 * 1024 * 1024
MAX_BYTES = 128 * 1024 * 1024


class RoundMemory:
    """Bytes of stored events that the rounds of this process have loaded."""

    def __init__(
        self, max_bytes: int = MAX_BYTES, max_project_bytes: int = MAX_PROJECT_BYTES
    ) -> None:
        self._max_bytes = max_bytes
        self._max_project_bytes = max_project_bytes
        self._by_project: dict[ProjectId, int] = {}

    @property
    def used_bytes(self) -> int:
        return sum(self._by_project.values())

    @contextmanager
    def open_round(self, project_id: ProjectId) -> Iterator["RoundReservation"]:
        """Yield a reservation that lasts as long as the round."""
        reservation = RoundReservation(self, project_id)
        try:
            yield reservation
        finally:
            self._release(project_id, reservation.reserved_bytes)

    def take(self, project_id: ProjectId, size: int) -> bool:
        """Reserve bytes. Return False if there is no room. A project that has none gets one event,
        whatever its size, so that it can always go on."""
        used = self._by_project.get(project_id, 0)
        has_room = (
            used + size <= self._max_project_bytes and self.used_bytes + size <= self._max_bytes
        )
        if used and not has_room:
            return False
        self._by_project[project_id] = used + size
        return True

    def _release(self, project_id: ProjectId, size: int) -> None:
        left = self._by_project.get(project_id, 0) - size
        if left > 0:
            self._by_project[project_id] = left
        else:
            self._by_project.pop(project_id, None)


class RoundReservation:
    """The bytes of one round."""

    def __init__(self, memory: RoundMemory, project_id: ProjectId) -> None:
        self._memory = memory
        self._project_id = project_id
        self.reserved_bytes = 0

    def take(self, size: int) -> bool:
        """Reserve bytes for one more event. Return False if it must wait for another round."""
        is_taken = self._memory.take(self._project_id, size)
        self.reserved_bytes += size * is_taken
        return is_taken
