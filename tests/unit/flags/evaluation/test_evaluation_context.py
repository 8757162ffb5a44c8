from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.flags.evaluation.evaluation_context import EvaluationContext
from hedgerow.flags.model import Bucketing, Flag, FlagOutcome
from tests.unit.flags.factories import (
    MATCH_ALL,
    MATCH_NONE,
    build_filters,
    depends_on,
    evaluate_all,
    find_identifier,
    group_prop,
    in_cohort,
    loaded_context,
    make_cohort,
    make_flag,
    make_snapshot,
    prop,
    request_context,
    summarize,
    variants,
)
from tests.unit.generated import bounded

DE, OLD = prop("country", "DE"), prop("age", 65, "gte")
GERMAN = {"country": "DE"}
HALF = {"rollout_percentage": 50}
CONTINUITY: dict[str, Any] = {"ensure_experience_continuity": True}


def evaluate(flag: Flag, context: EvaluationContext) -> tuple[FlagOutcome, bool]:
    snapshot = make_snapshot(
        flag, cohorts=[make_cohort(1), make_cohort(2, {"type": "OR", "values": [DE]})]
    )
    [outcome] = snapshot.evaluate(snapshot.all_flags, context)
    return outcome, context.needs_stored_data


@pytest.mark.parametrize(
    ("filters", "properties", "expected"),
    [
        (MATCH_ALL, {}, (True, "condition_match", 0)),
        (build_filters(), {}, (False, "no_condition_match", None)),
        (build_filters({"properties": [DE]}), GERMAN, (True, "condition_match", 0)),
        (build_filters({"properties": [DE]}), {"country": None}, (False, "no_condition_match", 0)),
        (build_filters({"properties": [prop("country", operator="is_set")]}), GERMAN, True),
        (build_filters({"properties": [prop("country", operator="is_not_set")]}), GERMAN, False),
        (
            build_filters({"properties": [DE, OLD]}),
            {"country": "FR"},
            (False, "no_condition_match", 0),
        ),
        (build_filters({"properties": [DE]}, {"properties": [OLD]}), GERMAN, True),
        (build_filters({"properties": [prop("distinct_id", "user")]}), {}, True),
        (build_filters({"properties": [in_cohort(2)]}), GERMAN, True),
        (build_filters({"properties": [in_cohort(1), DE]}), {"country": "FR"}, False),
        (build_filters({}, aggregation_group_type_index=0), {}, (False, "no_group_type", 0)),
        (build_filters({"properties": [group_prop(0, "plan", "pro")]}), {}, False),
    ],
)
def test_request_properties_suffice_without_stored_data(
    filters: Any, properties: Any, expected: Any
) -> None:
    outcome, needs_stored_data = evaluate(make_flag(filters), request_context(properties))
    assert not needs_stored_data
    assert (summarize(outcome) if isinstance(expected, tuple) else outcome.value) == expected


@pytest.mark.parametrize(
    ("filters", "fields"),
    [
        (build_filters({"properties": [DE]}), {}),
        (build_filters({"properties": [prop("country", operator="is_not_set")]}), {}),
        (build_filters({"properties": [prop("country", "DE", "is_not")]}), {}),
        (build_filters({"properties": [in_cohort(1)]}), {}),
        (build_filters({"properties": [in_cohort(1, "not_in")]}), {}),
        (build_filters({"properties": [in_cohort(2)]}), {}),
        (build_filters({"properties": [group_prop(1, "plan", "pro")]}), {}),
        (MATCH_ALL | {"feature_enrollment": True}, {}),
        (MATCH_ALL | {"super_groups": [{"properties": [DE]}]}, {}),
        (build_filters(HALF), CONTINUITY),
        (build_filters({}, multivariate=variants(a=50, b=50)), CONTINUITY),
        (MATCH_ALL | {"holdout": {"id": 1, "exclusion_percentage": 10}}, CONTINUITY),
        (build_filters({"properties": [prop("$initial_utm_source", "x")]}), {}),
    ],
)
def test_missing_values_require_stored_data(filters: Any, fields: Any) -> None:
    context = request_context({"utm_source": "x"}, groups={1: "acme"})
    outcome, needs_stored_data = evaluate(make_flag(filters, **fields), context)
    assert needs_stored_data
    assert outcome.has_failed
    assert outcome.value is False


@pytest.mark.parametrize(
    ("filters", "fields"),
    [
        (MATCH_ALL, CONTINUITY),
        (build_filters({"variant": "a"}, multivariate=variants(a=50, b=50)), CONTINUITY),
        (build_filters(HALF, aggregation_group_type_index=1), CONTINUITY),
        (build_filters(HALF), CONTINUITY | {"bucketing_identifier": Bucketing.DEVICE_ID}),
        (build_filters(HALF | {"properties": [prop("utm_source", "y")]}), CONTINUITY),
    ],
)
def test_hash_keys_are_needed_only_for_person_buckets(filters: Any, fields: Any) -> None:
    context = request_context({"utm_source": "x"}, groups={1: "acme"}, device_id="device")
    outcome, needs_stored_data = evaluate(make_flag(filters, **fields), context)
    assert not needs_stored_data
    assert not outcome.has_failed


@pytest.mark.parametrize("filters", [[DE, OLD], [OLD, DE]])
def test_one_failing_filter_decides_without_stored_data(filters: Any) -> None:
    """The age is unknown, but a person in France does not match at any age."""
    outcome, needs_stored_data = evaluate(
        make_flag(build_filters({"properties": filters})), request_context({"country": "FR"})
    )
    assert summarize(outcome) == (False, "no_condition_match", 0)
    assert not needs_stored_data


def test_undecided_condition_blocks_later_ones() -> None:
    """The earlier condition may match with another index and variant."""
    filters = build_filters({"properties": [OLD]}, {"properties": [DE]})
    outcome, needs_stored_data = evaluate(make_flag(filters), request_context(GERMAN))
    assert needs_stored_data
    assert outcome.has_failed


def test_only_flags_that_need_stored_data_fail() -> None:
    snapshot = make_snapshot(
        make_flag(build_filters({"properties": [DE]}), 1),
        make_flag(MATCH_ALL, 2),
        make_flag(build_filters({"properties": [DE]}), 3),
    )
    context = request_context()
    found = evaluate_all(snapshot, context)
    assert context.needs_stored_data
    assert [found[id].has_failed for id in (1, 2, 3)] == [True, False, True]


def test_stored_data_completes_the_context() -> None:
    snapshot = make_snapshot(
        make_flag(build_filters({"properties": [DE]}), 1),
        make_flag(build_filters({"properties": [depends_on(1)]}), 2),
        make_flag(build_filters({"properties": [depends_on(1, False)]}), 3),
        make_flag(build_filters({"properties": [in_cohort(1)]}), 4),
        cohorts=[make_cohort(1)],
    )
    context = request_context()
    evaluate_all(snapshot, context)
    context.add_stored_data(GERMAN, groups={}, cohorts=frozenset({1}), hash_keys={})
    found = evaluate_all(snapshot, context)
    assert not context.needs_stored_data
    assert [found[id].value for id in (1, 2, 3, 4)] == [True, True, False, True]


def test_request_properties_override_stored_ones_by_key() -> None:
    context = loaded_context({"country": "FR"}, stored={"country": "DE", "age": 70})
    assert context.person["country"] == "FR"
    assert context.person["age"] == 70


def test_null_in_the_request_overrides_a_stored_value() -> None:
    assert loaded_context({"country": None}, stored=GERMAN).person["country"] is None


def test_group_properties_of_the_request_override_stored_ones() -> None:
    context = loaded_context(
        groups={0: "acme"},
        group_properties={0: {"plan": "pro"}, 1: {"plan": "free"}},
        stored_groups={0: {"plan": "old", "size": 5, "$group_key": "x"}, 1: {"size": 6}},
    )
    assert context.group_properties == {0: {"plan": "pro", "size": 5, "$group_key": "acme"}}


@pytest.mark.parametrize("context", [loaded_context, request_context])
def test_distinct_id_is_a_property_that_the_request_may_override(context: Any) -> None:
    assert context(id="me").person["distinct_id"] == "me"
    assert context({"distinct_id": "other"}, id="me").person["distinct_id"] == "other"


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
def test_initial_property_falls_back_to_the_current_one(
    properties: Any, key: str, value: Any
) -> None:
    for context in (loaded_context(properties), loaded_context(stored=properties)):
        assert context.person[key] == value
        flag = make_flag(build_filters({"properties": [prop(key, operator="is_set")]}))
        assert evaluate(flag, context)[0].value is True


def test_missing_property_has_no_initial_value() -> None:
    flag = make_flag(build_filters({"properties": [prop("$initial_x", operator="is_set")]}))
    assert evaluate(flag, loaded_context())[0].value is False


def test_unknown_person_has_no_properties() -> None:
    snapshot = make_snapshot(
        make_flag(build_filters({"properties": [DE]}), 1),
        make_flag(build_filters({"properties": [prop("country", "DE", "is_not")]}), 2),
        make_flag(build_filters({"properties": [prop("country", operator="is_not_set")]}), 3),
        make_flag(build_filters({"properties": [in_cohort(1, "not_in")]}), 4),
        make_flag(build_filters({"rollout_percentage": 50}), 5),
        cohorts=[make_cohort(1)],
    )
    found = evaluate_all(snapshot, loaded_context(id=find_identifier("flag-5.", 0, 0.5)))
    assert [found[id].value for id in (1, 2, 3, 4, 5)] == [False, True, True, True, True]


def test_context_can_be_used_with_two_snapshots() -> None:
    """Results are numbered by the snapshot, so they must not outlive it."""
    context = loaded_context(GERMAN)
    first = make_snapshot(make_flag(build_filters({"properties": [DE]}), 1))
    second = make_snapshot(make_flag(build_filters({"properties": [OLD]}), 1))
    assert evaluate_all(first, context)[1].value is True
    assert evaluate_all(second, context)[1].value is False


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
def test_stored_data_never_changes_a_decided_outcome(
    definition: Any, sent: Any, stored: Any, is_member: bool, is_continued: bool
) -> None:
    """An outcome without stored data equals the outcome with it."""
    flag = make_flag(definition, ensure_experience_continuity=is_continued)
    cohorts = [make_cohort(1), make_cohort(2, {"type": "OR", "values": [prop("a", "1")]})]
    snapshot = make_snapshot(flag, cohorts=cohorts)
    context = request_context(sent)
    [without_data] = snapshot.evaluate(snapshot.all_flags, context)
    is_incomplete = context.needs_stored_data
    assert without_data.has_failed is is_incomplete
    context.add_stored_data(
        stored,
        groups={},
        cohorts=frozenset({1} if is_member else ()),
        hash_keys={"flag-1": "another"} if is_continued else {},
    )
    [with_data] = snapshot.evaluate(snapshot.all_flags, context)
    assert not with_data.has_failed
    assert is_incomplete or with_data is without_data


def test_stored_data_is_loaded_once() -> None:
    snapshot = make_snapshot(
        make_flag(MATCH_NONE, 1),
        make_flag(build_filters(HALF), 2, **CONTINUITY),
        make_flag(MATCH_ALL | {"feature_enrollment": True}, 3),
        make_flag(build_filters({"properties": [in_cohort(1)]}), 4),
        make_flag(build_filters({"properties": [group_prop(0, "x", 1)]}), 5),
        cohorts=[make_cohort(1)],
    )
    context = loaded_context(groups={0: "acme"})
    assert not any(outcome.has_failed for outcome in evaluate_all(snapshot, context).values())
    assert not context.needs_stored_data
