"""Every table is handled when a project is deleted, and no row of another project is touched."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Boolean,
    Connection,
    Float,
    Integer,
    LargeBinary,
    Table,
    Text,
    func,
    insert,
    select,
)
from sqlalchemy.types import TypeEngine

from hedgerow.errors import Invalid, NotFound
from hedgerow.events.project_erasure import ProjectErasure
from hedgerow.ingestion.model import CapturedEvent
from hedgerow.ingestion.persons.loaded_state import LoadedState
from hedgerow.ingestion.persons.process import process_batch
from hedgerow.ingestion.store import ProcessingResult
from hedgerow.persons.store import PersonQuery
from hedgerow.projects.deletion import ProjectDeletion
from hedgerow.projects.keys import KeyRequest, build_key
from hedgerow.projects.model import ProjectId
from hedgerow.storage import tables
from hedgerow.storage.ingestion.inbox import SqlInboxStore
from hedgerow.storage.projects.deletions import SqlProjectDeletions
from hedgerow.storage.projects.owned_rows import KEPT, OWNED
from hedgerow.storage.tables import ingestion, metadata
from hedgerow.storage.tables.column_types import Json, Moment
from tests.contract.storage.conftest import ACTOR, DEFAULT_PROJECT, LATER, NOW, Stores, run_sql
from tests.support.factories import captured_event, no_location

# Their rows refer to a project without a foreign key.
PARENTS = {"record_id": tables.pipeline_records, "inbox_id": ingestion.inbox}


class NoEvents:
    async def delete_project(self, project_id: ProjectId) -> int:
        return 0


def test_every_table_is_deleted_from_or_kept_for_a_reason() -> None:
    known = set(OWNED) | set(KEPT)
    missing = {table.name for table in metadata.tables.values()} - {each.name for each in known}
    assert not missing, f"Add {missing} to storage/projects/owned_rows.py."
    assert not set(OWNED) & set(KEPT)
    assert all(KEPT.values())
    with_project = {each for each in metadata.tables.values() if "project_id" in each.c}
    events = {ingestion.ready_events, ingestion.unrouted_events}
    assert with_project - set(OWNED) == {ingestion.project_deletions, *events}


async def _fill_tables(stores: Stores, project_id: ProjectId) -> None:
    """Insert a row of the project into every table that has rows of projects."""

    def fill(connection: Connection) -> None:
        organization = connection.execute(select(tables.organizations.c.id)).scalar_one()
        product = {
            "id": project_id,
            "organization_id": organization,
            "name": f"of {project_id}",
            "created_at": NOW,
            "updated_at": NOW,
        }
        connection.execute(insert(tables.products).values(product))
        made: dict[Table, dict[str, Any]] = {
            tables.projects: {"id": project_id},
            tables.users: {"id": 1},
            tables.products: product,
        }
        for table in list(OWNED)[::-1]:
            row = {
                column.name: _choose_value(column, made, project_id)
                for column in table.columns
                if column.name != "id" or not isinstance(column.type, Integer)
            }
            if table is ingestion.rate_usage:
                row["bucket"] = f"capture {project_id}"
            key = connection.execute(insert(table).values(row)).inserted_primary_key
            assert key is not None
            made[table] = row | dict(zip(table.primary_key.columns.keys(), key, strict=True))

    await stores.database.write(fill)


def _choose_value(column: Any, made: dict[Table, dict[str, Any]], project_id: ProjectId) -> Any:
    for key in column.foreign_keys:
        return made[key.column.table][key.column.name]
    if column.name in PARENTS:
        return made[PARENTS[column.name]]["id"]
    if column.name == "project_id":
        return project_id
    return _make_value(column.type, project_id)


def _make_value(type: TypeEngine[Any], number: int) -> Any:
    if isinstance(type, Boolean):
        return False
    if isinstance(type, Integer | Float):
        return number
    if isinstance(type, LargeBinary):
        return b""
    if isinstance(type, Json | JSON):
        return {}
    if isinstance(type, Moment):
        return NOW
    assert isinstance(type, Text)
    return f"of {number}"


async def _count_rows(stores: Stores) -> dict[str, int]:
    """Count the rows of all tables, those of the replication queue without marks."""
    counted = {table: select(func.count()).select_from(table) for table in OWNED}
    queue = tables.mirror_queue
    counted[queue] = counted[queue].where(queue.c.kind != "mark")
    return {table.name: await stores.fetch_scalar(sql) for table, sql in counted.items()}


async def _erase(deletions: SqlProjectDeletions) -> list[ProjectDeletion]:
    """Run until everything is gone, as the periodic task does."""
    purged: list[ProjectDeletion] = []
    erasure = ProjectErasure(
        deletions,
        NoEvents(),
        [],
        lambda: LATER,
        settling_time=timedelta(0),
        on_purged=purged.append,
    )
    for _ in range(3):
        await erasure.run()
    return purged


async def test_all_rows_of_a_deleted_project_and_no_others_are_deleted(stores: Stores) -> None:
    await _fill_tables(stores, DEFAULT_PROJECT)
    before = await _count_rows(stores)
    doomed = await stores.new_project("Doomed")
    await _fill_tables(stores, doomed.id)
    filled = await _count_rows(stores)
    assert [name for name in before if not 0 < before[name] < filled[name]] == []
    newest = await stores.fetch_scalar(select(func.max(tables.mirror_queue.c.id)))
    await stores.projects.delete_project(doomed.id, ACTOR, NOW)

    deletions = SqlProjectDeletions(stores.database)
    (deletion,) = await deletions.list_unpurged()
    assert (deletion.name, deletion.rows_deleted, deletion.purged_at) == ("Doomed", 0, None)
    (purged,) = await _erase(deletions)
    assert purged.project_id == doomed.id
    # One more: the entry of the deletion.
    assert await _count_rows(stores) == before | {"activity": before["activity"] + 1}
    ((report,), count) = await deletions.list_deletions(is_purged=True, limit=10, offset=0)
    assert (count, report.purged_at) == (1, LATER)
    assert report.rows_deleted > len(OWNED) / 2
    # Versions of replicas must not start again.
    assert await stores.fetch_scalar(select(func.max(tables.mirror_queue.c.id))) >= newest


async def test_deletion_leaves_its_entry_and_takes_the_project_off_keys(stores: Stores) -> None:
    doomed = await stores.new_project("Doomed")

    async def add_key(label: str, *ids: ProjectId) -> str:
        request = KeyRequest(label=label, scopes=("*",), project_ids=ids)
        key = build_key(request, 1, f"phx_{label}", NOW)
        await stores.keys.add_key(key, ACTOR, NOW)
        return key.hash

    only = await add_key("only", doomed.id)
    both = await add_key("both", DEFAULT_PROJECT, doomed.id)
    every = await add_key("every")
    await stores.projects.delete_project(doomed.id, ACTOR, NOW)
    snapshot = await stores.directory.snapshot()
    assert doomed.id not in snapshot.projects
    assert doomed.api_token not in snapshot.tokens
    # A key without projects would have access to all of them.
    assert only not in snapshot.keys_by_hash
    assert snapshot.keys_by_hash[both].project_ids == (DEFAULT_PROJECT,)
    assert snapshot.keys_by_hash[every].project_ids == ()
    await _erase(SqlProjectDeletions(stores.database))
    (entry,) = await stores.list_entries(scope="Project", item_id=str(doomed.id))
    assert (entry.entry.activity, entry.entry.item_name) == ("deleted", "Doomed")


async def test_deleted_project_is_neither_found_nor_deleted_again(stores: Stores) -> None:
    doomed = await stores.new_project("Doomed")
    await stores.projects.delete_project(doomed.id, ACTOR, NOW)
    with pytest.raises(NotFound):
        await stores.projects.delete_project(doomed.id, ACTOR, NOW)
    with pytest.raises(NotFound):
        await stores.new_record(project_id=doomed.id)
    assert (await stores.new_project("Next")).id > doomed.id


async def test_only_project_is_not_deleted(stores: Stores) -> None:
    doomed = await stores.new_project("Doomed")
    await stores.projects.delete_project(doomed.id, ACTOR, NOW)
    with pytest.raises(Invalid, match="only project"):
        await stores.projects.delete_project(DEFAULT_PROJECT, ACTOR, NOW)


async def test_one_process_at_a_time_deletes_the_data(stores: Stores, other_stores: Stores) -> None:
    doomed = await stores.new_project("Doomed")
    await stores.projects.delete_project(doomed.id, ACTOR, NOW)
    first, second = SqlProjectDeletions(stores.database), SqlProjectDeletions(other_stores.database)
    assert await first.acquire(doomed.id)
    assert await first.acquire(doomed.id)
    is_shared = stores.database.engine_name == "postgresql"
    assert await second.acquire(doomed.id) is not is_shared
    await first.release(doomed.id)
    assert await second.acquire(doomed.id)
    if is_shared:  # the clock of the database is set back
        later = "UPDATE project_deletions SET expires_at = expires_at + interval '1 hour'"
        run_sql(stores.location, later)
        assert await first.acquire(doomed.id)


def _process_project(
    project_id: ProjectId, events: Sequence[CapturedEvent], known: LoadedState
) -> ProcessingResult:
    processed = process_batch(project_id, known, events, no_location)
    made = [event for event in processed.events if event is not None]
    return ProcessingResult(events=made, changes=processed.changes, warnings=[], flag_calls={})


async def test_events_of_a_deleted_project_are_dropped(stores: Stores) -> None:
    """Whether they were processed before the deletion or accepted by a process that did not know
    of it yet. They count as stored, so that no reader waits for them."""
    inbox, doomed = SqlInboxStore(stores.database, 1), await stores.new_project("Doomed")

    async def capture(distinct_id: str) -> None:
        event = captured_event("seen", distinct_id, {"$set": {"n": 1}})
        for id in (doomed.id, DEFAULT_PROJECT):
            await inbox.add(id, [event], (), NOW)
        rows = await inbox.fetch_unprocessed(0)
        assert await inbox.process(0, rows, _process_project, NOW)

    await capture("early")
    await stores.projects.delete_project(doomed.id, ACTOR, NOW)
    await capture("late")
    rows = await inbox.fetch_processed(0)
    assert [(each.project_id, each.distinct_id) for row in rows for each in row.events] == [
        (DEFAULT_PROJECT, "early"),
        (DEFAULT_PROJECT, "late"),
    ]
    assert sum(row.number for row in rows) == 4
    late = PersonQuery(project_id=doomed.id, distinct_id="late")
    assert await stores.persons.persons(late) == ([], 0)
