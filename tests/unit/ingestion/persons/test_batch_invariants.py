"""Invariants of batch processing: independence of batch boundaries, idempotence, no data loss."""

import json
from copy import deepcopy
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.ingestion.model import CapturedEvent
from tests.support.factories import AT, captured_event
from tests.unit.generated import bounded
from tests.unit.ingestion.persons.person_fixture import PersonFixture

IDS = ["a", "b", "c", "d", "e", "null"]
# The second is volatile, and the third is copied to the person.
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
    captured_event,
    st.sampled_from(KINDS),
    ids,
    properties(small),
    at=st.sampled_from([AT, AT - timedelta(days=1), AT + timedelta(days=1)]),
)
batches = st.lists(events, max_size=8)
quiet_batches = st.lists(
    st.builds(
        captured_event,
        st.sampled_from(["seen", "$set", "$exception", "$groupidentify"]),
        ids,
        properties(st.dictionaries(st.just("x"), st.integers(0, 3))).map(
            lambda sent: {name: sent[name] for name in sent if name != "$browser"}
        ),
    ),
    max_size=8,
)


@bounded
@given(batches, st.data())
def test_results_are_independent_of_batch_boundaries(
    batch: list[CapturedEvent], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(batch)))
    whole, parts = PersonFixture(), PersonFixture()
    whole_results = whole.apply(*batch).events
    part_results = [*parts.apply(*batch[:cut]).events, *parts.apply(*batch[cut:]).events]
    assert whole_results == part_results
    assert whole.snapshot() == parts.snapshot()
    one_by_one = PersonFixture()
    assert [one_by_one.apply(event).events[0] for event in batch] == part_results
    assert whole.snapshot() == one_by_one.snapshot()


@bounded
@given(quiet_batches)
def test_repeating_a_batch_without_merges_changes_nothing(batch: list[CapturedEvent]) -> None:
    fixture = PersonFixture()
    fixture.apply(*batch)
    before = deepcopy(fixture.snapshot())
    fixture.apply(*batch)
    assert fixture.snapshot() == before


@bounded
@given(batches)
def test_repeating_any_batch_keeps_the_owners_of_ids(batch: list[CapturedEvent]) -> None:
    fixture = PersonFixture()
    fixture.apply(*batch)
    before = fixture.ownership()
    fixture.apply(*batch)
    assert fixture.ownership() == before


@bounded
@given(batches, ids, ids)
def test_merge_keeps_all_properties_of_the_survivor(
    batch: list[CapturedEvent], target: str, other: str
) -> None:
    fixture = PersonFixture()
    fixture.apply(*batch)
    before = dict(fixture.person(target).properties) if target in fixture.owners else {}
    fixture.apply(captured_event("$merge_dangerously", target, {"alias": other}))
    after = fixture.person(target).properties
    assert {name: after.get(name) for name in before} == before


@bounded
@given(batches)
def test_each_event_with_a_profile_has_one_person(batch: list[CapturedEvent]) -> None:
    """PersonFixture asserts that no id gets a second person."""
    fixture = PersonFixture()
    result = fixture.apply(*batch).events
    for event, each in zip(batch, result, strict=True):
        if each is not None and each.person_mode != "propertyless":
            assert event.distinct_id in fixture.owners
    assert set(fixture.owners.values()) == fixture.persons.keys()


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
RESERVED_NAMES = [
    "$set",
    "$set_once",
    "$unset",
    "$groups",
    "$group_type",
    "$group_key",
    "$group_set",
]
RESERVED_NAMES += [
    "$anon_distinct_id",
    "alias",
    "$process_person_profile",
    "$ip",
    "$geoip_disable",
    *NAMES,
]


@bounded
@given(
    st.lists(
        st.builds(
            captured_event,
            st.sampled_from(KINDS) | hostile_text,
            ids | hostile_text,
            st.dictionaries(st.sampled_from(RESERVED_NAMES) | hostile_text, anything, max_size=5),
        ),
        max_size=5,
    )
)
def test_any_event_is_processed_without_an_error(batch: list[CapturedEvent]) -> None:
    before = deepcopy(batch)
    fixture = PersonFixture()
    for each in fixture.apply(*batch).events:
        assert each is None or isinstance(json.loads(each.person_properties), dict)
    assert batch == before
    for person in fixture.persons.values():
        json.dumps(person.properties).encode()
