"""The stores on a prepared database, on either engine, and what a test may ask beside them."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Select, func, select, text

from hedgerow.projects.activity import Actor, Recorded
from hedgerow.projects.bootstrap import FirstKeys
from hedgerow.projects.keys import KeyWish, draft_key
from hedgerow.projects.model import PersonalKey, Project, ProjectId
from hedgerow.projects.store import ActivityQuery, NewProject
from hedgerow.storage.activity import ActivityRecords
from hedgerow.storage.connect import Place, open_database, plain_engine
from hedgerow.storage.database import Database
from hedgerow.storage.directory import DirectoryRecords
from hedgerow.storage.keys import KeyRecords
from hedgerow.storage.migrate import prepare
from hedgerow.storage.pipelines import PipelineRecords
from hedgerow.storage.projects import ProjectRecords
from hedgerow.storage.tables import activity

NOW = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
FIRST = FirstKeys(
    project_key="phc_the-first-project-key", personal_key="phx_the-first-personal-key"
)
SOMEBODY = Actor(kind="key", id="k1", name="a key's label", email="owner@example.com")
DEFAULT_PROJECT = ProjectId(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    place: Place
    database: Database
    projects: ProjectRecords
    keys: KeyRecords
    directory: DirectoryRecords
    activity: ActivityRecords
    pipelines: PipelineRecords

    async def new_project(self, name: str = "A project", token: str = "") -> Project:
        token = token or f"phc_of-{name}"
        new = NewProject(name=name, timezone="UTC", api_token=token)
        return await self.projects.add_project(new, SOMEBODY, NOW)

    async def new_key(
        self, label: str = "A key", *, scopes: Sequence[str] = ("*",), value: str = ""
    ) -> PersonalKey:
        wish = KeyWish(label=label, scopes=tuple(scopes))
        drafted = draft_key(wish, 1, value or f"phx_of-{label}", NOW)
        return await self.keys.add_key(drafted, SOMEBODY, NOW)

    async def entries(self, **wanted: Any) -> list[Recorded]:
        found, _ = await self.activity.activity(ActivityQuery(limit=1000, **wanted))
        return found

    async def entry_count(self) -> int:
        return int(await self.scalar(select(func.count()).select_from(activity)))

    async def scalar(self, statement: Select[Any]) -> Any:
        return await self.database.read(lambda connection: connection.execute(statement).scalar())


@pytest.fixture
async def stores(place: Place) -> AsyncIterator[Stores]:
    prepare(place, FIRST, NOW)
    database = open_database(place)
    yield Stores(
        place=place,
        database=database,
        projects=ProjectRecords(database),
        keys=KeyRecords(database),
        directory=DirectoryRecords(database),
        activity=ActivityRecords(database),
        pipelines=PipelineRecords(database),
    )
    await database.close()


def run_sql(place: Place, statement: str, **values: Any) -> list[Any]:
    """One statement over a connection of its own, committed: what another process would do."""
    with plain_engine(place).begin() as connection:
        result = connection.execute(text(statement), values)
        return list(result) if result.returns_rows else []
