"""Memory of delivery rounds, per project and in total."""

from hedgerow.pipelines.deliveries.round_memory import RoundMemory
from hedgerow.projects.model import ProjectId

ONE, TWO, THREE = ProjectId(1), ProjectId(2), ProjectId(3)


def test_a_project_gets_its_share_and_all_projects_the_total() -> None:
    memory = RoundMemory(max_bytes=100, max_project_bytes=60)
    with memory.open_round(ONE) as first, memory.open_round(ONE) as second:
        assert first.take(50)
        assert not second.take(20), "over the share of the project"
        assert second.take(10)
        with memory.open_round(TWO) as other:
            assert other.take(40)
            assert not other.take(1), "over the total"
        assert memory.used_bytes == 60
    assert memory.used_bytes == 0


def test_one_event_of_a_project_always_fits() -> None:
    memory = RoundMemory(max_bytes=100, max_project_bytes=60)
    with memory.open_round(ONE) as full, memory.open_round(TWO) as other:
        assert full.take(100)
        assert other.take(100)
        assert not other.take(1)
        with memory.open_round(THREE) as third:
            assert third.take(5)
    assert memory.used_bytes == 0
