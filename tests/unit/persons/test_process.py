"""Who an event is of: resolution, identify, alias, merges."""

import json
from datetime import timedelta

import pytest

from hedgerow.persons.changes import NEVER
from hedgerow.persons.known import person_uuid
from tests.happenings import AT, alias, group_identify, happening, identify, setting
from tests.unit.persons.world import PROJECT, World, world_of

OFF = {"$process_person_profile": False}


def test_a_stranger_becomes_a_person() -> None:
    world = World()
    event = happening("seen", "ann", {"$set": {"a": 1, "b": 1}, "$set_once": {"b": 2, "c": 2}})
    placed = world.placed(event)
    person = world.person("ann")
    assert person.uuid == placed.person_uuid == person_uuid(PROJECT, "ann")
    assert person.created_at == placed.person_created_at == AT
    assert person.properties == {"a": 1, "b": 1, "c": 2, "$creator_event_uuid": event.uuid}
    assert json.loads(placed.person_properties) == person.properties
    assert (person.is_identified, placed.mode) == (False, "full")


def test_person_ids_are_those_of_posthog() -> None:
    assert person_uuid(PROJECT, "ann") == "fe27503b-3771-5a01-819d-96bf829dfb35"


def test_a_known_person_is_found_by_any_of_their_ids() -> None:
    world = world_of(ann={})
    world.apply(identify("ann", "anon"))
    assert world.placed(happening(distinct_id="anon")).person_uuid == "uuid of ann"


def test_an_event_without_a_profile_makes_nobody() -> None:
    world = World()
    properties = {**OFF, "$set": {"a": 1}, "$set_once": {"b": 1}, "$unset": ["c"], "$group_0": "x"}
    placed = world.placed(happening(properties={**properties, "$groups": {"company": "acme"}}))
    assert placed.properties == {**OFF, "$groups": {"company": "acme"}}
    assert placed.person_uuid == person_uuid(PROJECT, "ann")
    assert (placed.person_properties, placed.mode) == ("{}", "propertyless")
    assert placed.person_created_at == NEVER
    assert world == World()


def test_an_event_without_a_profile_is_of_the_person_who_is_there() -> None:
    world = world_of(ann={"a": 1})
    placed = world.placed(happening(properties={**OFF, "$set": {"a": 2}}))
    assert (placed.person_uuid, placed.mode) == ("uuid of ann", "force_upgrade")
    assert placed.person_properties == '{"a":1}'
    assert placed.properties == OFF
    assert world.properties("ann") == {"a": 1}


@pytest.mark.parametrize("name", ["$identify", "$create_alias", "$merge_dangerously"])
def test_what_is_about_persons_is_dropped_without_a_profile(name: str) -> None:
    world = World()
    event = happening(name, "ann", {**OFF, "alias": "anon", "$anon_distinct_id": "anon"})
    processed = world.apply(event)
    [warning] = processed.changes.warnings
    assert processed.placed == [None]
    assert warning.type == "invalid_event_when_process_person_profile_is_false"
    assert (warning.event, warning.uuid, warning.distinct_id) == (name, event.uuid, "ann")
    assert world == World()


def test_a_group_is_dropped_without_a_profile() -> None:
    world = World()
    event = happening("$groupidentify", "ann", {**OFF, "$group_type": "a", "$group_key": "b"})
    assert world.apply(event).placed == [None]
    assert world == World()


@pytest.mark.parametrize("value", ["false", 0, None, [], "true"])
def test_only_a_boolean_turns_profiles_off(value: object) -> None:
    world = World()
    warned = world.warned(happening(properties={"$process_person_profile": value}))
    assert warned == ["invalid_process_person_profile"]
    assert world.ids("ann") == {"ann"}


def test_identify_with_two_strangers_makes_one_person() -> None:
    world = World()
    placed = world.placed(identify("ann", "anon", a=1))
    assert world.ids("ann") == {"ann", "anon"}
    assert world.person("ann").uuid == placed.person_uuid == person_uuid(PROJECT, "ann")
    assert world.person("ann").is_identified
    assert world.properties("ann") == {"a": 1}


@pytest.mark.parametrize("known", ["ann", "anon"])
def test_identify_with_one_stranger_gives_them_the_other_id(known: str) -> None:
    world = world_of(**{known: {"a": 1}})
    placed = world.placed(identify("ann", "anon", b=2))
    assert world.ids("ann") == {"ann", "anon"}
    assert placed.person_uuid == f"uuid of {known}"
    assert world.person("ann").is_identified
    assert world.properties("anon") == {"a": 1, "b": 2}


def test_identify_makes_one_of_two() -> None:
    world = world_of(anon={"a": 1, "b": 1, "c": 1}, ann={"b": 2, "c": 2})
    world.apply(identify("ann", "anon", c=3))
    assert world.properties("anon") == {"a": 1, "b": 2, "c": 3}
    assert world.ids("ann") == {"ann", "anon"}
    assert len(world.persons) == 1


def test_the_one_who_is_left_is_as_old_as_the_older() -> None:
    world = World()
    earlier = AT - timedelta(days=3)
    world.apply(happening(distinct_id="ann"), happening(distinct_id="anon", at=earlier))
    assert world.placed(identify("ann", "anon")).person_created_at == earlier
    assert world.person("ann").created_at == earlier


@pytest.mark.parametrize("event", ["$identify", "$create_alias"])
def test_who_is_identified_stays_apart(event: str) -> None:
    world = world_of(ann={"a": 1}, ben={})
    world.apply(identify("ann", "x"))
    merge = happening(event, "ben", {"$anon_distinct_id": "ann", "alias": "ann", "$set": {"b": 2}})
    assert world.warned(merge) == ["cannot_merge_already_identified"]
    assert world.ids("ben") == {"ben"}
    assert world.properties("ben") == {"b": 2}
    assert world.person("ben").is_identified


def test_unless_it_is_meant() -> None:
    world = world_of(ann={"a": 1}, ben={"b": 1})
    world.apply(identify("ann", "x"))
    assert world.warned(alias("ben", "ann", "$merge_dangerously")) == []
    assert world.ids("ben") == {"ann", "ben", "x"}
    assert world.properties("x") == {"a": 1, "b": 1}


def test_identify_alone_is_an_update() -> None:
    world = world_of(ann={})
    assert world.warned(happening("$identify", properties={"$set": {"a": 1}})) == []
    assert world.properties("ann") == {"a": 1}
    assert not world.person("ann").is_identified


def test_an_id_is_not_merged_with_itself() -> None:
    world = world_of(ann={})
    assert world.warned(identify("ann", "ann")) == []
    assert not world.person("ann").is_identified


def test_those_who_are_one_already_stay_so() -> None:
    world = world_of(ann={})
    world.apply(identify("ann", "anon"))
    before = world.everything()
    processed = world.apply(identify("ann", "anon"), alias("anon", "ann"))
    assert not processed.changes.persons
    assert world.everything() == before


@pytest.mark.parametrize(
    "id",
    [
        *("anonymous", "Guest", "DISTINCTID", "distinct_id", "id", "not_authenticated", "email"),
        *("undefined", "True", "false", "[object Object]", "NaN", "None", "none", "null", "0"),
        *('"null"', "'Anonymous'", "", "  ", '""', None, True, 0),
    ],
)
def test_nobody_is_merged_by_an_id_that_is_nobodys(id: object) -> None:
    world = world_of(ann={})
    warned = world.warned(identify("ann", id, a=1))
    assert warned == ["cannot_merge_with_illegal_distinct_id"]
    assert world.ids("ann") == {"ann"}
    assert world.properties("ann") == {"a": 1}
    assert not world.person("ann").is_identified


@pytest.mark.parametrize("id", ["NULL", "nan", "[OBJECT OBJECT]", "00", "ann'", "ids", "'", 5, [1]])
def test_others_are_somebody(id: object) -> None:
    world = world_of(ann={})
    assert world.warned(identify("ann", id)) == []
    assert len(world.ids("ann")) == 2


def test_an_event_of_an_illegal_id_is_kept_with_a_person_of_its_own() -> None:
    world = World()
    assert world.warned(identify("null", "anon")) == ["cannot_merge_with_illegal_distinct_id"]
    assert world.ids("null") == {"null"}


def test_long_ids_are_cut_as_they_are_elsewhere() -> None:
    world = World()
    world.apply(identify("ann", "x" * 201))
    assert world.ids("ann") == {"ann", "x" * 200}


def test_events_keep_the_person_they_had() -> None:
    """One who is merged in the same batch is never stored, and told all the same."""
    world = World()
    processed = world.apply(setting("anon", a=1), setting("ann", b=2), identify("ann", "anon"))
    uuids = [placed.person_uuid for placed in processed.placed if placed]
    anon, ann = person_uuid(PROJECT, "anon"), person_uuid(PROJECT, "ann")
    assert uuids == [anon, ann, ann]
    assert [each.uuid for each in processed.changes.persons] == [ann]
    assert world.properties("anon") == {"a": 1, "b": 2}


def test_the_order_of_merged_persons_is_kept() -> None:
    """What only one of them can have goes by it: their own, then who came first."""
    world = world_of(a={}, b={}, c={}, d={})
    dangerous = "$merge_dangerously"
    processed = world.apply(
        alias("b", "a", dangerous), alias("d", "c", dangerous), alias("d", "b", dangerous)
    )
    [change] = processed.changes.persons
    assert list(change.absorbs) == [3, 2, 1]


def test_a_group_event_has_a_person_too() -> None:
    world = World()
    assert world.placed(group_identify("company", "acme")).person_uuid
    assert world.ids("ann") == {"ann"}
