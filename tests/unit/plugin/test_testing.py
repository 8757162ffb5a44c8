"""The helpers for tests of packages behave like the parts of Hedgerow that they stand for."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from hedgerow.pipelines.builtin.destinations import local_files, postgres_table, webhook
from hedgerow.pipelines.builtin.transformations import mask_ip
from hedgerow.plugin import (
    Component,
    DatabaseQuery,
    Delivered,
    DeliveryContext,
    Event,
    Failed,
    Family,
    ImportBatch,
    ImportContext,
    JobError,
    Outcome,
    Request,
    Response,
    SettingField,
    Settings,
    SourceRow,
    TransportError,
    parse_database_address,
)
from hedgerow.plugin.imports import ReadSource
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


async def read_lines(
    settings: Mapping[str, Any], _: Any, ctx: ImportContext
) -> AsyncIterator[ImportBatch]:
    for version in await ctx.files.list_files(ctx.project_id, settings["source"]):
        if await ctx.is_finished(version):
            continue
        with await ctx.files.open_file(ctx.project_id, version.name) as file:
            lines = file.read().decode().splitlines()
        rows = [
            SourceRow(identity=line, location=version.name, values={"line": line}) for line in lines
        ]
        yield ImportBatch(rows=rows, cursor=version.name, finished=[version])


async def read_orders(
    settings: Mapping[str, Any], _: Any, ctx: ImportContext
) -> AsyncIterator[ImportBatch]:
    query = DatabaseQuery(
        address=parse_database_address(DATABASE_URL),
        text=settings["source"],
        cursor_column="id",
        start=None,
    )
    async with ctx.database.rows(query) as batches:
        async for batch in batches:
            rows = [
                SourceRow(identity=at, location=f"id {at}", values=values) for at, values in batch
            ]
            yield ImportBatch(rows=rows, cursor=batch[-1][0])


def make_import_app(read: ReadSource) -> Component:
    return Component(
        key="test/import",
        family=Family.IMPORT_APP,
        name="Import",
        description="",
        version="1",
        settings=(SettingField(key="source", name="Source", required=True),),
        read=read,
    )


LINES, ORDERS = make_import_app(read_lines), make_import_app(read_orders)


def test_files_are_read_to_their_end_and_finished_ones_are_skipped() -> None:
    files = {"orders/a.csv": b"event,distinct_id\nbought,ann\n", "other.csv": b"event\n"}
    batches = read_all(LINES, make_import_context(files=files), source="orders")
    assert [row.values for batch in batches for row in batch.rows] == [
        {"line": "event,distinct_id"},
        {"line": "bought,ann"},
    ]
    finished = [file for batch in batches for file in batch.finished]
    assert [file.name for file in finished] == ["orders/a.csv"]
    again = make_import_context(files=files, finished=finished)
    assert read_all(LINES, again, source="orders") == []


def test_missing_file_is_a_job_error() -> None:
    with pytest.raises(JobError, match=r"no file gone\.csv"):
        read_all(LINES, make_import_context(files={}), source="gone.csv")


def test_database_rows_are_read_and_queries_are_recorded() -> None:
    database = FakeDatabase([("1", {"event": "bought"})])
    (batch,) = read_all(
        ORDERS, make_import_context(database=database), source="SELECT * FROM orders"
    )
    assert [row.values for row in batch.rows] == [{"event": "bought"}]
    assert [query.text for query in database.queries] == ["SELECT * FROM orders"]
