"""Blocks of projects whose queries could only be ended with the event engine, which interrupts the
queries of all projects. Each block of a project is twice as long as the one before.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from hedgerow.errors import Throttled
from hedgerow.projects.model import ProjectId

FIRST_BLOCK_S = 30.0
MAX_BLOCK_S = 3600.0
# A project that ends no engine for so long has blocks half as long again.
QUIET_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Block:
    """The block before which the next one would be `length_s` long, counted at `ends_s`."""

    ends_s: float
    length_s: float


class ProjectBlocks:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._blocks: dict[ProjectId, _Block] = {}

    def add(self, project_id: ProjectId) -> None:
        """Block a project. Queries that run at the same time and end together count once."""
        now_s = self._clock()
        before = self._blocks.get(project_id)
        if before is not None and before.ends_s > now_s:
            return
        length_s = FIRST_BLOCK_S
        if before is not None:
            halvings = int((now_s - before.ends_s) / QUIET_S)
            length_s = max(FIRST_BLOCK_S, min(MAX_BLOCK_S, 2 * before.length_s * 0.5**halvings))
        self._blocks[project_id] = _Block(now_s + length_s, length_s)

    def check(self, project_id: ProjectId) -> None:
        """Raise Throttled if the project is blocked."""
        block = self._blocks.get(project_id)
        if block is None:
            return
        left_s = block.ends_s - self._clock()
        if left_s > 0:
            raise Throttled(math.ceil(left_s), _describe(block.length_s))
        if -left_s > QUIET_S * math.log2(2 * MAX_BLOCK_S / FIRST_BLOCK_S):
            del self._blocks[project_id]


def _describe(length_s: float) -> str:
    return (
        "A query of this project could only be ended with the event engine, which interrupts the "
        f"queries of all projects, so its queries are refused for {length_s:.0f} seconds. Each "
        "time is twice as long, up to an hour. Query a shorter time range or fewer columns."
    )
