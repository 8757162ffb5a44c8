"""Updates of person properties: set, set once, unset, volatile properties, size."""

import json
from typing import Any

import pytest

from hedgerow.ingestion.persons.property_updates import (
    MAX_PROPERTIES_BYTES,
    TRIMMED_PROPERTIES_BYTES,
)
from tests.support.factories import captured_event, identify, setting
from tests.unit.ingestion.persons.person_fixture import PersonFixture, fixture_with


def written(before: dict[str, Any], properties: dict[str, Any], event: str = "seen") -> Any:
    """Return the person's properties after the event, None if nothing is written."""
    fixture = fixture_with(ann=before)
    processed = fixture.apply(captured_event(event, "ann", properties))
    return fixture.properties("ann") if processed.changes.persons else None


@pytest.mark.parametrize(
    ("before", "properties", "after"),
    [
        ({}, {"$set": {"a": 1}}, {"a": 1}),
        ({"a": 1}, {"$set": {"a": 2}}, {"a": 2}),
        ({"a": 1}, {"$set": {"a": 1}}, None),
        ({"a": 1}, {"$set": {"a": 1.0}}, None),
        ({"a": 1}, {"$set": {"a": True}}, {"a": True}),
        ({"a": [1]}, {"$set": {"a": [True]}}, {"a": [True]}),
        ({"a": {"b": [1]}}, {"$set": {"a": {"b": [1]}}}, None),
        ({}, {"$set": {"a": None}}, {"a": None}),
        ({"a": None}, {"$set_once": {"a": 1}}, None),
        ({}, {"$set_once": {"a": 1}}, {"a": 1}),
        ({}, {"$set_once": {"a": 1}, "$set": {"a": 2}}, {"a": 2}),
        ({"a": 1}, {"$unset": ["a"]}, {}),
        ({"a": 1}, {"$unset": {"a": ""}}, {}),
        ({"a": 1}, {"$unset": ["b", 5, None, ["a"]]}, None),
        ({"a": 1}, {"$unset": "a"}, None),
        ({"a": 1}, {"$set": {"a": 2, "b": 2}, "$unset": ["a", "b"]}, {}),
        ({}, {"$set": {"b": 2}, "$unset": ["b"]}, None),
        ({}, {"$set": "a", "$set_once": ["b"], "$unset": 5}, None),
    ],
)
def test_set_set_once_and_unset_are_applied_in_order(
    before: Any, properties: Any, after: Any
) -> None:
    assert written(before, properties) == after


def test_changed_volatile_properties_alone_are_not_written() -> None:
    before = {"$current_url": "/a", "$initial_current_url": "/a", "plan": "free"}
    volatile = {"$current_url": "/b"}
    assert written(before, volatile) is None
    assert written(before, {**volatile, "$set": {"plan": "pro"}}) == {
        "$current_url": "/b",
        "$initial_current_url": "/a",
        "plan": "pro",
    }


def test_new_volatile_properties_are_written() -> None:
    assert written({"$initial_os": "Linux"}, {"$os": "Linux"}) is not None
    assert written({}, {"$set_once": {"$os": "Linux"}}) is None


@pytest.mark.parametrize("event", ["$identify", "$create_alias", "$merge_dangerously", "$set"])
def test_person_events_write_volatile_properties(event: str) -> None:
    before = {"$os": "Linux"}
    assert written(before, {"$set": {"$os": "Plan 9"}}, event) == {"$os": "Plan 9"}
    assert written(before, {"$set": {"$os": "Linux"}}, event) is None


@pytest.mark.parametrize("event", ["$exception", "$$heatmap"])
def test_some_events_never_write(event: str) -> None:
    properties = {"$set": {"a": 2}, "$set_once": {"b": 2}, "$unset": ["a"]}
    assert written({"a": 1}, properties, event) is None


def test_event_has_the_person_properties_with_its_own_changes() -> None:
    fixture = fixture_with(ann={"a": 1, "$os": "Linux", "$initial_os": "Linux"})
    result = fixture.process_last(captured_event(properties={"$os": "Plan 9"}))
    assert json.loads(result.person_properties) == {
        "a": 1,
        "$os": "Plan 9",
        "$initial_os": "Linux",
    }
    result = fixture.process_last(captured_event("$exception", properties={"$set": {"a": 2}}))
    assert json.loads(result.person_properties)["a"] == 2
    assert fixture.properties("ann")["a"] == 1


def test_largest_properties_are_trimmed_first() -> None:
    fixture = PersonFixture()
    sizes = {"a": 200_000, "email": 300_000, "b": 100_000, "$initial_x": 60_000, "utm_y": 1}
    fixture.apply(setting("ann", **{name: "x" * size for name, size in sizes.items()}))
    before = fixture.properties("ann")
    assert before.keys() == {"email", "b", "$initial_x", "utm_y"}
    assert len(json.dumps(before)) <= TRIMMED_PROPERTIES_BYTES
    [warning] = fixture.apply(setting("ann", c="x" * 300_000)).warnings
    assert warning.type == "person_properties_size_violation"
    assert "c" in warning.detail
    assert fixture.properties("ann") == before


def test_identifying_properties_are_never_trimmed() -> None:
    fixture = PersonFixture()
    fixture.apply(setting("ann", email="x" * MAX_PROPERTIES_BYTES, a=1))
    assert fixture.properties("ann").keys() == {"email"}


def test_merged_persons_are_trimmed_too() -> None:
    fixture = fixture_with(ann={"a": "x" * 400_000}, anon={"b": "x" * 400_001})
    assert fixture.warning_types(identify("ann", "anon")) == ["person_properties_size_violation"]
    assert fixture.properties("ann").keys() == {"a"}


def test_unstorable_characters_are_replaced_once() -> None:
    fixture = fixture_with(ann={})
    event = setting("ann", **{"a\x00": ["\ud800", {"b\x00": "c\x00"}]})
    fixture.apply(event)
    assert fixture.properties("ann") == {"a\ufffd": ["\ufffd", {"b\ufffd": "c\ufffd"}]}
    assert not fixture.apply(event).changes.persons
