"""The person of an event: resolution, identify, alias, merges."""

import json
from datetime import timedelta

import pytest

from hedgerow.ingestion.persons.loaded_state import person_uuid
from hedgerow.lib.dates import EPOCH
from tests.support.factories import AT, alias, captured_event, group_identify, identify, setting
from tests.unit.ingestion.persons.person_fixture import PROJECT, PersonFixture, fixture_with

OFF = {"$process_person_profile": False}


def test_unknown_distinct_id_creates_a_person() -> None:
    fixture = PersonFixture()
    event = captured_event("seen", "ann", {"$set": {"a": 1, "b": 1}, "$set_once": {"b": 2, "c": 2}})
    result = fixture.process_last(event)
    person = fixture.person("ann")
    assert person.uuid == result.person_id == person_uuid(PROJECT, "ann")
    assert person.created_at == result.person_created_at == AT
    assert person.properties == {"a": 1, "b": 1, "c": 2, "$creator_event_uuid": event.uuid}
    assert json.loads(result.person_properties) == person.properties
    assert (person.is_identified, result.person_mode) == (False, "full")


def test_person_uuids_match_posthog() -> None:
    assert person_uuid(PROJECT, "ann") == "fe27503b-3771-5a01-819d-96bf829dfb35"


def test_person_is_found_by_any_distinct_id() -> None:
    fixture = fixture_with(ann={})
    fixture.apply(identify("ann", "anon"))
    assert fixture.process_last(captured_event(distinct_id="anon")).person_id == "uuid of ann"


def test_personless_event_creates_no_person() -> None:
    fixture = PersonFixture()
    properties = {**OFF, "$set": {"a": 1}, "$set_once": {"b": 1}, "$unset": ["c"], "$group_0": "x"}
    result = fixture.process_last(
        captured_event(properties={**properties, "$groups": {"company": "acme"}})
    )
    assert json.loads(result.properties) == {**OFF, "$groups": {"company": "acme"}}
    assert result.person_id == person_uuid(PROJECT, "ann")
    assert (result.person_properties, result.person_mode) == ("{}", "propertyless")
    assert result.person_created_at == EPOCH
    assert fixture == PersonFixture()


def test_personless_event_of_an_existing_person_is_upgraded() -> None:
    fixture = fixture_with(ann={"a": 1})
    result = fixture.process_last(captured_event(properties={**OFF, "$set": {"a": 2}}))
    assert (result.person_id, result.person_mode) == ("uuid of ann", "force_upgrade")
    assert result.person_properties == '{"a":1}'
    assert json.loads(result.properties) == OFF
    assert fixture.properties("ann") == {"a": 1}


@pytest.mark.parametrize("name", ["$identify", "$create_alias", "$merge_dangerously"])
def test_person_events_without_a_profile_are_dropped(name: str) -> None:
    fixture = PersonFixture()
    event = captured_event(name, "ann", {**OFF, "alias": "anon", "$anon_distinct_id": "anon"})
    processed = fixture.apply(event)
    [warning] = processed.warnings
    assert processed.events == [None]
    assert warning.type == "invalid_event_when_process_person_profile_is_false"
    assert (warning.event, warning.uuid, warning.distinct_id) == (name, event.uuid, "ann")
    assert fixture == PersonFixture()


def test_group_events_without_a_profile_are_dropped() -> None:
    fixture = PersonFixture()
    event = captured_event("$groupidentify", "ann", {**OFF, "$group_type": "a", "$group_key": "b"})
    assert fixture.apply(event).events == [None]
    assert fixture == PersonFixture()


@pytest.mark.parametrize("value", ["false", 0, None, [], "true"])
def test_process_person_profile_must_be_boolean(value: object) -> None:
    fixture = PersonFixture()
    warnings = fixture.warning_types(captured_event(properties={"$process_person_profile": value}))
    assert warnings == ["invalid_process_person_profile"]
    assert fixture.ids("ann") == {"ann"}


def test_identify_of_two_unknown_ids_creates_one_person() -> None:
    fixture = PersonFixture()
    result = fixture.process_last(identify("ann", "anon", a=1))
    assert fixture.ids("ann") == {"ann", "anon"}
    assert fixture.person("ann").uuid == result.person_id == person_uuid(PROJECT, "ann")
    assert fixture.person("ann").is_identified
    assert fixture.properties("ann") == {"a": 1}


@pytest.mark.parametrize("known", ["ann", "anon"])
def test_identify_adds_an_unknown_id_to_the_person(known: str) -> None:
    fixture = fixture_with(**{known: {"a": 1}})
    result = fixture.process_last(identify("ann", "anon", b=2))
    assert fixture.ids("ann") == {"ann", "anon"}
    assert result.person_id == f"uuid of {known}"
    assert fixture.person("ann").is_identified
    assert fixture.properties("anon") == {"a": 1, "b": 2}


def test_identify_merges_two_persons() -> None:
    fixture = fixture_with(anon={"a": 1, "b": 1, "c": 1}, ann={"b": 2, "c": 2})
    fixture.apply(identify("ann", "anon", c=3))
    assert fixture.properties("anon") == {"a": 1, "b": 2, "c": 3}
    assert fixture.ids("ann") == {"ann", "anon"}
    assert len(fixture.persons) == 1


def test_merged_person_has_the_earlier_creation_time() -> None:
    fixture = PersonFixture()
    earlier = AT - timedelta(days=3)
    fixture.apply(captured_event(distinct_id="ann"), captured_event(distinct_id="anon", at=earlier))
    assert fixture.process_last(identify("ann", "anon")).person_created_at == earlier
    assert fixture.person("ann").created_at == earlier


@pytest.mark.parametrize("event", ["$identify", "$create_alias"])
def test_identified_persons_are_not_merged(event: str) -> None:
    fixture = fixture_with(ann={"a": 1}, ben={})
    fixture.apply(identify("ann", "x"))
    merge = captured_event(
        event, "ben", {"$anon_distinct_id": "ann", "alias": "ann", "$set": {"b": 2}}
    )
    assert fixture.warning_types(merge) == ["cannot_merge_already_identified"]
    assert fixture.ids("ben") == {"ben"}
    assert fixture.properties("ben") == {"b": 2}
    assert fixture.person("ben").is_identified


def test_merge_dangerously_merges_identified_persons() -> None:
    fixture = fixture_with(ann={"a": 1}, ben={"b": 1})
    fixture.apply(identify("ann", "x"))
    assert fixture.warning_types(alias("ben", "ann", "$merge_dangerously")) == []
    assert fixture.ids("ben") == {"ann", "ben", "x"}
    assert fixture.properties("x") == {"a": 1, "b": 1}


def test_identify_alone_is_an_update() -> None:
    fixture = fixture_with(ann={})
    assert fixture.warning_types(captured_event("$identify", properties={"$set": {"a": 1}})) == []
    assert fixture.properties("ann") == {"a": 1}
    assert not fixture.person("ann").is_identified


def test_id_is_not_merged_with_itself() -> None:
    fixture = fixture_with(ann={})
    assert fixture.warning_types(identify("ann", "ann")) == []
    assert not fixture.person("ann").is_identified


def test_repeated_merge_changes_nothing() -> None:
    fixture = fixture_with(ann={})
    fixture.apply(identify("ann", "anon"))
    before = fixture.snapshot()
    processed = fixture.apply(identify("ann", "anon"), alias("anon", "ann"))
    assert not processed.changes.persons
    assert fixture.snapshot() == before


@pytest.mark.parametrize(
    "id",
    [
        *("anonymous", "Guest", "DISTINCTID", "distinct_id", "id", "not_authenticated", "email"),
        *("undefined", "True", "false", "[object Object]", "NaN", "None", "none", "null", "0"),
        *('"null"', "'Anonymous'", "", "  ", '""', None, True, 0),
    ],
)
def test_persons_are_not_merged_by_blocked_ids(id: object) -> None:
    fixture = fixture_with(ann={})
    warnings = fixture.warning_types(identify("ann", id, a=1))
    assert warnings == ["cannot_merge_with_illegal_distinct_id"]
    assert fixture.ids("ann") == {"ann"}
    assert fixture.properties("ann") == {"a": 1}
    assert not fixture.person("ann").is_identified


@pytest.mark.parametrize("id", ["NULL", "nan", "[OBJECT OBJECT]", "00", "ann'", "ids", "'", 5, [1]])
def test_other_ids_are_not_blocked(id: object) -> None:
    fixture = fixture_with(ann={})
    assert fixture.warning_types(identify("ann", id)) == []
    assert len(fixture.ids("ann")) == 2


def test_event_of_a_blocked_id_has_its_own_person() -> None:
    fixture = PersonFixture()
    assert fixture.warning_types(identify("null", "anon")) == [
        "cannot_merge_with_illegal_distinct_id"
    ]
    assert fixture.ids("null") == {"null"}


def test_long_ids_are_truncated() -> None:
    fixture = PersonFixture()
    fixture.apply(identify("ann", "x" * 201))
    assert fixture.ids("ann") == {"ann", "x" * 200}


def test_events_before_a_merge_keep_their_person() -> None:
    """A person merged in the same batch is never stored, but its events have its uuid."""
    fixture = PersonFixture()
    processed = fixture.apply(setting("anon", a=1), setting("ann", b=2), identify("ann", "anon"))
    uuids = [result.person_id for result in processed.events if result]
    anon, ann = person_uuid(PROJECT, "anon"), person_uuid(PROJECT, "ann")
    assert uuids == [anon, ann, ann]
    assert [each.uuid for each in processed.changes.persons] == [ann]
    assert fixture.properties("anon") == {"a": 1, "b": 2}


def test_order_of_merged_persons_is_kept() -> None:
    """Unique values are kept in this order: the survivor's, then the earliest merge."""
    fixture = fixture_with(a={}, b={}, c={}, d={})
    dangerous = "$merge_dangerously"
    processed = fixture.apply(
        alias("b", "a", dangerous), alias("d", "c", dangerous), alias("d", "b", dangerous)
    )
    [change] = processed.changes.persons
    assert list(change.absorbs) == [3, 2, 1]


def test_group_event_has_a_person() -> None:
    fixture = PersonFixture()
    assert fixture.process_last(group_identify("company", "acme")).person_id
    assert fixture.ids("ann") == {"ann"}
