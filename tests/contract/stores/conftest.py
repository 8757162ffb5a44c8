"""The stores on a prepared database, on either engine, and what a test may ask beside them."""

import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, Select, event, func, insert, select, text

from hedgerow.flags.flags import Flags
from hedgerow.persons.curate import deletion
from hedgerow.persons.model import Person
from hedgerow.pipelines import store as room
from hedgerow.pipelines.arrange import dense
from hedgerow.pipelines.model import ComponentId, Family, Record, RecordDraft, RecordId
from hedgerow.pipelines.store import Edited, RecordQuery
from hedgerow.projects.activity import Actor, Entry, Recorded
from hedgerow.projects.bootstrap import FirstKeys
from hedgerow.projects.keys import KeyWish, draft_key
from hedgerow.projects.model import PersonalKey, Project, ProjectId
from hedgerow.projects.store import ActivityQuery, NewProject
from hedgerow.storage.activity import ActivityRecords
from hedgerow.storage.cohorts import CohortRecords
from hedgerow.storage.components import ComponentRecords
from hedgerow.storage.connect import Place, open_database, plain_engine
from hedgerow.storage.database import Database
from hedgerow.storage.directory import DirectoryRecords
from hedgerow.storage.flags import FlagRecords
from hedgerow.storage.jobs import JobRecords
from hedgerow.storage.keys import KeyRecords
from hedgerow.storage.migrate import prepare
from hedgerow.storage.persons import PersonRecords
from hedgerow.storage.pipelines import PipelineRecords
from hedgerow.storage.projects import ProjectRecords
from hedgerow.storage.subjects import SubjectRecords
from hedgerow.storage.tables import activity, pipeline_records
from tests.postgres import OwnPostgres

NOW = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
FIRST = FirstKeys(
    project_key="phc_the-first-project-key", personal_key="phx_the-first-personal-key"
)
SOMEBODY = Actor(kind="key", id="k1", name="a key's label", email="owner@example.com")
DEFAULT_PROJECT = ProjectId(1)
PLAIN = Record(
    id=RecordId(1),
    project_id=DEFAULT_PROJECT,
    family=Family.DESTINATION,
    component_id=ComponentId(5),
    component_version="1.0.0",
    enabled=True,
    order=0,
    name="Wébhook 🪝",
    description="",
    deleted=False,
    config={"url": {"$sealed": "ü"}, "batch_size": 5},
    web_token="token",
    created_at=NOW,
    updated_at=NOW + timedelta(microseconds=1),
)
ALL = RecordQuery(project_id=DEFAULT_PROJECT, family=Family.DESTINATION)
DRAFT = RecordDraft(
    project_id=DEFAULT_PROJECT,
    family=Family.DESTINATION,
    component_id=ComponentId(5),
    component_version="1.0.0",
    enabled=False,
    order=None,
    name="",
    description="",
    deleted=False,
    web_token="token",
)


def tell(before: Record | None, after: Record) -> Entry:
    """Says how a record moved, in the entry's name."""
    return Entry(
        scope="PluginConfig",
        item_id=str(after.id),
        item_name=f"{before.order if before else None} -> {after.order}",
        activity="created" if before is None else "order_changed",
        actor=SOMEBODY,
        project_id=after.project_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    place: Place
    database: Database
    projects: ProjectRecords
    keys: KeyRecords
    directory: DirectoryRecords
    activity: ActivityRecords
    pipelines: PipelineRecords
    jobs: JobRecords
    components: ComponentRecords
    flags: FlagRecords
    persons: PersonRecords
    subjects: SubjectRecords
    cohorts: CohortRecords

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

    async def forget(self, uuid: str) -> bool:
        """Whether there was such a person."""
        return await self.persons.delete_person(
            DEFAULT_PROJECT, uuid, lambda person: deletion(person, SOMEBODY, None), LATER
        )

    async def new_record(self, idempotency_key: str | None = None, **fields: Any) -> Record:
        draft = replace(DRAFT, **fields)
        return await self.pipelines.add(draft, tell, idempotency_key, NOW)

    async def entries(self, **wanted: Any) -> list[Recorded]:
        found, _ = await self.activity.activity(ActivityQuery(limit=1000, **wanted))
        return found

    async def entry_count(self) -> int:
        return int(await self.scalar(select(func.count()).select_from(activity)))

    async def scalar(self, statement: Select[Any]) -> Any:
        return await self.database.read(lambda connection: connection.execute(statement).scalar())


def stores_on(place: Place) -> Stores:
    """All stores over a database of their own, as in one process."""
    database = open_database(place)
    return Stores(
        place=place,
        database=database,
        projects=ProjectRecords(database),
        keys=KeyRecords(database),
        directory=DirectoryRecords(database),
        activity=ActivityRecords(database),
        pipelines=PipelineRecords(database),
        jobs=JobRecords(database),
        components=ComponentRecords(database),
        flags=FlagRecords(database),
        persons=PersonRecords(database),
        subjects=SubjectRecords(database),
        cohorts=CohortRecords(database),
    )


@pytest.fixture(scope="session")
def filled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "hedgerow.db"
    prepare(Place(url="", path=path, timeout_s=20), FIRST, NOW)
    return path


@pytest.fixture(scope="session")
def filled_database(postgres: OwnPostgres) -> str:
    url = postgres.new_database()
    prepare(Place(url=url, path=Path(), timeout_s=20), FIRST, NOW)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place with the first installation in it, copied: making one takes long."""
    place = Place(url="", path=tmp_path / "hedgerow.db", timeout_s=20, pool_size=5)
    if request.param == "sqlite":
        shutil.copyfile(request.getfixturevalue("filled_file"), place.path)
        return place
    postgres: OwnPostgres = request.getfixturevalue("postgres")
    url = postgres.new_database(like=request.getfixturevalue("filled_database"))
    return replace(place, url=url)


@pytest.fixture
async def stores(filled: Place) -> AsyncIterator[Stores]:
    opened = stores_on(filled)
    yield opened
    await opened.database.close()


@pytest.fixture
async def other_stores(stores: Stores) -> AsyncIterator[Stores]:
    """The same stores, seen from another process."""
    opened = stores_on(stores.place)
    yield opened
    await opened.database.close()


class NoBoard:
    """For rooms whose writes alone are looked at."""

    async def refreshed(self, project: Project) -> None: ...


class OpenSealer:
    def seal(self, value: Any) -> str:
        return str(value)

    def unseal(self, sealed: str) -> Any:
        return sealed


def flag_rooms(*processes: Stores) -> list[Flags]:
    """What each process does with flags."""
    board: Any = NoBoard()
    return [Flags(each.flags, board, OpenSealer()) for each in processes]


def nothing_told(_before: Person | None, _after: Person) -> None:
    """For those who do not look at the audit trail."""


def run_sql(place: Place, statement: str, **values: Any) -> list[Any]:
    """One statement over a connection of its own, committed: what another process would do."""
    with plain_engine(place).begin() as connection:
        result = connection.execute(text(statement), values)
        return list(result) if result.returns_rows else []


async def add(stores: Stores, *records: Record) -> None:
    rows = [
        {name: getattr(record, name) for name in pipeline_records.columns.keys()}  # noqa: SIM118
        | {"family": record.family.value}
        for record in records
    ]
    await stores.database.write(lambda c: c.execute(insert(pipeline_records), rows).close())


async def listed(stores: Stores, **asked: Any) -> tuple[list[int], int]:
    records, count = await stores.pipelines.records(replace(ALL, **asked))
    return [record.id for record in records], count


def numbered(id: int, order: int = 0, **fields: Any) -> Record:
    return replace(PLAIN, id=RecordId(id), order=order, **fields)


async def edited(stores: Stores, record: Record, **fields: Any) -> Record:
    """`fields` laid over the record as it is then."""

    def edit(before: Record) -> Edited:
        given = {name: new(before) if callable(new) else new for name, new in fields.items()}
        return Edited(record=replace(before, **given), entry=None)

    return await stores.pipelines.edit(place_of(record), edit, tell, LATER)


async def rearranged(stores: Stores, wanted: dict[RecordId, int]) -> list[Record]:
    return await stores.pipelines.rearrange(
        DEFAULT_PROJECT, Family.DESTINATION, lambda now: dense(now, wanted), tell, LATER
    )


def place_of(record: Record) -> room.Place:
    return room.Place(project_id=record.project_id, family=record.family, id=record.id)


async def orders(stores: Stores, **asked: Any) -> dict[int, int]:
    records, _ = await stores.pipelines.records(replace(ALL, limit=1000, **asked))
    return {record.id: record.order for record in records}


async def told(stores: Stores) -> list[tuple[str, str, str]]:
    """Everything the audit trail says of records, oldest first."""
    entries = [recorded.entry for recorded in await stores.entries(scope="PluginConfig")]
    return [(entry.activity, entry.item_id, entry.item_name) for entry in reversed(entries)]


@contextmanager
def statements() -> Iterator[list[str]]:
    """The SQL that anybody runs meanwhile."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@contextmanager
def before_statement(beginning: str, run: Callable[[], None]) -> Iterator[None]:
    """Lets somebody else do something at the moment before the first statement of this kind."""
    waiting = [run]

    def step_in(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if waiting and statement.startswith(beginning):
            waiting.pop()()

    event.listen(Engine, "before_cursor_execute", step_in)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", step_in)
    assert not waiting, f"nobody ran {beginning}"
