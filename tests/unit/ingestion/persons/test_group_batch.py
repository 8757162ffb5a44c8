"""Groups: types, properties on events, group properties."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.support.factories import AT, captured_event, group_identify
from tests.unit.ingestion.persons.person_fixture import PersonFixture


def group_properties(fixture: PersonFixture, groups: Any) -> dict[str, Any]:
    event = fixture.process_last(captured_event(properties={"$groups": groups}))
    properties = json.loads(event.properties)
    return {name: value for name, value in properties.items() if name.startswith("$group_")}


def test_group_properties_have_the_index_of_their_type() -> None:
    fixture = PersonFixture()
    assert group_properties(fixture, {"company": "acme", "team": 5}) == {
        "$group_0": "acme",
        "$group_1": "5",
    }
    assert group_properties(fixture, {"team": "a"}) == {"$group_1": "a"}
    assert fixture.group_types == {"company": 0, "team": 1}
    assert fixture.groups == {}


def test_group_types_are_limited_to_five() -> None:
    fixture = PersonFixture()
    event = captured_event(properties={"$groups": {str(number): "x" for number in range(7)}})
    processed = fixture.apply(event, event)
    kinds = [warning.type for warning in processed.warnings]
    assert kinds == ["group_type_limit_reached"] * 2
    assert sorted(fixture.group_types.values()) == [0, 1, 2, 3, 4]
    assert fixture.warning_types(group_identify("7", "x")) == ["group_type_limit_reached"]
    assert fixture.groups == {}


@pytest.mark.parametrize(
    "groups", ["company", ["company"], None, {"a": None}, {"a": {}}, {"": "x"}, {"a" * 401: "x"}]
)
def test_invalid_groups_are_ignored(groups: Any) -> None:
    fixture = PersonFixture()
    assert group_properties(fixture, groups) == {}
    assert fixture.group_types == {}


def test_group_is_created_and_changed() -> None:
    fixture = PersonFixture()
    fixture.apply(
        group_identify("company", "acme", a=1, b=1), group_identify("company", "acme", b=2)
    )
    earlier = AT - timedelta(days=1)
    properties = group_identify("company", "acme", c=3).properties
    fixture.apply(captured_event("$groupidentify", "ann", properties, at=earlier))
    group = fixture.groups["company", "acme"]
    assert (group.properties, group.created_at) == ({"a": 1, "b": 2, "c": 3}, earlier)
    assert not fixture.apply(group_identify("company", "acme", b=2)).changes.groups


@pytest.mark.parametrize("to_set", ["a", 5, ["a"], True])
def test_event_with_invalid_group_properties_is_dropped(to_set: Any) -> None:
    fixture = PersonFixture()
    properties = {"$group_type": "company", "$group_key": "acme", "$group_set": to_set}
    processed = fixture.apply(captured_event("$groupidentify", "ann", properties))
    assert processed.events == [None]
    assert [warning.type for warning in processed.warnings] == ["invalid_group_set"]
    assert fixture == PersonFixture()


def test_group_may_have_no_properties() -> None:
    fixture = PersonFixture()
    properties = {"$group_type": "company", "$group_key": 7, "$group_set": None}
    fixture.apply(captured_event("$groupidentify", "ann", properties))
    assert fixture.groups["company", "7"].properties == {}


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
def test_invalid_group_causes_a_warning(kind: Any, key: Any, warning: str) -> None:
    fixture = PersonFixture()
    processed = fixture.apply(group_identify(kind, key))
    assert [each.type for each in processed.warnings] == [warning]
    assert processed.events != [None]
    assert (fixture.groups, fixture.group_types) == ({}, {})
