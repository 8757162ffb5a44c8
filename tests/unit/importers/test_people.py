"""Persons and groups of elsewhere as events of here."""

from typing import Any

from hedgerow.importers.people import (
    batches,
    group_event,
    person_events,
    with_group_numbers,
)

ANN: dict[str, Any] = {
    "id": "0190d1f5-0000-0000-7b1c-3f2a8f6e0001",
    "distinct_ids": ["ann", "null", "0190-anon", "ann"],
    "properties": {"email": "ann@example.com", "$creator_event_uuid": "0190"},
    "created_at": "2024-07-23T09:13:45.118000Z",
}


def told(person: dict[str, Any], *met: str) -> list[tuple[str, str, dict[str, Any]]]:
    events = person_events(person, set(met), "x")
    assert {event["timestamp"] for event in events} <= {ANN["created_at"]}
    assert all(event["properties"].pop("$geoip_disable") for event in events)
    assert all(event["properties"].pop("$lib") == "hedgerow-import" for event in events)
    return [(each["event"], each["distinct_id"], each["properties"]) for each in events]


def test_a_person_is_their_properties_and_their_ids() -> None:
    assert told(ANN) == [
        ("$set", "ann", {"$set": {"email": "ann@example.com"}}),
        ("$merge_dangerously", "ann", {"alias": "0190-anon"}),
    ]
    assert told({**ANN, "distinct_ids": ["null"]}) == []
    assert told({**ANN, "distinct_ids": ["b"], "properties": None}) == [("$set", "b", {})]


def test_who_was_met_here_is_known_better_here() -> None:
    for id, other in (("ann", "0190-anon"), ("0190-anon", "ann")):
        assert told(ANN, id) == [
            ("$set", id, {"$set_once": {"email": "ann@example.com"}}),
            ("$merge_dangerously", id, {"alias": other}),
        ]
    assert told(ANN, "ben") == told(ANN)


def test_what_says_the_same_has_the_same_uuid_and_nothing_else_has() -> None:
    def uuids(person: dict[str, Any], walk: str = "x") -> list[str]:
        return [event["uuid"] for event in person_events(person, set(), walk)]

    assert uuids(ANN) == uuids({**ANN, "properties": dict(reversed(ANN["properties"].items()))})
    changed = {**ANN, "properties": {"email": "new@example.com"}}
    assert uuids(changed)[0] != uuids(ANN)[0]
    assert uuids(changed)[1:] == uuids(ANN)[1:]
    # A later walk is heard also where it says what an earlier one said.
    assert set(uuids(ANN, "y")).isdisjoint(uuids(ANN))


def test_a_group_is_told_of_once_by_nobody_in_particular() -> None:
    group = {
        "group_type_index": 0,
        "group_key": "acme",
        "group_properties": {"size": 5},
        "created_at": "2024-07-23T09:13:45Z",
    }
    event = group_event(group, "company", "x")
    assert event is not None
    assert (event["event"], event["timestamp"]) == ("$groupidentify", "2024-07-23T09:13:45Z")
    properties = event["properties"]
    assert {name: properties[name] for name in ("$group_type", "$group_key", "$group_set")} == {
        "$group_type": "company",
        "$group_key": "acme",
        "$group_set": {"size": 5},
    }
    assert group_event({**group, "group_key": ""}, "company", "x") is None


def test_an_event_names_its_groups_by_the_numbers_of_here() -> None:
    named = {"$group_0": "acme", "$group_3": "x", "a": 1}
    assert with_group_numbers(named, {0: 1, 1: 0}) == {"$group_1": "acme", "a": 1}
    plain = {"a": 1}
    assert with_group_numbers(plain, {0: 1}) is plain


def test_events_are_sent_in_portions_of_some_and_of_some_bytes() -> None:
    events = [{"event": "x" * n} for n in (1, 1, 1, 50, 50, 200)]
    sizes = [len(batch) for batch in batches(events, 3, 100)]
    assert sizes == [3, 1, 1, 1]
    assert [event for batch in batches(events, 3, 100) for event in batch] == events
