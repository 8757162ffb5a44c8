"""Processed events of many buckets are stored in few batches."""

from hedgerow.storage.ingestion.inbox import STORE_BUCKETS, STORE_LOCK_CLASS, SqlInboxStore
from tests.contract.storage.conftest import NOW, Stores, run_before_statement, run_sql
from tests.contract.storage.ingestion.test_inbox import (
    add,
    add_each,
    build_captured_event,
    decide,
    find_bucket,
    get_uuids,
    process_all,
)


async def test_processed_events_of_all_buckets_are_few_batches(
    shared: SqlInboxStore, on_postgres: None
) -> None:
    """Each batch is one insert into the event store, which costs about the same for any number."""
    await add_each(shared, *(build_captured_event(n, f"person {n}") for n in range(60)))
    waiting = (await shared.find_work()).unprocessed
    assert len(waiting) > STORE_BUCKETS
    for bucket in waiting:
        await process_all(shared, bucket)
    buckets = await shared.unstored_buckets()
    assert buckets == list(range(STORE_BUCKETS))
    rows = [row for bucket in buckets for row in await shared.fetch_processed(bucket)]
    assert sorted(get_uuids(rows)) == [build_captured_event(n).uuid for n in range(60)]


async def test_processed_rows_of_a_batch_appear_in_the_order_of_their_ids(
    stores: Stores, shared: SqlInboxStore, on_postgres: None
) -> None:
    """Otherwise the batch up to a row could get another row before it later."""
    await add(shared, build_captured_event(1))
    bucket = await find_bucket(shared)
    taken: list[bool] = []

    def process_in_another_process() -> None:
        sql = "SELECT pg_try_advisory_xact_lock(:class, :bucket)"
        ((is_taken,),) = run_sql(
            stores.location, sql, **{"class": STORE_LOCK_CLASS, "bucket": bucket % STORE_BUCKETS}
        )
        taken.append(is_taken)

    rows = await shared.fetch_unprocessed(bucket)
    with run_before_statement("INSERT INTO ready_events", process_in_another_process):
        assert await shared.process(bucket, rows, decide, NOW)
    process_in_another_process()
    assert taken == [False, True]
