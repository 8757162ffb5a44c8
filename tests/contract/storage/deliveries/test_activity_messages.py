"""Messages about the activity log are queued in the transaction of the change."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection

from hedgerow.lib import jsonio
from hedgerow.pipelines.deliveries.activity_messages import MAX_PROPERTIES_BYTES
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import RecordEdit, RecordKey
from hedgerow.plugin.component import Family
from hedgerow.projects.activity import ActivityEntry, diff_fields
from hedgerow.projects.model import ProjectId
from hedgerow.storage.deliveries.queue import SqlDeliveryStore
from hedgerow.storage.projects import activity
from tests.contract.storage.conftest import (
    ACTOR,
    DEFAULT_PROJECT,
    NOW,
    Stores,
    build_record_entry,
)

ACTIVITY: dict[str, Any] = {"url": "https://example.com", "event_source": "activity_log"}


def build_entry(scope: str = "FeatureFlag", **fields: Any) -> ActivityEntry:
    return replace(
        ActivityEntry(
            scope=scope,
            item_id="7",
            item_name="checkout",
            activity="updated",
            actor=ACTOR,
            project_id=DEFAULT_PROJECT,
            changes=diff_fields(scope, {"active": False}, {"active": True}),
        ),
        **fields,
    )


async def create_destination(
    stores: Stores, project_id: ProjectId = DEFAULT_PROJECT, **config: Any
) -> RecordId:
    """Create an enabled destination with these settings, without a message about that."""
    record = await stores.new_record(project_id=project_id, enabled=True)
    key = RecordKey(project_id=project_id, family=Family.DESTINATION, id=record.id)
    await stores.pipelines.edit(
        key,
        lambda before: RecordEdit(record=replace(before, config=config), entry=None),
        build_record_entry,
        NOW,
    )
    return record.id


async def read_messages(stores: Stores, id: RecordId) -> list[dict[str, Any]]:
    due = await SqlDeliveryStore(stores.database).due(id, 100, 2**60)
    return [{"event": each.event.event, **jsonio.decode(each.event.properties)} for each in due]


async def test_entry_is_queued_for_the_destinations_that_want_it(stores: Stores) -> None:
    everything = await create_destination(stores, **ACTIVITY)
    cohorts = await create_destination(
        stores, **ACTIVITY, properties=[{"key": "scope", "value": ["Cohort"]}]
    )
    captured = await create_destination(stores, url="https://example.com")
    other = await stores.new_project("Other")
    elsewhere = await create_destination(stores, other.id, **ACTIVITY)
    before = len(await read_messages(stores, everything))
    await stores.activity.record(build_entry(), NOW)
    *_, message = await read_messages(stores, everything)
    assert message["event"] == "$activity_log_entry_created"
    assert (message["scope"], message["activity"], message["item_id"]) == (
        "FeatureFlag",
        "updated",
        "7",
    )
    assert message["user"] == {"first_name": ACTOR.name, "email": ACTOR.email}
    assert message["message"] == (
        "owner@example.com updated FeatureFlag checkout: active false → true"
    )
    [recorded] = await stores.list_entries(scope="FeatureFlag")
    assert message["id"] == recorded.id
    assert len(await read_messages(stores, everything)) == before + 1
    for id in (cohorts, captured, elsewhere):
        assert await read_messages(stores, id) == []
    await stores.activity.record(build_entry("Cohort"), NOW)
    assert [each["scope"] for each in await read_messages(stores, cohorts)] == ["Cohort"]
    await stores.activity.record(build_entry("User", project_id=None), NOW)
    assert "User" not in [each["scope"] for each in await read_messages(stores, everything)]


async def test_change_that_is_rolled_back_sends_nothing(stores: Stores) -> None:
    id = await create_destination(stores, **ACTIVITY)

    def fail(connection: Connection) -> None:
        activity.record(connection, build_entry(), NOW)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await stores.database.write(fail)
    assert await read_messages(stores, id) == []


async def test_entries_of_one_transaction_keep_their_order_and_ids(stores: Stores) -> None:
    id = await create_destination(stores, **ACTIVITY)
    entries = [build_entry(item_id=str(number)) for number in range(50)]
    await stores.database.write(lambda connection: activity.record_all(connection, entries, NOW))
    messages = await read_messages(stores, id)
    assert [each["item_id"] for each in messages] == [str(number) for number in range(50)]
    recorded = await stores.list_entries(scope="FeatureFlag")
    assert {each["id"]: each["item_id"] for each in messages} == {
        each.id: each.entry.item_id for each in recorded
    }


async def test_values_of_a_large_entry_are_left_out(stores: Stores) -> None:
    id = await create_destination(stores, **ACTIVITY)
    large = diff_fields("FeatureFlag", {}, {"filters": "x" * MAX_PROPERTIES_BYTES})
    await stores.activity.record(build_entry(changes=large), NOW)
    [message] = await read_messages(stores, id)
    assert message["detail"]["is_truncated"] is True
    assert message["detail"]["changes"] == [
        {"type": "FeatureFlag", "action": "created", "field": "filters"}
    ]


async def test_destination_with_unusable_filters_does_not_stop_a_change(stores: Stores) -> None:
    id = await create_destination(stores, **ACTIVITY, properties="not a list")
    await stores.activity.record(build_entry(), NOW)
    assert await read_messages(stores, id) == []
