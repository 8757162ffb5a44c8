"""Groups: their types, their names on events, their properties."""

from datetime import timedelta
from typing import Any

import pytest

from tests.happenings import AT, group_identify, happening
from tests.unit.persons.world import World


def named(world: World, groups: Any) -> dict[str, Any]:
    properties = world.placed(happening(properties={"$groups": groups})).properties
    return {name: value for name, value in properties.items() if name.startswith("$group_")}


def test_groups_are_named_by_the_index_of_their_type() -> None:
    world = World()
    assert named(world, {"company": "acme", "team": 5}) == {"$group_0": "acme", "$group_1": "5"}
    assert named(world, {"team": "a"}) == {"$group_1": "a"}
    assert world.group_types == {"company": 0, "team": 1}
    assert world.groups == {}


def test_there_is_room_for_five_types() -> None:
    world = World()
    event = happening(properties={"$groups": {str(number): "x" for number in range(7)}})
    processed = world.apply(event, event)
    kinds = [warning.type for warning in processed.changes.warnings]
    assert kinds == ["group_type_limit_reached"] * 2
    assert sorted(world.group_types.values()) == [0, 1, 2, 3, 4]
    assert world.warned(group_identify("7", "x")) == ["group_type_limit_reached"]
    assert world.groups == {}


@pytest.mark.parametrize(
    "groups", ["company", ["company"], None, {"a": None}, {"a": {}}, {"": "x"}, {"a" * 401: "x"}]
)
def test_what_names_no_group_is_left(groups: Any) -> None:
    world = World()
    assert named(world, groups) == {}
    assert world.group_types == {}


def test_a_group_is_made_and_changed() -> None:
    world = World()
    world.apply(group_identify("company", "acme", a=1, b=1), group_identify("company", "acme", b=2))
    earlier = AT - timedelta(days=1)
    properties = group_identify("company", "acme", c=3).properties
    world.apply(happening("$groupidentify", "ann", properties, at=earlier))
    group = world.groups["company", "acme"]
    assert (group.properties, group.created_at) == ({"a": 1, "b": 2, "c": 3}, earlier)
    assert not world.apply(group_identify("company", "acme", b=2)).changes.groups


@pytest.mark.parametrize("to_set", ["a", 5, ["a"], True])
def test_an_event_whose_group_properties_are_no_object_is_dropped(to_set: Any) -> None:
    world = World()
    properties = {"$group_type": "company", "$group_key": "acme", "$group_set": to_set}
    processed = world.apply(happening("$groupidentify", "ann", properties))
    assert processed.placed == [None]
    assert [warning.type for warning in processed.changes.warnings] == ["invalid_group_set"]
    assert world == World()


def test_a_group_may_have_no_properties() -> None:
    world = World()
    properties = {"$group_type": "company", "$group_key": 7, "$group_set": None}
    world.apply(happening("$groupidentify", "ann", properties))
    assert world.groups["company", "7"].properties == {}


@pytest.mark.parametrize(
    ("kind", "key", "warning"),
    [
        (None, "a", "group_missing_type_or_key"),
        ("a", "", "group_missing_type_or_key"),
        ("a", {}, "group_missing_type_or_key"),
        ("a" * 401, "a", "group_key_too_long"),
        ("a", "a" * 401, "group_key_too_long"),
    ],
)
def test_what_cannot_be_a_group_is_told(kind: Any, key: Any, warning: str) -> None:
    world = World()
    processed = world.apply(group_identify(kind, key))
    assert [each.type for each in processed.changes.warnings] == [warning]
    assert processed.placed != [None]
    assert (world.groups, world.group_types) == ({}, {})
