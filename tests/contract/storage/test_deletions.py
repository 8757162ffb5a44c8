"""A deletion is reported as completed only if all of it was done."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from hedgerow.errors import Conflict, NotFound
from hedgerow.events.deletion import AcceptedEvents, DeletedEvents, EventDeletion
from hedgerow.events.purge import DeletedDataPurge, DeletionQuery
from hedgerow.http.api.persons import PersonEndpoints
from hedgerow.persons.model import Person
from hedgerow.storage.deletions import MAX_DURATION, SqlDeletionLog
from tests.contract.storage.conftest import ACTOR, DEFAULT_PROJECT, LATER, NOW, Stores

EVERYTHING = DeletionQuery(project_id=DEFAULT_PROJECT, limit=10, offset=0)


async def do_nothing(*_: object) -> None:
    pass


async def list_statuses(stores: Stores) -> dict[str, bool]:
    """List the deletions by person, with whether they are completed."""
    found, _ = await SqlDeletionLog(stores.database).list_deletions(EVERYTHING)
    return {each.person_uuid: each.purged_at is not None for each in found}


async def test_failed_deletion_is_purged_but_not_reported(stores: Stores) -> None:
    log = SqlDeletionLog(stores.database)
    failed, done = [await log.begin(DEFAULT_PROJECT, who, NOW) for who in ("failed", "done")]
    await log.end(failed, LATER, is_personal=True, is_complete=False)
    await log.end(done, LATER, is_personal=True)
    assert await log.list_unpurged() == [failed, done]
    assert await list_statuses(stores) == {"done": False}
    await DeletedDataPurge(log, [do_nothing], lambda: LATER).run()
    assert await list_statuses(stores) == {"done": True}
    assert await log.list_unpurged() == []


async def test_interrupted_deletion_is_completed_only_if_the_person_is_gone(
    stores: Stores,
) -> None:
    """The person is deleted last, so until then other data may be left."""
    log = SqlDeletionLog(stores.database)
    there, gone = [
        await stores.persons.upsert_person(
            DEFAULT_PROJECT, [name], lambda _: {}, lambda *_: None, NOW
        )
        for name in ("there", "gone")
    ]
    for person in (there, gone):
        await log.begin(DEFAULT_PROJECT, person.uuid, NOW)
    assert await stores.delete_person(gone.uuid)
    purge = DeletedDataPurge(log, [do_nothing], lambda: NOW + MAX_DURATION - timedelta(seconds=1))
    await purge.run()
    assert await list_statuses(stores) == {there.uuid: False, gone.uuid: False}
    await DeletedDataPurge(log, [do_nothing], lambda: NOW + MAX_DURATION).run()
    assert await list_statuses(stores) == {gone.uuid: True}


class MergingDeletion:
    """Deletes no events. Meanwhile, the person changes."""

    def __init__(self, log: SqlDeletionLog, change: Callable[[], Awaitable[object]]) -> None:
        none: Any = None
        self._change = change
        waits = AcceptedEvents(wait=do_nothing, wait_for_all=do_nothing)
        self.record = EventDeletion(none, (), none, log, waits, none).record

    async def wait_for_accepted(self, _: object) -> None:
        pass

    async def delete_without_audit(self, *_: object) -> DeletedEvents:
        await self._change()
        return DeletedEvents(events=0, copies=0)


@pytest.mark.parametrize(("is_gone", "error"), [(False, Conflict), (True, NotFound)])
async def test_person_who_changed_during_the_deletion_is_not_reported_as_deleted(
    stores: Stores, *, is_gone: bool, error: type[Exception]
) -> None:
    """A person who has got another distinct id has more events. One who is gone may have been
    merged into another."""

    async def add(*ids: str) -> Person:
        return await stores.persons.upsert_person(
            DEFAULT_PROJECT, ids, lambda _: {}, lambda *_: None, NOW
        )

    async def change() -> None:
        if is_gone:
            await stores.delete_person(ann.uuid)
        else:
            await add("ann", "another id of ann")

    ann = await add("ann")
    deletion: Any = MergingDeletion(SqlDeletionLog(stores.database), change)
    barrier: Any = SimpleNamespace(wait_until_processed=do_nothing)
    none: Any = None
    endpoints = PersonEndpoints(barrier, none, deletion, stores.persons, none)
    call: Any = SimpleNamespace(
        project=SimpleNamespace(id=DEFAULT_PROJECT),
        now=NOW,
        actor=ACTOR,
        path_param=lambda *_: ann.uuid,
        query_param=lambda _: "true",
    )
    with pytest.raises(error):
        await endpoints.delete_person(call)
    assert (await stores.persons.person(DEFAULT_PROJECT, ann.uuid) is None) == is_gone
    assert await list_statuses(stores) == {}
