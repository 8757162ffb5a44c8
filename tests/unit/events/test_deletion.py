from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hedgerow.events.deletion import EventRetention, EventSelection
from hedgerow.projects.activity import SYSTEM, Actor
from hedgerow.projects.model import Project, ProjectId
from tests.unit.projects.factories import make_project

NOW = datetime(2026, 3, 29, 17, 45, tzinfo=UTC)


class RecordingDeletion:
    """Records the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[ProjectId, EventSelection, Actor]] = []

    async def count(self, project_id: ProjectId, selection: EventSelection) -> int:
        return 1

    async def delete(
        self, project_id: ProjectId, selection: EventSelection, actor: Actor, now: datetime
    ) -> int:
        self.calls.append((project_id, selection, actor))
        return 0


async def test_retention_deletes_by_whole_days_for_each_project() -> None:
    async def projects() -> Sequence[Project]:
        return [
            make_project(),
            replace(make_project(), id=ProjectId(2), retention_days=1),
            replace(make_project(), id=ProjectId(3), retention_days=30),
        ]

    deleted: Any = RecordingDeletion()
    await EventRetention(deleted, projects, lambda: NOW).enforce()
    assert deleted.calls == [
        (ProjectId(2), EventSelection(before=datetime(2026, 3, 28, tzinfo=UTC)), SYSTEM),
        (ProjectId(3), EventSelection(before=datetime(2026, 2, 27, tzinfo=UTC)), SYSTEM),
    ]
