from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hedgerow.events.delete import Chosen
from hedgerow.events.retention import Retention
from hedgerow.projects.activity import SYSTEM, Actor
from hedgerow.projects.model import Project, ProjectId
from tests.unit.projects.world import a_project

NOW = datetime(2026, 3, 29, 17, 45, tzinfo=UTC)


class Deleted:
    """Notes what is to be deleted."""

    def __init__(self) -> None:
        self.asked: list[tuple[ProjectId, Chosen, Actor]] = []

    async def delete(
        self, project_id: ProjectId, chosen: Chosen, actor: Actor, now: datetime
    ) -> int:
        self.asked.append((project_id, chosen, actor))
        return 0


async def test_each_project_loses_what_is_older_than_it_keeps_by_whole_days() -> None:
    async def projects() -> Sequence[Project]:
        return [
            a_project(),
            replace(a_project(), id=ProjectId(2), retention_days=1),
            replace(a_project(), id=ProjectId(3), retention_days=30),
        ]

    deleted: Any = Deleted()
    await Retention(deleted, projects, lambda: NOW).enforce()
    assert deleted.asked == [
        (ProjectId(2), Chosen(before=datetime(2026, 3, 28, tzinfo=UTC)), SYSTEM),
        (ProjectId(3), Chosen(before=datetime(2026, 2, 27, tzinfo=UTC)), SYSTEM),
    ]
