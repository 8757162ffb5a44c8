"""Events that recreate persons and groups of a source."""

from typing import Any

from hedgerow.importers.person_events import (
    build_group_event,
    build_person_events,
    split_batches,
    translate_group_properties,
)

ANN: dict[str, Any] = {
    "id": "0190d1f5-0000-0000-7b1c-3f2a8f6e0001",
    "distinct_ids": ["ann", "null", "0190-anon", "ann"],
    "properties": {"email": "ann@example.com", "$creator_event_uuid": "0190"},
    "created_at": "2024-07-23T09:13:45.118000Z",
}


def build(person: dict[str, Any], *met: str) -> list[tuple[str, str, dict[str, Any]]]:
    events = build_person_events(person, set(met), "x")
    assert {event["timestamp"] for event in events} <= {ANN["created_at"]}
    assert all(event["properties"].pop("$geoip_disable") for event in events)
    assert all(event["properties"].pop("$lib") == "hedgerow-import" for event in events)
    return [(each["event"], each["distinct_id"], each["properties"]) for each in events]


def test_person_becomes_properties_and_merges() -> None:
    assert build(ANN) == [
        ("$set", "ann", {"$set": {"email": "ann@example.com"}}),
        ("$merge_dangerously", "ann", {"alias": "0190-anon"}),
    ]
    assert build({**ANN, "distinct_ids": ["null"]}) == []
    assert build({**ANN, "distinct_ids": ["b"], "properties": None}) == [("$set", "b", {})]


def test_known_person_keeps_properties() -> None:
    for id, other in (("ann", "0190-anon"), ("0190-anon", "ann")):
        assert build(ANN, id) == [
            ("$set", id, {"$set_once": {"email": "ann@example.com"}}),
            ("$merge_dangerously", id, {"alias": other}),
        ]
    assert build(ANN, "ben") == build(ANN)


def test_uuid_depends_on_the_content_and_the_run() -> None:
    def uuids(person: dict[str, Any], walk: str = "x") -> list[str]:
        return [event["uuid"] for event in build_person_events(person, set(), walk)]

    assert uuids(ANN) == uuids({**ANN, "properties": dict(reversed(ANN["properties"].items()))})
    changed = {**ANN, "properties": {"email": "new@example.com"}}
    assert uuids(changed)[0] != uuids(ANN)[0]
    assert uuids(changed)[1:] == uuids(ANN)[1:]
    # A later walk has other uuids, so that it overrides an earlier one.
    assert set(uuids(ANN, "y")).isdisjoint(uuids(ANN))


def test_group_becomes_one_event_of_the_group_sender() -> None:
    group = {
        "group_type_index": 0,
        "group_key": "acme",
        "group_properties": {"size": 5},
        "created_at": "2024-07-23T09:13:45Z",
    }
    event = build_group_event(group, "company", "x")
    assert event is not None
    assert (event["event"], event["timestamp"]) == ("$groupidentify", "2024-07-23T09:13:45Z")
    properties = event["properties"]
    assert {name: properties[name] for name in ("$group_type", "$group_key", "$group_set")} == {
        "$group_type": "company",
        "$group_key": "acme",
        "$group_set": {"size": 5},
    }
    assert build_group_event({**group, "group_key": ""}, "company", "x") is None


def test_group_properties_get_the_indexes_of_the_target() -> None:
    named = {"$group_0": "acme", "$group_3": "x", "a": 1}
    assert translate_group_properties(named, {0: 1, 1: 0}) == {"$group_1": "acme", "a": 1}
    plain = {"a": 1}
    assert translate_group_properties(plain, {0: 1}) is plain


def test_batches_are_limited_in_events_and_bytes() -> None:
    events = [{"event": "x" * n} for n in (1, 1, 1, 50, 50, 200)]
    sizes = [len(batch) for batch in split_batches(events, 3, 100)]
    assert sizes == [3, 1, 1, 1]
    assert [event for batch in split_batches(events, 3, 100) for event in batch] == events
