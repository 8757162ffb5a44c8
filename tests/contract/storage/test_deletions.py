"""A deletion is reported as completed only if all of it was done."""

from datetime import timedelta

from hedgerow.events.purge import DeletedDataPurge, DeletionQuery
from hedgerow.storage.deletions import MAX_DURATION, SqlDeletionLog
from tests.contract.storage.conftest import DEFAULT_PROJECT, LATER, NOW, Stores

EVERYTHING = DeletionQuery(project_id=DEFAULT_PROJECT, limit=10, offset=0)


async def do_nothing() -> None:
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
