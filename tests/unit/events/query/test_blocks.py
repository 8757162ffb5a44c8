"""Blocks of projects whose queries end the engine."""

import pytest

from hedgerow.errors import Throttled
from hedgerow.events.query.blocks import FIRST_BLOCK_S, MAX_BLOCK_S, QUIET_S, ProjectBlocks
from hedgerow.projects.model import ProjectId

ONE, OTHER = ProjectId(1), ProjectId(2)


class _Project:
    """A project whose queries end the engine as soon as they may run."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.blocks = ProjectBlocks(lambda: self.now_s)

    def end_engine(self) -> float:
        """Return how long the project is blocked after it has ended the engine."""
        self.blocks.add(ONE)
        return self.get_wait()

    def get_wait(self) -> float:
        with pytest.raises(Throttled) as refused:
            self.blocks.check(ONE)
        return float(refused.value.headers["Retry-After"])

    def is_blocked(self) -> bool:
        try:
            self.blocks.check(ONE)
        except Throttled:
            return True
        return False


@pytest.fixture
def project() -> _Project:
    return _Project()


def test_each_block_is_twice_as_long_up_to_a_maximum(project: _Project) -> None:
    waits = []
    for _ in range(9):
        waits.append(project.end_engine())
        project.now_s += waits[-1]
    assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert MAX_BLOCK_S == 3600


def test_a_block_ends(project: _Project) -> None:
    project.end_engine()
    project.now_s += FIRST_BLOCK_S - 1
    assert project.get_wait() == 1
    project.now_s += 1
    assert not project.is_blocked()


def test_other_projects_are_not_blocked(project: _Project) -> None:
    project.end_engine()
    project.blocks.check(OTHER)


def test_queries_that_end_together_count_once(project: _Project) -> None:
    project.end_engine()
    assert project.end_engine() == FIRST_BLOCK_S
    project.now_s += FIRST_BLOCK_S
    assert project.end_engine() == 2 * FIRST_BLOCK_S


def test_blocks_are_shorter_after_a_quiet_time(project: _Project) -> None:
    for _ in range(4):
        project.now_s += project.end_engine()
    project.now_s += 2 * QUIET_S
    assert project.end_engine() == 480 / 4
    project.now_s += 120 + 100 * QUIET_S
    assert not project.is_blocked()
    assert project.end_engine() == FIRST_BLOCK_S


def test_the_refusal_says_why(project: _Project) -> None:
    project.end_engine()
    with pytest.raises(Throttled, match=r"ended with the event engine.* in 30 seconds\.$"):
        project.blocks.check(ONE)
