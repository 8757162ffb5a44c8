from typing import Any

import pytest

from hedgerow.flags.evaluation.bucket import limit_below
from hedgerow.flags.model import Reason
from tests.unit.flags.factories import (
    MATCH_ALL,
    MATCH_NONE,
    build_filters,
    evaluate_flag,
    find_identifier,
    group_prop,
    loaded_context,
    make_flag,
    make_snapshot,
    prop,
    request_context,
    summarize,
    variants,
)

DE = {"properties": [prop("country", "DE")]}
OLD = {"properties": [prop("age", 65, "gte")]}
GERMAN = {"country": "DE"}

# Bucket positions within the first tenth and the second half, for the default flag key.
EARLY = find_identifier("flag-1.", 0, 0.1)
LATE = find_identifier("flag-1.", 0.5, 1)


def test_empty_condition_matches_every_person() -> None:
    assert summarize(evaluate_flag(MATCH_ALL)) == (True, "condition_match", 0)


def test_flag_without_conditions_is_off() -> None:
    outcome = evaluate_flag({"groups": []})
    assert outcome.value is False
    assert outcome.condition_index is None
    assert not outcome.has_failed


def test_condition_requires_all_filters() -> None:
    both = build_filters({"properties": [prop("country", "DE"), prop("age", 65, "gte")]})
    assert summarize(evaluate_flag(both, loaded_context({"country": "DE", "age": 70})))[0] is True
    assert summarize(evaluate_flag(both, loaded_context(GERMAN))) == (
        False,
        "no_condition_match",
        0,
    )
    assert summarize(evaluate_flag(both, loaded_context({"age": 70}))) == (
        False,
        "no_condition_match",
        0,
    )


def test_first_matching_condition_wins() -> None:
    filters = build_filters(OLD, DE, {})
    assert summarize(evaluate_flag(filters, loaded_context({"country": "DE", "age": 70})))[2] == 0
    assert summarize(evaluate_flag(filters, loaded_context(GERMAN)))[2] == 1
    assert summarize(evaluate_flag(filters, loaded_context()))[2] == 2


def test_condition_with_a_variant_keeps_its_position() -> None:
    filters = build_filters({}, {"variant": "b"}, multivariate=variants(a=100, b=0))
    assert summarize(evaluate_flag(filters)) == ("a", "condition_match", 0)


def test_condition_overrides_the_variant() -> None:
    filters = build_filters(
        DE | {"variant": "b"}, {"variant": "a"}, multivariate=variants(a=50, b=25, c=25)
    )
    assert summarize(evaluate_flag(filters, loaded_context(GERMAN))) == ("b", "condition_match", 0)
    assert summarize(evaluate_flag(filters, loaded_context())) == ("a", "condition_match", 1)


@pytest.mark.parametrize("variant", ["gone", "", None, 5, ["a"], {}])
def test_unknown_variant_override_is_ignored(variant: Any) -> None:
    filters = build_filters({"variant": variant}, multivariate=variants(a=100))
    assert summarize(evaluate_flag(filters)) == ("a", "condition_match", 0)


def test_value_is_true_beyond_the_variant_shares() -> None:
    filters = build_filters({}, multivariate=variants(a=20, b=20))
    for above, up_to, value in [(0, 0.2, "a"), (0.2, 0.4, "b"), (0.4, 1, True)]:
        id = find_identifier("flag-1.", above, up_to, "variant")
        assert evaluate_flag(filters, loaded_context(id=id)).value == value
        # Two conditions use another code path.
        two = build_filters(DE, {}, multivariate=variants(a=20, b=20))
        assert summarize(evaluate_flag(two, loaded_context(id=id))) == (value, "condition_match", 1)


@pytest.mark.parametrize("multivariate", [None, {}, {"variants": None}, {"variants": []}])
def test_flag_without_variants_is_boolean(multivariate: Any) -> None:
    assert evaluate_flag(build_filters({}, multivariate=multivariate)).value is True


def test_variant_shares_are_summed_as_floats() -> None:
    """0.1 + 0.2 is greater than 0.3 in floating point, and the sum is the limit."""
    [compiled] = make_snapshot(
        make_flag(build_filters({}, multivariate=variants(a=10, b=20)))
    ).all_flags
    [condition] = compiled.conditions
    ends = [end for end, _ in condition.variants]
    assert ends == [limit_below(10 / 100), limit_below(10 / 100 + 20 / 100)]
    assert ends[1] != limit_below(0.3)


@pytest.mark.parametrize("percentage", [None, 100, 100.0])
def test_missing_percentage_is_a_full_rollout(percentage: Any) -> None:
    filters = build_filters({"rollout_percentage": percentage})
    assert evaluate_flag(filters, loaded_context(id=LATE)).value is True


def test_rollout_includes_its_share() -> None:
    for filters in (build_filters({"rollout_percentage": 10}), build_filters(NOT_HERE, TENTH)):
        index = len(filters["groups"]) - 1
        assert summarize(evaluate_flag(filters, loaded_context(id=EARLY))) == (
            True,
            "condition_match",
            index,
        )
        assert summarize(evaluate_flag(filters, loaded_context(id=LATE))) == (
            False,
            "out_of_rollout_bound",
            index,
        )


NOT_HERE = {"properties": [prop("country", "nowhere")]}
TENTH = {"rollout_percentage": 10}


def test_rollout_may_be_a_fraction_of_a_percent() -> None:
    filters = build_filters({"rollout_percentage": 0.5})
    inside, outside = find_identifier("flag-1.", 0, 0.005), find_identifier("flag-1.", 0.005, 0.01)
    assert evaluate_flag(filters, loaded_context(id=inside)).value is True
    assert evaluate_flag(filters, loaded_context(id=outside)).value is False


def test_rollout_of_zero_percent_is_empty() -> None:
    filters = build_filters({"rollout_percentage": 0})
    assert summarize(evaluate_flag(filters, loaded_context(id=EARLY))) == (
        False,
        "out_of_rollout_bound",
        0,
    )


def test_empty_id_is_in_every_rollout_with_the_first_variant() -> None:
    filters = build_filters({"rollout_percentage": 0}, multivariate=variants(a=1, b=99))
    assert evaluate_flag(filters, loaded_context(id="")).value == "a"


def test_bucketing_uses_the_first_200_characters_of_an_id() -> None:
    for share in range(0, 101, 10):
        filters = build_filters({"rollout_percentage": share})
        short = evaluate_flag(filters, loaded_context(id="ü" * 200))
        assert evaluate_flag(filters, loaded_context(id="ü" * 200 + "more")).value is short.value


def test_evaluation_continues_after_a_missed_rollout() -> None:
    filters = build_filters(TENTH, {"rollout_percentage": 100})
    assert summarize(evaluate_flag(filters, loaded_context(id=LATE))) == (
        True,
        "condition_match",
        1,
    )


def test_early_exit_stops_at_the_first_missed_rollout() -> None:
    filters = build_filters(DE | TENTH, {}, early_exit=True)
    assert summarize(evaluate_flag(filters, loaded_context(GERMAN, id=LATE))) == (
        False,
        "out_of_rollout_bound",
        0,
    )
    assert summarize(evaluate_flag(filters, loaded_context(GERMAN, id=EARLY))) == (
        True,
        "condition_match",
        0,
    )
    assert summarize(evaluate_flag(filters, loaded_context(id=LATE))) == (
        True,
        "condition_match",
        1,
    )


@pytest.mark.parametrize("early_exit", [False, None])
def test_early_exit_is_off_by_default(early_exit: Any) -> None:
    filters = build_filters(TENTH, {}, early_exit=early_exit)
    assert summarize(evaluate_flag(filters, loaded_context(id=LATE))) == (
        True,
        "condition_match",
        1,
    )


COMPANY = {"aggregation_group_type_index": 0}


@pytest.mark.parametrize(
    ("groups", "expected_reason", "index"),
    [
        # The order of reasons: out of rollout, no match, no group.
        ([TENTH, DE], "out_of_rollout_bound", 0),
        ([DE, TENTH], "out_of_rollout_bound", 1),
        ([TENTH, DE, COMPANY], "out_of_rollout_bound", 0),
        ([DE, COMPANY], "no_condition_match", 0),
        ([COMPANY, DE], "no_condition_match", 1),
        ([COMPANY], "no_group_type", 0),
        # Of equal reasons, the last condition is reported.
        ([DE, OLD], "no_condition_match", 1),
        ([TENTH, TENTH, DE], "out_of_rollout_bound", 1),
        ([COMPANY, COMPANY], "no_group_type", 1),
        ([DE, DE, TENTH, COMPANY, TENTH, OLD], "out_of_rollout_bound", 4),
    ],
)
def test_outcome_has_the_highest_reason(
    groups: list[dict[str, Any]], expected_reason: str, index: int
) -> None:
    assert summarize(evaluate_flag(build_filters(*groups), loaded_context(id=LATE))) == (
        False,
        expected_reason,
        index,
    )


def test_group_flag_is_bucketed_by_group() -> None:
    filters = build_filters({"rollout_percentage": 50}, aggregation_group_type_index=0)
    inside, outside = find_identifier("flag-1.", 0, 0.5), find_identifier("flag-1.", 0.5, 1)
    for id in (inside, outside):
        assert evaluate_flag(filters, loaded_context(id=id, groups={0: inside})).value is True
        assert summarize(evaluate_flag(filters, loaded_context(id=id, groups={0: outside}))) == (
            False,
            "out_of_rollout_bound",
            0,
        )
        assert summarize(evaluate_flag(filters, loaded_context(id=id))) == (
            False,
            "no_group_type",
            0,
        )
        assert (
            summarize(evaluate_flag(filters, loaded_context(id=id, groups={1: inside})))[1]
            == "no_group_type"
        )


def test_variant_of_a_group_flag_is_bucketed_by_group() -> None:
    filters = build_filters(COMPANY, multivariate=variants(a=50, b=50))
    a, b = (find_identifier("flag-1.", *ends, "variant") for ends in [(0, 0.49), (0.51, 1)])
    assert evaluate_flag(filters, loaded_context(id=b, groups={0: a})).value == "a"
    assert evaluate_flag(filters, loaded_context(id=a, groups={0: b})).value == "b"


def test_condition_overrides_the_aggregation_of_its_flag() -> None:
    person = {"aggregation_group_type_index": None}
    filters = build_filters(TENTH, TENTH | person, aggregation_group_type_index=0)
    assert summarize(evaluate_flag(filters, loaded_context(id=LATE, groups={0: EARLY})))[2] == 0
    assert summarize(evaluate_flag(filters, loaded_context(id=EARLY, groups={0: LATE})))[2] == 1
    assert summarize(evaluate_flag(filters, loaded_context(id=EARLY)))[2] == 1
    assert summarize(evaluate_flag(filters, loaded_context(id=LATE))) == (
        False,
        "out_of_rollout_bound",
        1,
    )


def test_group_filter_uses_group_properties() -> None:
    filters = build_filters(
        {"properties": [group_prop(0, "plan", "pro")]}, aggregation_group_type_index=0
    )
    acme: dict[str, Any] = {"groups": {0: "acme"}}
    assert (
        evaluate_flag(filters, loaded_context(**acme, group_properties={0: {"plan": "Pro"}})).value
        is True
    )
    assert (
        evaluate_flag(filters, loaded_context(**acme, stored_groups={0: {"plan": "pro"}})).value
        is True
    )
    assert (
        summarize(evaluate_flag(filters, loaded_context({"plan": "pro"}, **acme)))[1]
        == "no_condition_match"
    )
    # Properties of a group that the request does not name are ignored.
    assert (
        evaluate_flag(filters, loaded_context(group_properties={0: {"plan": "pro"}})).value is False
    )


def test_person_condition_may_contain_a_group_filter() -> None:
    filters = build_filters({"properties": [group_prop(1, "plan", "free", "is_not")]})
    assert evaluate_flag(filters, loaded_context(groups={1: "acme"})).value is True
    assert (
        summarize(evaluate_flag(filters, loaded_context(groups={0: "acme"})))[1]
        == "no_condition_match"
    )


def test_group_filter_without_an_index_uses_the_group_of_the_condition() -> None:
    filters = build_filters(
        {"properties": [prop("plan", "pro", type="group")]}, aggregation_group_type_index=0
    )
    context = loaded_context(groups={0: "acme"}, group_properties={0: {"plan": "pro"}})
    assert evaluate_flag(filters, context).value is True


def test_empty_group_key_is_no_group() -> None:
    filters = build_filters({}, aggregation_group_type_index=0)
    assert summarize(evaluate_flag(filters, loaded_context(groups={0: ""}))) == (
        False,
        "no_group_type",
        0,
    )


@pytest.mark.parametrize("properties", [{}, {"$group_key": "other"}])
def test_group_key_is_a_group_property(properties: dict[str, Any]) -> None:
    filters = build_filters(
        {"properties": [group_prop(0, "$group_key", "acme")]}, aggregation_group_type_index=0
    )
    for context in (loaded_context, request_context):
        group_context = context(groups={0: "acme"}, group_properties={0: properties})
        assert evaluate_flag(filters, group_context).value is True


def test_filter_without_a_type_is_a_person_filter() -> None:
    for type in ({}, {"type": None}, {"type": "person"}, {"type": "event"}):
        filters = build_filters({"properties": [{"key": "country", "value": "DE"} | type]})
        assert evaluate_flag(filters, loaded_context(GERMAN)).value is True


@pytest.mark.parametrize("properties", [[], None])
def test_definition_without_groups_is_one_condition(properties: Any) -> None:
    assert summarize(evaluate_flag({"properties": properties})) == (True, "condition_match", 0)
    assert summarize(evaluate_flag({})) == (True, "condition_match", 0)
    old = {"properties": [prop("country", "DE")], "rollout_percentage": 10}
    assert summarize(evaluate_flag(old, loaded_context(GERMAN, id=EARLY))) == (
        True,
        "condition_match",
        0,
    )
    assert summarize(evaluate_flag(old, loaded_context(GERMAN, id=LATE))) == (
        False,
        "out_of_rollout_bound",
        0,
    )
    assert summarize(evaluate_flag(old, loaded_context(id=EARLY))) == (
        False,
        "no_condition_match",
        0,
    )


@pytest.mark.parametrize("filters", [MATCH_ALL, MATCH_NONE, {"groups": 5}])
def test_inactive_flag_is_off(filters: Any) -> None:
    assert summarize(evaluate_flag(filters, active=False)) == (False, "flag_disabled", None)


PAYLOADS = {"true": "1", "a": '{"x": 1}', "holdout-3": "3"}


@pytest.mark.parametrize(
    ("filters", "payload"),
    [
        (build_filters({}), "1"),
        (build_filters({}, multivariate=variants(a=100)), '{"x": 1}'),
        (build_filters({}, multivariate=variants(b=100)), None),
        (build_filters({}, multivariate=variants(a=0)), "1"),
        (build_filters({"variant": "a"}, multivariate=variants(b=100, a=0)), '{"x": 1}'),
        (build_filters({}, holdout={"id": 3, "exclusion_percentage": 100}), "3"),
        (MATCH_NONE, None),
        (build_filters({"rollout_percentage": 0}), None),
        ({"groups": []}, None),
    ],
)
def test_only_a_match_has_a_payload(filters: dict[str, Any], payload: Any) -> None:
    assert evaluate_flag(filters | {"payloads": PAYLOADS}).payload == payload


@pytest.mark.parametrize("payload", ["", "null", "0", 0, False, None, {"a": 1}, [1]])
def test_payload_is_returned_as_stored(payload: Any) -> None:
    assert evaluate_flag(MATCH_ALL | {"payloads": {"true": payload}}).payload == payload


@pytest.mark.parametrize("payloads", [None, [], "true", 5])
def test_invalid_payloads_are_ignored(payloads: Any) -> None:
    outcome = evaluate_flag(MATCH_ALL | {"payloads": payloads})
    assert outcome.value is True
    assert outcome.payload is None


def test_variant_is_the_value_unless_it_is_boolean() -> None:
    assert evaluate_flag(MATCH_ALL).variant is None
    assert evaluate_flag(MATCH_NONE).variant is None
    assert evaluate_flag(build_filters({}, multivariate=variants(a=100))).variant == "a"


@pytest.mark.parametrize(
    ("reason", "index", "text"),
    [
        ("super_condition_value", 0, "Super condition value"),
        ("holdout_condition_value", None, "Holdout condition value"),
        ("condition_match", 0, "Matched condition set 1"),
        ("condition_match", 4, "Matched condition set 5"),
        ("no_group_type", 1, "No group type"),
        ("out_of_rollout_bound", 1, "Out of rollout bound"),
        ("no_condition_match", 1, "No matching condition set"),
        ("flag_disabled", None, "Feature flag is disabled"),
        ("missing_dependency", None, "Flag cannot be evaluated due to missing dependency"),
    ],
)
def test_reasons_have_posthogs_descriptions(reason: str, index: int | None, text: str) -> None:
    assert Reason(reason).description(index) == text


def test_every_reason_has_a_description() -> None:
    assert all(reason.description(None) for reason in Reason)
