from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.flags.model import Bucketing, Flag, Outcome
from hedgerow.flags.subject import Subject
from tests.unit.flags.world import (
    EVERYBODY,
    NOBODY,
    a_cohort,
    a_flag,
    a_snapshot,
    asking,
    depends_on,
    group_prop,
    in_cohort,
    known,
    of_groups,
    outcomes,
    prop,
    someone,
    told,
    variants,
)
from tests.unit.generated import bounded

DE, OLD = prop("country", "DE"), prop("age", 65, "gte")
GERMAN = {"country": "DE"}
HALF = {"rollout_percentage": 50}
CONTINUED: dict[str, Any] = {"ensure_experience_continuity": True}


def asked(flag: Flag, subject: Subject) -> tuple[Outcome, bool]:
    snapshot = a_snapshot(flag, cohorts=[a_cohort(1), a_cohort(2, {"type": "OR", "values": [DE]})])
    [outcome] = snapshot.evaluate(snapshot.everything, subject)
    return outcome, subject.needs_stored


@pytest.mark.parametrize(
    ("filters", "properties", "told_outcome"),
    [
        (EVERYBODY, {}, (True, "condition_match", 0)),
        (of_groups(), {}, (False, "no_condition_match", None)),
        (of_groups({"properties": [DE]}), GERMAN, (True, "condition_match", 0)),
        (of_groups({"properties": [DE]}), {"country": None}, (False, "no_condition_match", 0)),
        (of_groups({"properties": [prop("country", operator="is_set")]}), GERMAN, True),
        (of_groups({"properties": [prop("country", operator="is_not_set")]}), GERMAN, False),
        (of_groups({"properties": [DE, OLD]}), {"country": "FR"}, (False, "no_condition_match", 0)),
        (of_groups({"properties": [DE]}, {"properties": [OLD]}), GERMAN, True),
        (of_groups({"properties": [prop("distinct_id", "somebody")]}), {}, True),
        (of_groups({"properties": [in_cohort(2)]}), GERMAN, True),
        (of_groups({"properties": [in_cohort(1), DE]}), {"country": "FR"}, False),
        (of_groups({}, aggregation_group_type_index=0), {}, (False, "no_group_type", 0)),
        (of_groups({"properties": [group_prop(0, "plan", "pro")]}), {}, False),
    ],
)
def test_what_the_request_says_is_enough_where_nothing_else_is_asked(
    filters: Any, properties: Any, told_outcome: Any
) -> None:
    outcome, needs_stored = asked(a_flag(filters), asking(properties))
    assert not needs_stored
    assert (told(outcome) if isinstance(told_outcome, tuple) else outcome.value) == told_outcome


@pytest.mark.parametrize(
    ("filters", "fields"),
    [
        (of_groups({"properties": [DE]}), {}),
        (of_groups({"properties": [prop("country", operator="is_not_set")]}), {}),
        (of_groups({"properties": [prop("country", "DE", "is_not")]}), {}),
        (of_groups({"properties": [in_cohort(1)]}), {}),
        (of_groups({"properties": [in_cohort(1, "not_in")]}), {}),
        (of_groups({"properties": [in_cohort(2)]}), {}),
        (of_groups({"properties": [group_prop(1, "plan", "pro")]}), {}),
        (EVERYBODY | {"feature_enrollment": True}, {}),
        (EVERYBODY | {"super_groups": [{"properties": [DE]}]}, {}),
        (of_groups(HALF), CONTINUED),
        (of_groups({}, multivariate=variants(a=50, b=50)), CONTINUED),
        (EVERYBODY | {"holdout": {"id": 1, "exclusion_percentage": 10}}, CONTINUED),
        (of_groups({"properties": [prop("$initial_utm_source", "x")]}), {}),
    ],
)
def test_what_may_be_stored_is_waited_for(filters: Any, fields: Any) -> None:
    subject = asking({"utm_source": "x"}, groups={1: "acme"})
    outcome, needs_stored = asked(a_flag(filters, **fields), subject)
    assert needs_stored
    assert outcome.failed
    assert outcome.value is False


@pytest.mark.parametrize(
    ("filters", "fields"),
    [
        (EVERYBODY, CONTINUED),
        (of_groups({"variant": "a"}, multivariate=variants(a=50, b=50)), CONTINUED),
        (of_groups(HALF, aggregation_group_type_index=1), CONTINUED),
        (of_groups(HALF), CONTINUED | {"bucketing_identifier": Bucketing.DEVICE_ID}),
        (of_groups(HALF | {"properties": [prop("utm_source", "y")]}), CONTINUED),
    ],
)
def test_hash_keys_are_read_only_when_a_persons_place_matters(filters: Any, fields: Any) -> None:
    subject = asking({"utm_source": "x"}, groups={1: "acme"}, device_id="device")
    outcome, needs_stored = asked(a_flag(filters, **fields), subject)
    assert not needs_stored
    assert not outcome.failed


@pytest.mark.parametrize("filters", [[DE, OLD], [OLD, DE]])
def test_one_filter_that_does_not_hold_decides_whatever_is_unknown(filters: Any) -> None:
    """The age is not known, but whoever is in France is not matched at any age."""
    outcome, needs_stored = asked(
        a_flag(of_groups({"properties": filters})), asking({"country": "FR"})
    )
    assert told(outcome) == (False, "no_condition_match", 0)
    assert not needs_stored


def test_a_later_condition_does_not_answer_for_an_earlier_one() -> None:
    """It would be told with another index, perhaps with another variant."""
    filters = of_groups({"properties": [OLD]}, {"properties": [DE]})
    outcome, needs_stored = asked(a_flag(filters), asking(GERMAN))
    assert needs_stored
    assert outcome.failed


def test_only_the_flags_that_wait_are_told_as_failed() -> None:
    snapshot = a_snapshot(
        a_flag(of_groups({"properties": [DE]}), 1),
        a_flag(EVERYBODY, 2),
        a_flag(of_groups({"properties": [DE]}), 3),
    )
    subject = asking()
    found = outcomes(snapshot, subject)
    assert subject.needs_stored
    assert [found[id].failed for id in (1, 2, 3)] == [True, False, True]


def test_what_is_stored_completes_the_subject() -> None:
    snapshot = a_snapshot(
        a_flag(of_groups({"properties": [DE]}), 1),
        a_flag(of_groups({"properties": [depends_on(1)]}), 2),
        a_flag(of_groups({"properties": [depends_on(1, False)]}), 3),
        a_flag(of_groups({"properties": [in_cohort(1)]}), 4),
        cohorts=[a_cohort(1)],
    )
    subject = asking()
    outcomes(snapshot, subject)
    subject.complete(GERMAN, groups={}, cohorts=frozenset({1}), hash_keys={})
    found = outcomes(snapshot, subject)
    assert not subject.needs_stored
    assert [found[id].value for id in (1, 2, 3, 4)] == [True, True, False, True]


def test_the_request_goes_over_what_is_stored_key_by_key() -> None:
    subject = known({"country": "FR"}, stored={"country": "DE", "age": 70})
    assert subject.person["country"] == "FR"
    assert subject.person["age"] == 70


def test_null_in_the_request_goes_over_what_is_stored_too() -> None:
    assert known({"country": None}, stored=GERMAN).person["country"] is None


def test_group_properties_of_the_request_go_over_the_stored_ones() -> None:
    subject = known(
        groups={0: "acme"},
        group_properties={0: {"plan": "pro"}, 1: {"plan": "free"}},
        stored_groups={0: {"plan": "old", "size": 5, "$group_key": "x"}, 1: {"size": 6}},
    )
    assert subject.group_properties == {0: {"plan": "pro", "size": 5, "$group_key": "acme"}}


@pytest.mark.parametrize("subject", [known, asking])
def test_the_distinct_id_is_a_property_that_the_request_may_replace(subject: Any) -> None:
    assert subject(id="me").person["distinct_id"] == "me"
    assert subject({"distinct_id": "other"}, id="me").person["distinct_id"] == "other"


@pytest.mark.parametrize(
    ("properties", "key", "value"),
    [
        ({"$browser": "Firefox"}, "$initial_browser", "Firefox"),
        ({"utm_source": "ad"}, "$initial_utm_source", "ad"),
        ({"$x": 1, "x": 2}, "$initial_x", 1),
        ({"x": 2, "$initial_x": 3}, "$initial_x", 3),
        ({"x": None}, "$initial_x", None),
        ({"$initial_x": None, "x": 1}, "$initial_x", None),
    ],
)
def test_what_was_first_is_taken_from_what_is_now(properties: Any, key: str, value: Any) -> None:
    for subject in (known(properties), known(stored=properties)):
        assert subject.person[key] == value
        flag = a_flag(of_groups({"properties": [prop(key, operator="is_set")]}))
        assert asked(flag, subject)[0].value is True


def test_what_was_never_there_was_not_first_either() -> None:
    flag = a_flag(of_groups({"properties": [prop("$initial_x", operator="is_set")]}))
    assert asked(flag, known())[0].value is False


def test_nobody_known_is_somebody_without_properties() -> None:
    snapshot = a_snapshot(
        a_flag(of_groups({"properties": [DE]}), 1),
        a_flag(of_groups({"properties": [prop("country", "DE", "is_not")]}), 2),
        a_flag(of_groups({"properties": [prop("country", operator="is_not_set")]}), 3),
        a_flag(of_groups({"properties": [in_cohort(1, "not_in")]}), 4),
        a_flag(of_groups({"rollout_percentage": 50}), 5),
        cohorts=[a_cohort(1)],
    )
    found = outcomes(snapshot, known(id=someone("flag-5.", 0, 0.5)))
    assert [found[id].value for id in (1, 2, 3, 4, 5)] == [False, True, True, True, True]


def test_a_subject_asked_by_two_snapshots_mixes_nothing_up() -> None:
    """Answers are numbered by the snapshot, so they must not outlive it."""
    subject = known(GERMAN)
    first = a_snapshot(a_flag(of_groups({"properties": [DE]}), 1))
    second = a_snapshot(a_flag(of_groups({"properties": [OLD]}), 1))
    assert outcomes(first, subject)[1].value is True
    assert outcomes(second, subject)[1].value is False


keys = st.sampled_from(["a", "b", "c"])
filters = st.builds(
    prop,
    keys,
    st.sampled_from(["1", "2"]),
    st.sampled_from(["exact", "is_not", "is_set", "is_not_set", "gt", "icontains"]),
) | st.sampled_from([in_cohort(1), in_cohort(2), in_cohort(1, "not_in")])
conditions = st.fixed_dictionaries(
    {"properties": st.lists(filters, max_size=3)},
    optional={"rollout_percentage": st.sampled_from([0, 50, 100])},
)
definitions = st.fixed_dictionaries(
    {"groups": st.lists(conditions, max_size=3)},
    optional={"early_exit": st.booleans(), "multivariate": st.just(variants(a=50, b=50))},
)
properties = st.dictionaries(keys, st.sampled_from(["1", "2", None, 3]))


@given(definitions, properties, properties, st.booleans(), st.booleans())
@bounded
def test_what_a_request_alone_decides_nothing_stored_changes(
    definition: Any, given: Any, stored: Any, is_member: bool, is_continued: bool
) -> None:
    """The promise of reading nothing: an answer that did not wait is the answer."""
    flag = a_flag(definition, ensure_experience_continuity=is_continued)
    cohorts = [a_cohort(1), a_cohort(2, {"type": "OR", "values": [prop("a", "1")]})]
    snapshot = a_snapshot(flag, cohorts=cohorts)
    subject = asking(given)
    [early] = snapshot.evaluate(snapshot.everything, subject)
    waits = subject.needs_stored
    assert early.failed is waits
    subject.complete(
        stored,
        groups={},
        cohorts=frozenset({1} if is_member else ()),
        hash_keys={"flag-1": "another"} if is_continued else {},
    )
    [late] = snapshot.evaluate(snapshot.everything, subject)
    assert not late.failed
    assert waits or late is early


def test_nobody_waits_twice() -> None:
    snapshot = a_snapshot(
        a_flag(NOBODY, 1),
        a_flag(of_groups(HALF), 2, **CONTINUED),
        a_flag(EVERYBODY | {"feature_enrollment": True}, 3),
        a_flag(of_groups({"properties": [in_cohort(1)]}), 4),
        a_flag(of_groups({"properties": [group_prop(0, "x", 1)]}), 5),
        cohorts=[a_cohort(1)],
    )
    subject = known(groups={0: "acme"})
    assert not any(outcome.failed for outcome in outcomes(snapshot, subject).values())
    assert not subject.needs_stored
