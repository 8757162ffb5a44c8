"""The helpers for tests of packages behave like the parts of Hedgerow that they stand for."""

import asyncio
from collections.abc import Sequence

import pytest

from hedgerow.pipelines.builtin.destinations import local_files, postgres_table, webhook
from hedgerow.pipelines.builtin.imports import file_import, postgres_query
from hedgerow.pipelines.builtin.transformations import mask_ip
from hedgerow.plugin import (
    Component,
    Delivered,
    DeliveryContext,
    Event,
    Failed,
    Family,
    JobError,
    Outcome,
    Request,
    Response,
    Settings,
    TransportError,
)
from hedgerow.plugin.testing import (
    FakeDatabase,
    FakeFiles,
    FakeHttp,
    FakeTables,
    deliver,
    make_context,
    make_event,
    make_import_context,
    make_incoming_event,
    make_settings,
    read_all,
    transform,
)

REQUEST = Request(method="GET", url="https://example.com", headers={}, body=b"")
DATABASE_URL = "postgresql://user:password@db.example.com/shop"


def test_settings_have_their_defaults() -> None:
    settings = make_settings(webhook.COMPONENT, url="https://example.com")
    assert (settings["url"], settings["method"]) == ("https://example.com", "POST")


def test_settings_that_are_unknown_or_missing_are_refused() -> None:
    with pytest.raises(ValueError, match="no setting 'colour'"):
        make_settings(webhook.COMPONENT, url="https://example.com", colour="red")
    with pytest.raises(ValueError, match="requires the setting 'url'"):
        make_settings(webhook.COMPONENT)


def test_responses_come_in_turn_and_the_last_one_repeats() -> None:
    http = FakeHttp(503, Response(status=201, headers={}, body=b"made"))

    async def statuses() -> list[int]:
        return [(await http.send(REQUEST)).status for _ in range(3)]

    assert asyncio.run(statuses()) == [503, 201, 201]
    assert len(http.requests) == 3


def test_streamed_response_has_the_whole_body() -> None:
    async def read() -> bytes:
        http = FakeHttp(Response(status=200, headers={}, body=b"content"))
        async with http.stream(REQUEST) as response:
            return b"".join([chunk async for chunk in response.chunks])

    assert asyncio.run(read()) == b"content"


def test_deliver_returns_an_outcome_per_event() -> None:
    events = [make_event(), make_event()]
    http = FakeHttp(TransportError("No route to host."))
    assert (
        deliver(webhook.COMPONENT, events, http=http, url="https://example.com", batch_size=2)
        == [Failed(reason="No route to host.")] * 2
    )


def test_deliver_refuses_a_wrong_number_of_outcomes() -> None:
    async def return_nothing(
        events: Sequence[Event], settings: Settings, ctx: DeliveryContext
    ) -> Sequence[Outcome]:
        return []

    component = Component(
        key="acme/forgetful",
        family=Family.DESTINATION,
        name="Forgetful",
        description="",
        version="1",
        deliver=return_nothing,
    )
    with pytest.raises(AssertionError, match="0 outcomes for 1 events"):
        deliver(component, [make_event()])


def test_files_and_tables_are_written_in_memory() -> None:
    files, tables, event = FakeFiles(), FakeTables(), make_event("bought")
    ctx = make_context(files=files, tables=tables)
    assert deliver(local_files.COMPONENT, [event], ctx, folder="archive") == [Delivered()]
    assert b"bought" in files.written["project-1/archive"]
    for _ in range(2):
        assert deliver(postgres_table.COMPONENT, [event], ctx, url=DATABASE_URL) == [Delivered()]
    assert list(tables.inserted["public.hedgerow_events"]) == [event.uuid]


def test_transformation_is_applied() -> None:
    after = transform(mask_ip.COMPONENT, make_incoming_event(properties={"$ip": "192.0.2.77"}))
    assert after is not None
    assert after.properties == {"$ip": "192.0.2.0"}


def test_component_without_the_function_is_refused() -> None:
    with pytest.raises(ValueError, match="no `deliver`"):
        deliver(mask_ip.COMPONENT, [make_event()])
    with pytest.raises(ValueError, match="no `transform`"):
        transform(webhook.COMPONENT, make_incoming_event(), url="https://example.com")
    with pytest.raises(ValueError, match="no `read`"):
        read_all(webhook.COMPONENT, make_import_context(), url="https://example.com")


def test_files_are_read_to_their_end_and_finished_ones_are_skipped() -> None:
    files = {"orders/a.csv": b"event,distinct_id\nbought,ann\n", "other.csv": b"event\n"}
    batches = read_all(file_import.COMPONENT, make_import_context(files=files), source="orders")
    assert [row.values for batch in batches for row in batch.rows] == [
        {"event": "bought", "distinct_id": "ann"}
    ]
    finished = [file for batch in batches for file in batch.finished]
    assert [file.name for file in finished] == ["orders/a.csv"]
    again = make_import_context(files=files, finished=finished)
    assert read_all(file_import.COMPONENT, again, source="orders") == []


def test_missing_file_is_a_job_error() -> None:
    with pytest.raises(JobError, match=r"no file gone\.csv"):
        read_all(file_import.COMPONENT, make_import_context(files={}), source="gone.csv")


def test_database_rows_are_read_and_queries_are_recorded() -> None:
    database = FakeDatabase([("1", {"event": "bought"})])
    (batch,) = read_all(
        postgres_query.COMPONENT,
        make_import_context(database=database),
        url=DATABASE_URL,
        query="SELECT * FROM orders",
        cursor_column="id",
    )
    assert [row.values for row in batch.rows] == [{"event": "bought"}]
    assert [query.text for query in database.queries] == ["SELECT * FROM orders"]
