"""What events write of a person: set, set once, unset, noise, size."""

import json
from typing import Any

import pytest

from hedgerow.persons.updates import MAX_BYTES, TRIMMED_BYTES
from tests.happenings import happening, identify, setting
from tests.unit.persons.world import World, world_of


def written(before: dict[str, Any], properties: dict[str, Any], event: str = "seen") -> Any:
    """The person's properties after the event, None when nothing is written."""
    world = world_of(ann=before)
    processed = world.apply(happening(event, "ann", properties))
    return world.properties("ann") if processed.changes.persons else None


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
def test_order_and_difference(before: Any, properties: Any, after: Any) -> None:
    assert written(before, properties) == after


def test_noise_alone_is_not_worth_a_write() -> None:
    before = {"$current_url": "/a", "$initial_current_url": "/a", "plan": "free"}
    noise = {"$current_url": "/b"}
    assert written(before, noise) is None
    assert written(before, {**noise, "$set": {"plan": "pro"}}) == {
        "$current_url": "/b",
        "$initial_current_url": "/a",
        "plan": "pro",
    }


def test_noise_that_is_new_is_written() -> None:
    assert written({"$initial_os": "Linux"}, {"$os": "Linux"}) is not None
    assert written({}, {"$set_once": {"$os": "Linux"}}) is None


@pytest.mark.parametrize("event", ["$identify", "$create_alias", "$merge_dangerously", "$set"])
def test_events_about_persons_write_noise(event: str) -> None:
    before = {"$os": "Linux"}
    assert written(before, {"$set": {"$os": "Plan 9"}}, event) == {"$os": "Plan 9"}
    assert written(before, {"$set": {"$os": "Linux"}}, event) is None


@pytest.mark.parametrize("event", ["$exception", "$$heatmap"])
def test_some_events_never_write(event: str) -> None:
    properties = {"$set": {"a": 2}, "$set_once": {"b": 2}, "$unset": ["a"]}
    assert written({"a": 1}, properties, event) is None


def test_the_event_shows_the_person_with_what_it_says_itself() -> None:
    world = world_of(ann={"a": 1, "$os": "Linux", "$initial_os": "Linux"})
    placed = world.placed(happening(properties={"$os": "Plan 9"}))
    assert json.loads(placed.person_properties) == {
        "a": 1,
        "$os": "Plan 9",
        "$initial_os": "Linux",
    }
    placed = world.placed(happening("$exception", properties={"$set": {"a": 2}}))
    assert json.loads(placed.person_properties)["a"] == 2
    assert world.properties("ann")["a"] == 1


def test_too_much_is_trimmed_largest_first() -> None:
    world = World()
    sizes = {"a": 200_000, "email": 300_000, "b": 100_000, "$initial_x": 60_000, "utm_y": 1}
    world.apply(setting("ann", **{name: "x" * size for name, size in sizes.items()}))
    before = world.properties("ann")
    assert before.keys() == {"email", "b", "$initial_x", "utm_y"}
    assert len(json.dumps(before)) <= TRIMMED_BYTES
    [warning] = world.apply(setting("ann", c="x" * 300_000)).changes.warnings
    assert warning.type == "person_properties_size_violation"
    assert "c" in warning.detail
    assert world.properties("ann") == before


def test_what_identifies_a_person_stays_however_large() -> None:
    world = World()
    world.apply(setting("ann", email="x" * MAX_BYTES, a=1))
    assert world.properties("ann").keys() == {"email"}


def test_merged_persons_are_trimmed_too() -> None:
    world = world_of(ann={"a": "x" * 400_000}, anon={"b": "x" * 400_001})
    assert world.warned(identify("ann", "anon")) == ["person_properties_size_violation"]
    assert world.properties("ann").keys() == {"a"}


def test_what_cannot_be_stored_is_replaced_once() -> None:
    world = world_of(ann={})
    event = setting("ann", **{"a\x00": ["\ud800", {"b\x00": "c\x00"}]})
    world.apply(event)
    assert world.properties("ann") == {"a\ufffd": ["\ufffd", {"b\ufffd": "c\ufffd"}]}
    assert not world.apply(event).changes.persons
