"""Cookieless visitors on both engines: salts, sessions, and what remains in an event."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select

from hedgerow.ingestion.cookieless.identity import SENTINEL_ID, Visitor
from hedgerow.ingestion.cookieless.resolve import CookielessVisitors
from hedgerow.ingestion.model import CaptureBatch, CapturedEvent
from hedgerow.storage.ingestion.cookieless import SqlCookielessStore
from hedgerow.storage.tables.ingestion import cookieless_salts, cookieless_visitors
from tests.contract.storage.conftest import DEFAULT_PROJECT, NOW, Stores

PAGE = {
    "$cookieless_mode": True,
    "$raw_user_agent": "Firefox/140",
    "$host": "www.example.com",
    "$timezone": "Europe/Berlin",
    "distinct_id": SENTINEL_ID,
    "$device_id": None,
}
LOCATION = {
    "$geoip_country_code": "DE",
    "$geoip_city_name": "Berlin",
    "$geoip_latitude": 52.5,
    "$geoip_postal_code": "10115",
}


def visitors(stores: Stores) -> CookielessVisitors:
    """Return the visitors as a process sees them that has just started."""
    return CookielessVisitors(
        SqlCookielessStore(stores.database), lambda _: LOCATION, lambda _: "UTC"
    )


def event(
    name: str = "seen",
    distinct_id: str = SENTINEL_ID,
    properties: Mapping[str, Any] = PAGE,
    ip: str = "203.0.113.7",
    **fields: Any,
) -> CapturedEvent:
    number = fields.pop("number", 0)
    return CapturedEvent(
        uuid=f"0199aaaa-0000-7000-8000-{number:012}",
        event=name,
        distinct_id=distinct_id,
        properties=dict(properties),
        timestamp=fields.pop("timestamp", NOW),
        accepted_at=NOW,
        ip=ip,
        **fields,
    )


async def resolve(stores: Stores, *events: CapturedEvent) -> CaptureBatch:
    batch = CaptureBatch(token="", events=events)
    return await visitors(stores).resolve(DEFAULT_PROJECT, batch, NOW)


async def resolve_one(stores: Stores, sent: CapturedEvent) -> CapturedEvent:
    resolved = await resolve(stores, sent)
    assert resolved.warnings == []
    (only,) = resolved.events
    return only


async def test_visitor_gets_an_id_and_a_session(stores: Stores) -> None:
    seen = await resolve_one(stores, event())
    assert seen.distinct_id.startswith("cookieless_")
    assert seen.properties == {
        "$cookieless_mode": True,
        "$host": "www.example.com",
        "$timezone": "Europe/Berlin",
        "distinct_id": seen.distinct_id,
        "$device_id": seen.distinct_id.replace("cookieless_", "cookielessd_"),
        "$session_id": seen.properties["$session_id"],
        "$process_person_profile": False,
        "$geoip_country_code": "DE",
        "$geoip_city_name": "Berlin",
    }
    again = await resolve_one(stores, event(number=2))
    assert again.distinct_id == seen.distinct_id
    assert again.properties["$session_id"] == seen.properties["$session_id"]


async def test_visitors_are_separate(stores: Stores) -> None:
    others = [
        event(),
        event(ip="203.0.113.8"),
        event(properties=PAGE | {"$raw_user_agent": "lynx"}),
        event(properties=PAGE | {"$host": "example.org"}),
        event(properties=PAGE | {"$cookieless_extra": "seat 2"}),
        event(properties=PAGE | {"$ip": "198.51.100.1"}),
        event(timestamp=NOW - timedelta(days=1)),
    ]
    resolved = await resolve(stores, *others)
    assert len({each.distinct_id for each in resolved.events}) == len(others)
    assert len({each.properties["$session_id"] for each in resolved.events}) == len(others)


SECRETS = {
    "$ip": "198.51.100.77",
    "$raw_user_agent": "Agent-77",
    "$user_agent": "Agent-77",
    "$cookieless_extra": "extra-77",
    "$set": {"$raw_user_agent": "Agent-77", "$ip": "198.51.100.77"},
    "$set_once": {"$initial_raw_user_agent": "Agent-77"},
}
UNFLAGGED = {name: value for name, value in PAGE.items() if name != "$cookieless_mode"}


@pytest.mark.parametrize(
    "sent",
    [
        event(properties=PAGE | SECRETS),
        event(properties=UNFLAGGED | SECRETS),
        event("$identify", "ann", PAGE | SECRETS),
        event("$identify", "ann", UNFLAGGED | SECRETS | {"$anon_distinct_id": SENTINEL_ID}),
        event("seen", "ann", PAGE | SECRETS),
        event("seen", "cookieless_of-an-export", PAGE | SECRETS),
        event("seen", "ann", PAGE | SECRETS, historical_migration=True),
    ],
)
async def test_nothing_that_identifies_a_visitor_remains(
    stores: Stores, sent: CapturedEvent
) -> None:
    written = msgspec.json.encode(await resolve_one(stores, sent)).decode()
    for secret in ("198.51.100.77", "203.0.113.7", "Agent-77", "extra-77"):
        assert secret not in written


async def test_other_events_are_unchanged(stores: Stores) -> None:
    plain = event("seen", "ann", {"$raw_user_agent": "Firefox", "$ip": "203.0.113.9"})
    off = event("seen", "ben", {"$cookieless_mode": False, "$raw_user_agent": "Firefox"})
    resolved = await resolve(stores, plain, event(), off)
    assert resolved.events[0] == plain
    assert resolved.events[2] == off


async def test_identify_merges_the_visitor_of_the_day(stores: Stores) -> None:
    sent = [
        event(number=1),
        event("$identify", "ann", PAGE | {"$anon_distinct_id": SENTINEL_ID}, number=2),
        event("bought", "ann", number=3),
        event("logged out", number=4),
    ]
    before, identified, bought, after = (await resolve(stores, *sent)).events
    assert identified.distinct_id == bought.distinct_id == "ann"
    assert identified.properties["$anon_distinct_id"] == before.distinct_id
    assert "$process_person_profile" not in identified.properties
    assert bought.properties["$session_id"] == before.properties["$session_id"]
    assert after.distinct_id != before.distinct_id
    assert after.properties["$device_id"] == before.properties["$device_id"]


@pytest.mark.parametrize(
    ("sent", "type"),
    [
        (event("$create_alias", properties=PAGE | {"alias": "x"}), "cookieless_unsupported_event"),
        (event("$merge_dangerously"), "cookieless_unsupported_event"),
        (event(ip=""), "cookieless_missing_ip"),
        (event(properties={"$cookieless_mode": True}), "cookieless_missing_user_agent"),
        (event(properties=PAGE | {"$host": None}), "cookieless_missing_host"),
        (event(timestamp=NOW - timedelta(days=3)), "cookieless_timestamp_out_of_range"),
        (event(timestamp=NOW + timedelta(hours=23)), "cookieless_timestamp_out_of_range"),
        (event(properties=PAGE, historical_migration=True, ip=""), "cookieless_missing_ip"),
    ],
)
async def test_event_without_a_visitor_is_dropped_with_a_warning(
    stores: Stores, sent: CapturedEvent, type: str
) -> None:
    resolved = await resolve(stores, event(number=9), sent)
    assert [each.uuid[-1] for each in resolved.events] == ["9"]
    (warning,) = resolved.warnings
    assert (warning.type, warning.distinct_id) == (type, SENTINEL_ID)
    assert warning.detail.endswith(" The event is dropped.")


async def test_day_of_the_visitor_decides(stores: Stores) -> None:
    """NOW is 01:30 UTC: in Berlin it is the same day as ten hours later, in New York it is not."""
    later = NOW + timedelta(hours=10)
    batch = [
        event(properties=PAGE | {"$timezone": zone}, timestamp=at)
        for zone in ("Europe/Berlin", "America/New_York")
        for at in (NOW, later)
    ]
    resolved = await visitors(stores).resolve(
        DEFAULT_PROJECT, CaptureBatch(token="", events=batch), later
    )
    berlin, berlin_later, new_york, new_york_later = (each.distinct_id for each in resolved.events)
    assert berlin == berlin_later == new_york_later
    assert new_york != new_york_later


async def test_processes_share_the_salt_and_the_sessions(stores: Stores) -> None:
    processes = [visitors(stores) for _ in range(8)]
    resolved = await asyncio.gather(
        *(
            process.resolve(DEFAULT_PROJECT, CaptureBatch(token="", events=[event(number=n)]), NOW)
            for n, process in enumerate(processes)
        )
    )
    events = [each.events[0] for each in resolved]
    assert len({each.distinct_id for each in events}) == 1
    assert len({each.properties["$session_id"] for each in events}) == 1


async def test_large_batches_of_many_visitors_do_not_block_each_other(stores: Stores) -> None:
    sent = [
        event(ip=f"203.0.113.{n % 250}", properties=PAGE | {"n": n}, number=n) for n in range(600)
    ]
    one, other = await asyncio.gather(resolve(stores, *sent), resolve(stores, *reversed(sent)))
    assert [each.uuid for each in one.events] == [each.uuid for each in sent]
    assert len({each.distinct_id for each in one.events}) == 250
    assert {each.distinct_id for each in one.events} == {each.distinct_id for each in other.events}


async def test_flags_see_the_same_visitor_as_events(stores: Stores) -> None:
    seen = await resolve_one(stores, event())
    visitor = Visitor(ip="203.0.113.7", host="https://example.com", user_agent="Firefox/140")
    found = await visitors(stores).find_distinct_id(DEFAULT_PROJECT, visitor, "Europe/Berlin", NOW)
    assert found == seen.distinct_id


async def test_salts_are_deleted_when_their_day_is_over(stores: Stores) -> None:
    process = visitors(stores)
    batch = CaptureBatch(token="", events=[event()])
    first = (await process.resolve(DEFAULT_PROJECT, batch, NOW)).events[0]

    async def count() -> list[int]:
        tables = (cookieless_salts, cookieless_visitors)
        return await stores.database.read(
            lambda connection: [
                connection.execute(select(func.count()).select_from(each)).scalar_one()
                for each in tables
            ]
        )

    await process.delete_expired(NOW + timedelta(hours=24))
    assert await count() == [1, 1]
    await process.delete_expired(NOW + timedelta(days=2))
    assert await count() == [0, 0]
    # The same visitor at the same time has another id: nobody can compute the first one again.
    second = (await process.resolve(DEFAULT_PROJECT, batch, NOW)).events[0]
    assert second.distinct_id != first.distinct_id


async def test_identify_without_a_profile_changes_nothing(stores: Stores) -> None:
    """posthog-js sends it if the visitor rejected cookies."""
    rejected = PAGE | {"$process_person_profile": False}
    sent = [event(number=1), event("$identify", "ann", rejected, number=2), event(number=3)]
    before, _, after = (await resolve(stores, *sent)).events
    assert after.distinct_id == before.distinct_id
