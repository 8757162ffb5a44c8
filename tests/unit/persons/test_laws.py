"""What holds for any events: batches do not matter, repeating does no harm, nothing is lost."""

import json
from copy import deepcopy
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.ingestion.model import Arrived
from tests.happenings import AT, happening
from tests.unit.generated import bounded
from tests.unit.persons.world import World

IDS = ["a", "b", "c", "d", "e", "null"]
# The second is noise, and the third is copied to the person.
NAMES = ["x", "$browser", "utm_source"]
ids = st.sampled_from(IDS)
small = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([1, 2, True, None]), max_size=3)


def properties(names: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "$set": names,
            "$set_once": names,
            "$unset": st.lists(st.sampled_from(NAMES), max_size=2),
            "$browser": st.sampled_from(["Firefox", "lynx"]),
            "$process_person_profile": st.sampled_from([False, True, "no"]),
            "$groups": st.dictionaries(st.sampled_from("pqrstuv"), ids, max_size=3),
            "$group_type": st.sampled_from("pqrstuv"),
            "$group_key": ids,
            "$group_set": st.one_of(small, st.just("no")),
            "$anon_distinct_id": ids,
            "alias": ids,
        },
    )


KINDS = [
    *("seen", "$set", "$exception", "$groupidentify"),
    *("$identify", "$create_alias", "$merge_dangerously"),
]
events = st.builds(
    happening,
    st.sampled_from(KINDS),
    ids,
    properties(small),
    at=st.sampled_from([AT, AT - timedelta(days=1), AT + timedelta(days=1)]),
)
batches = st.lists(events, max_size=8)
quiet_batches = st.lists(
    st.builds(
        happening,
        st.sampled_from(["seen", "$set", "$exception", "$groupidentify"]),
        ids,
        properties(st.dictionaries(st.just("x"), st.integers(0, 3))).map(
            lambda given: {name: given[name] for name in given if name != "$browser"}
        ),
    ),
    max_size=8,
)


@bounded
@given(batches, st.data())
def test_batches_do_not_matter(batch: list[Arrived], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(batch)))
    whole, parts = World(), World()
    at_once = whole.apply(*batch).placed
    in_parts = [*parts.apply(*batch[:cut]).placed, *parts.apply(*batch[cut:]).placed]
    assert at_once == in_parts
    assert whole.everything() == parts.everything()
    one_by_one = World()
    assert [one_by_one.apply(event).placed[0] for event in batch] == in_parts
    assert whole.everything() == one_by_one.everything()


@bounded
@given(quiet_batches)
def test_repeating_a_batch_without_merges_changes_nothing(batch: list[Arrived]) -> None:
    world = World()
    world.apply(*batch)
    before = deepcopy(world.everything())
    world.apply(*batch)
    assert world.everything() == before


@bounded
@given(batches)
def test_repeating_any_batch_leaves_everybody_who_they_are(batch: list[Arrived]) -> None:
    world = World()
    world.apply(*batch)
    before = world.ownership()
    world.apply(*batch)
    assert world.ownership() == before


@bounded
@given(batches, ids, ids)
def test_the_survivor_of_a_merge_loses_nothing(
    batch: list[Arrived], target: str, other: str
) -> None:
    world = World()
    world.apply(*batch)
    before = dict(world.person(target).properties) if target in world.owners else {}
    world.apply(happening("$merge_dangerously", target, {"alias": other}))
    after = world.person(target).properties
    assert {name: after.get(name) for name in before} == before


@bounded
@given(batches)
def test_everybody_who_has_a_profile_has_one(batch: list[Arrived]) -> None:
    """That an id never gets a second person, the world checks itself."""
    world = World()
    placed = world.apply(*batch).placed
    for event, place in zip(batch, placed, strict=True):
        if place is not None and place.mode != "propertyless":
            assert event.distinct_id in world.owners
    assert set(world.owners.values()) == world.persons.keys()


hostile_text = st.text(st.characters(), max_size=8)
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | hostile_text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(hostile_text | st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=8,
)
MEANT = ["$set", "$set_once", "$unset", "$groups", "$group_type", "$group_key", "$group_set"]
MEANT += ["$anon_distinct_id", "alias", "$process_person_profile", "$ip", "$geoip_disable", *NAMES]


@bounded
@given(
    st.lists(
        st.builds(
            happening,
            st.sampled_from(KINDS) | hostile_text,
            ids | hostile_text,
            st.dictionaries(st.sampled_from(MEANT) | hostile_text, anything, max_size=5),
        ),
        max_size=5,
    )
)
def test_nothing_that_an_event_holds_does_harm(batch: list[Arrived]) -> None:
    before = deepcopy(batch)
    world = World()
    for place in world.apply(*batch).placed:
        assert place is None or isinstance(json.loads(place.person_properties), dict)
    assert batch == before
    for person in world.persons.values():
        json.dumps(person.properties).encode()
