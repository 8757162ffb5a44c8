"""Stores on a prepared database of either engine, and helpers."""

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
from hedgerow.persons.admin_actions import build_deletion_entry
from hedgerow.persons.model import Person
from hedgerow.pipelines.model import ComponentId, Record, RecordDraft, RecordId
from hedgerow.pipelines.records.ordering import renumber
from hedgerow.pipelines.store import RecordEdit, RecordKey, RecordQuery
from hedgerow.plugin.component import Family
from hedgerow.projects.activity import ActivityEntry, Actor, RecordedActivity
from hedgerow.projects.bootstrap import InitialKeys
from hedgerow.projects.keys import KeyRequest, build_key
from hedgerow.projects.model import PersonalKey, Project, ProjectId
from hedgerow.projects.store import ActivityQuery, NewProject
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine, open_database
from hedgerow.storage.engine.database import Database
from hedgerow.storage.flags.evaluation_context import SqlEvaluationDataStore
from hedgerow.storage.flags.flags import SqlFlagStore
from hedgerow.storage.migrations.apply import prepare_database
from hedgerow.storage.persons.cohorts import SqlCohortStore
from hedgerow.storage.persons.persons import SqlPersonStore
from hedgerow.storage.pipelines.components import SqlComponentStore
from hedgerow.storage.pipelines.jobs import SqlJobStore
from hedgerow.storage.pipelines.records import SqlRecordStore
from hedgerow.storage.projects.activity import SqlActivityStore
from hedgerow.storage.projects.directory import SqlDirectoryStore
from hedgerow.storage.projects.keys import SqlKeyStore
from hedgerow.storage.projects.projects import SqlProjectStore
from hedgerow.storage.tables import activity, pipeline_records
from tests.support.postgres import PostgresTestServer

NOW = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
FIRST = InitialKeys(
    project_key="phc_the-first-project-key", personal_key="phx_the-first-personal-key"
)
ACTOR = Actor(kind="key", id="k1", name="a key's label", email="owner@example.com")
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


def build_record_entry(before: Record | None, after: Record) -> ActivityEntry:
    """Build an audit entry whose item name shows how the order changed."""
    return ActivityEntry(
        scope="PluginConfig",
        item_id=str(after.id),
        item_name=f"{before.order if before else None} -> {after.order}",
        activity="created" if before is None else "order_changed",
        actor=ACTOR,
        project_id=after.project_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    location: DatabaseLocation
    database: Database
    projects: SqlProjectStore
    keys: SqlKeyStore
    directory: SqlDirectoryStore
    activity: SqlActivityStore
    pipelines: SqlRecordStore
    jobs: SqlJobStore
    components: SqlComponentStore
    flags: SqlFlagStore
    persons: SqlPersonStore
    evaluation_data: SqlEvaluationDataStore
    cohorts: SqlCohortStore

    async def new_project(self, name: str = "A project", token: str = "") -> Project:
        token = token or f"phc_of-{name}"
        new = NewProject(name=name, timezone="UTC", api_token=token)
        return await self.projects.add_project(new, ACTOR, NOW)

    async def new_key(
        self, label: str = "A key", *, scopes: Sequence[str] = ("*",), value: str = ""
    ) -> PersonalKey:
        request = KeyRequest(label=label, scopes=tuple(scopes))
        drafted = build_key(request, 1, value or f"phx_of-{label}", NOW)
        return await self.keys.add_key(drafted, ACTOR, NOW)

    async def delete_person(self, uuid: str) -> bool:
        """Delete a person. Return whether it existed."""
        return await self.persons.delete_person(
            DEFAULT_PROJECT,
            uuid,
            lambda person: build_deletion_entry(person, ACTOR, events=None, copies=0),
            LATER,
        )

    async def new_record(self, idempotency_key: str | None = None, **fields: Any) -> Record:
        draft = replace(DRAFT, **fields)
        return await self.pipelines.add(draft, build_record_entry, idempotency_key, NOW)

    async def list_entries(self, **criteria: Any) -> list[RecordedActivity]:
        found, _ = await self.activity.list_activity(ActivityQuery(limit=1000, **criteria))
        return found

    async def count_entries(self) -> int:
        return int(await self.fetch_scalar(select(func.count()).select_from(activity)))

    async def fetch_scalar(self, statement: Select[Any]) -> Any:
        return await self.database.read(lambda connection: connection.execute(statement).scalar())


def open_stores(place: DatabaseLocation) -> Stores:
    """Open all stores on one database connection pool, as one process does."""
    database = open_database(place)
    return Stores(
        location=place,
        database=database,
        projects=SqlProjectStore(database),
        keys=SqlKeyStore(database),
        directory=SqlDirectoryStore(database),
        activity=SqlActivityStore(database),
        pipelines=SqlRecordStore(database),
        jobs=SqlJobStore(database),
        components=SqlComponentStore(database),
        flags=SqlFlagStore(database),
        persons=SqlPersonStore(database),
        evaluation_data=SqlEvaluationDataStore(database),
        cohorts=SqlCohortStore(database),
    )


@pytest.fixture(scope="session")
def prepared_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prepared_location") / "hedgerow.db"
    prepare_database(DatabaseLocation(url="", path=path, timeout_s=20), FIRST, lambda: NOW)
    return path


@pytest.fixture(scope="session")
def prepared_database(postgres: PostgresTestServer) -> str:
    url = postgres.create_database()
    prepare_database(DatabaseLocation(url=url, path=Path(), timeout_s=20), FIRST, lambda: NOW)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def prepared_location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DatabaseLocation]:
    """The location of a copy of a prepared database: preparing one is slow."""
    place = DatabaseLocation(url="", path=tmp_path / "hedgerow.db", timeout_s=20, pool_size=5)
    if request.param == "sqlite":
        shutil.copyfile(request.getfixturevalue("prepared_file"), place.path)
        yield place
        return
    postgres: PostgresTestServer = request.getfixturevalue("postgres")
    url = postgres.create_database(like=request.getfixturevalue("prepared_database"))
    yield replace(place, url=url)
    postgres.drop_database(url)


@pytest.fixture
async def stores(prepared_location: DatabaseLocation) -> AsyncIterator[Stores]:
    opened = open_stores(prepared_location)
    yield opened
    await opened.database.close()


@pytest.fixture
async def other_stores(stores: Stores) -> AsyncIterator[Stores]:
    """The same stores in another process."""
    opened = open_stores(stores.location)
    yield opened
    await opened.database.close()


class NoCache:
    """A flag cache for tests that look at writes only."""

    async def refresh(self, project: Project) -> None: ...


class PlainCipher:
    def encrypt(self, value: Any) -> str:
        return str(value)

    def decrypt(self, encrypted: str) -> Any:
        return encrypted


def build_flag_services(*processes: Stores) -> list[Flags]:
    """Build the flag service of each process."""
    cache: Any = NoCache()
    return [Flags(each.flags, cache, PlainCipher()) for each in processes]


def build_no_entry(_before: Person | None, _after: Person) -> None:
    """Build no audit entry."""


def run_sql(place: DatabaseLocation, statement: str, **values: Any) -> list[Any]:
    """Run one statement in a separate connection and commit, as another process would."""
    with create_sync_engine(place).begin() as connection:
        result = connection.execute(text(statement), values)
        return list(result) if result.returns_rows else []


async def insert_records(stores: Stores, *records: Record) -> None:
    rows = [
        {name: getattr(record, name) for name in pipeline_records.columns.keys()}  # noqa: SIM118
        | {"family": record.family.value}
        for record in records
    ]
    await stores.database.write(lambda c: c.execute(insert(pipeline_records), rows).close())


async def list_record_ids(stores: Stores, **filters: Any) -> tuple[list[int], int]:
    records, count = await stores.pipelines.records(replace(ALL, **filters))
    return [record.id for record in records], count


def build_record(id: int, order: int = 0, **fields: Any) -> Record:
    return replace(PLAIN, id=RecordId(id), order=order, **fields)


async def edit_record(stores: Stores, record: Record, **fields: Any) -> Record:
    """Edit a record. Callable fields receive the current record."""

    def edit(before: Record) -> RecordEdit:
        given = {name: new(before) if callable(new) else new for name, new in fields.items()}
        return RecordEdit(record=replace(before, **given), entry=None)

    return await stores.pipelines.edit(get_record_key(record), edit, build_record_entry, LATER)


async def rearrange_records(stores: Stores, orders: dict[RecordId, int]) -> list[Record]:
    return await stores.pipelines.rearrange(
        DEFAULT_PROJECT,
        Family.DESTINATION,
        lambda now: renumber(now, orders),
        build_record_entry,
        LATER,
    )


def get_record_key(record: Record) -> RecordKey:
    return RecordKey(project_id=record.project_id, family=record.family, id=record.id)


async def list_orders(stores: Stores, **filters: Any) -> dict[int, int]:
    records, _ = await stores.pipelines.records(replace(ALL, limit=1000, **filters))
    return {record.id: record.order for record in records}


async def list_record_entries(stores: Stores) -> list[tuple[str, str, str]]:
    """List the audit entries of records, oldest first."""
    entries = [recorded.entry for recorded in await stores.list_entries(scope="PluginConfig")]
    return [(entry.activity, entry.item_id, entry.item_name) for entry in reversed(entries)]


@contextmanager
def record_statements() -> Iterator[list[str]]:
    """Record all SQL statements that run in the block."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


@contextmanager
def run_before_statement(beginning: str, run: Callable[[], None]) -> Iterator[None]:
    """Call `run` right before the first statement with this beginning."""
    waiting = [run]

    def run_once(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if waiting and statement.startswith(beginning):
            waiting.pop()()

    event.listen(Engine, "before_cursor_execute", run_once)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", run_once)
    assert not waiting, f"no statement began with {beginning}"
