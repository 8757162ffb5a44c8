"""Overrides of the conditions: enrollment, its legacy form, holdouts; and other identifiers than
distinct ids.
"""

from typing import Any

import pytest

from hedgerow.flags.model import Bucketing
from tests.unit.flags.factories import (
    MATCH_ALL,
    MATCH_NONE,
    build_filters,
    evaluate_flag,
    find_identifier,
    loaded_context,
    prop,
    summarize,
    variants,
)

ENROLLED = "$feature_enrollment/flag-1"
ENROLLMENT = {"feature_enrollment": True}


@pytest.mark.parametrize("choice", [True, "true"])
def test_enrolled_person_has_the_flag(choice: Any) -> None:
    for filters in (MATCH_NONE, MATCH_ALL, build_filters()):
        outcome = evaluate_flag(
            filters | ENROLLMENT | {"payloads": {"true": "1"}}, loaded_context({ENROLLED: choice})
        )
        assert summarize(outcome) == (True, "super_condition_value", 0)
        assert outcome.payload == "1"


@pytest.mark.parametrize("choice", [False, "false", "True", "TRUE", "yes", 1, "", None, [], [True]])
def test_any_other_choice_turns_the_flag_off(choice: Any) -> None:
    outcome = evaluate_flag(MATCH_ALL | ENROLLMENT, loaded_context({ENROLLED: choice}))
    assert summarize(outcome) == (False, "super_condition_value", 0)


def test_conditions_decide_without_an_enrollment() -> None:
    assert summarize(evaluate_flag(MATCH_ALL | ENROLLMENT)) == (True, "condition_match", 0)
    assert summarize(evaluate_flag(MATCH_NONE | ENROLLMENT)) == (False, "no_condition_match", 0)


def test_enrollment_gives_no_variant() -> None:
    filters = build_filters({}, multivariate=variants(a=100)) | ENROLLMENT
    assert evaluate_flag(filters, loaded_context({ENROLLED: True})).value is True
    assert evaluate_flag(filters, loaded_context()).value == "a"


def test_group_flag_uses_the_enrollment_of_the_person() -> None:
    filters = build_filters({}, aggregation_group_type_index=0) | ENROLLMENT
    assert evaluate_flag(filters, loaded_context({ENROLLED: True})).value is True


@pytest.mark.parametrize("enrollment", [False, None, "true", 1])
def test_enrollment_is_ignored_unless_the_flag_uses_it(enrollment: Any) -> None:
    filters = MATCH_ALL | {"feature_enrollment": enrollment}
    assert summarize(evaluate_flag(filters, loaded_context({ENROLLED: False}))) == (
        True,
        "condition_match",
        0,
    )


def test_enrollment_in_another_flag_is_ignored() -> None:
    outcome = evaluate_flag(
        MATCH_NONE | ENROLLMENT, loaded_context({"$feature_enrollment/other": True})
    )
    assert summarize(outcome)[1] == "no_condition_match"


def test_enrollment_precedes_super_groups_and_holdout() -> None:
    before = {
        "super_groups": [{"properties": [prop("beta", "true")]}],
        "holdout": {"id": 1, "exclusion_percentage": 100},
    }
    filters = MATCH_ALL | ENROLLMENT | before
    assert summarize(evaluate_flag(filters, loaded_context({ENROLLED: False, "beta": "true"}))) == (
        False,
        "super_condition_value",
        0,
    )
    assert summarize(evaluate_flag(filters, loaded_context({"beta": "true"}))) == (
        True,
        "super_condition_value",
        0,
    )
    assert summarize(evaluate_flag(filters)) == ("holdout-1", "holdout_condition_value", None)


def with_super_group(conditions: Any, *properties: Any, **fields: Any) -> dict[str, Any]:
    return {**conditions, "super_groups": [{"properties": list(properties), **fields}]}


def test_super_group_decides_if_the_property_is_present() -> None:
    beta = prop("beta", ["true"])
    assert summarize(
        evaluate_flag(with_super_group(MATCH_NONE, beta), loaded_context({"beta": "true"}))
    ) == (
        True,
        "super_condition_value",
        0,
    )
    assert summarize(
        evaluate_flag(with_super_group(MATCH_ALL, beta), loaded_context({"beta": "no"}))
    ) == (
        False,
        "super_condition_value",
        0,
    )
    assert summarize(evaluate_flag(with_super_group(MATCH_ALL, beta))) == (
        True,
        "condition_match",
        0,
    )


def test_super_group_has_a_rollout() -> None:
    filters = with_super_group(MATCH_ALL, prop("beta", ["true"]), rollout_percentage=50)
    for ends, value in [((0, 0.5), True), ((0.5, 1), False)]:
        outcome = evaluate_flag(
            filters, loaded_context({"beta": "true"}, id=find_identifier("flag-1.", *ends))
        )
        assert summarize(outcome) == (value, "super_condition_value", 0)


def test_super_group_without_properties_is_its_rollout() -> None:
    filters = with_super_group(MATCH_ALL, rollout_percentage=0)
    assert summarize(evaluate_flag(filters)) == (False, "super_condition_value", 0)


def test_only_the_first_super_group_counts() -> None:
    filters = with_super_group(MATCH_NONE, prop("beta", "true"))
    filters["super_groups"].append({"properties": [prop("gamma", "true")]})
    assert (
        summarize(evaluate_flag(filters, loaded_context({"gamma": "true"})))[1]
        == "no_condition_match"
    )


@pytest.mark.parametrize("groups", [None, []])
def test_empty_super_groups_are_ignored(groups: Any) -> None:
    filters = MATCH_ALL | {"super_groups": groups, "holdout_groups": groups, "holdout": None}
    assert summarize(evaluate_flag(filters)) == (True, "condition_match", 0)


HELD, NOT_HELD = find_identifier("holdout-", 0, 0.25), find_identifier("holdout-", 0.25, 1)
QUARTER = {"holdout": {"id": 7, "exclusion_percentage": 25}}
OLD_QUARTER = {
    "holdout_groups": [{"variant": "holdout-7", "properties": [], "rollout_percentage": 25}]
}


@pytest.mark.parametrize("holdout", [QUARTER, OLD_QUARTER])
@pytest.mark.parametrize("conditions", [MATCH_ALL, MATCH_NONE])
def test_holdout_applies_to_every_flag(conditions: Any, holdout: Any) -> None:
    for key in ("one", "another"):
        held = evaluate_flag(conditions | holdout, loaded_context(id=HELD), key=key)
        assert (held.value, held.reason.value) == ("holdout-7", "holdout_condition_value")
        other = evaluate_flag(conditions | holdout, loaded_context(id=NOT_HELD), key=key)
        assert summarize(other) == summarize(
            evaluate_flag(conditions, loaded_context(id=NOT_HELD), key=key)
        )


def test_holdout_has_no_condition_index() -> None:
    assert evaluate_flag(MATCH_ALL | QUARTER, loaded_context(id=HELD)).condition_index is None


@pytest.mark.parametrize(
    ("percentage", "held"), [(0, False), (-5, False), (100, True), (250, True), (25.5, True)]
)
def test_holdout_percentage_is_clamped(percentage: float, held: bool) -> None:
    filters = MATCH_ALL | {"holdout": {"id": 7, "exclusion_percentage": percentage}}
    assert (evaluate_flag(filters, loaded_context(id=HELD)).value == "holdout-7") is held


def test_holdout_matches_posthogs_bucket_positions() -> None:
    for id, at in [("user_123", 24.823847221312947), ("acme-inc", 9.653386325608826)]:
        for off, value in [(0.0001, "holdout-7"), (-0.0001, True)]:
            holdout = {"id": 7, "exclusion_percentage": at + off}
            assert (
                evaluate_flag(MATCH_ALL | {"holdout": holdout}, loaded_context(id=id)).value
                == value
            )


def test_holdout_of_a_group_flag_is_bucketed_by_group() -> None:
    filters = build_filters({}, aggregation_group_type_index=0) | QUARTER
    assert (
        evaluate_flag(filters, loaded_context(id=NOT_HELD, groups={0: HELD})).value == "holdout-7"
    )
    assert evaluate_flag(filters, loaded_context(id=HELD, groups={0: NOT_HELD})).value is True
    assert summarize(evaluate_flag(filters, loaded_context(id=HELD))) == (False, "no_group_type", 0)


def test_legacy_holdout_with_filters_is_ignored() -> None:
    filters = MATCH_ALL | {
        "holdout_groups": [{"variant": "holdout-7", "properties": [prop("a", "b")]}]
    }
    assert summarize(evaluate_flag(filters)) == (True, "condition_match", 0)


def test_legacy_holdout_without_a_percentage_includes_every_person() -> None:
    filters = MATCH_ALL | {"holdout_groups": [{"variant": "holdout-7", "properties": []}]}
    assert evaluate_flag(filters).value == "holdout-7"
    assert evaluate_flag(MATCH_ALL | {"holdout_groups": [{}]}).value == "holdout"


def test_holdout_precedes_the_legacy_form() -> None:
    filters = MATCH_ALL | OLD_QUARTER | {"holdout": {"id": 8, "exclusion_percentage": 100}}
    assert evaluate_flag(filters, loaded_context(id=HELD)).value == "holdout-8"


HALF = build_filters({"rollout_percentage": 50}, multivariate=variants(a=50, b=50))
INSIDE, OUTSIDE = find_identifier("flag-1.", 0, 0.5), find_identifier("flag-1.", 0.5, 1)
BY_DEVICE: dict[str, Any] = {"bucketing_identifier": Bucketing.DEVICE_ID}


def test_flag_may_be_bucketed_by_device() -> None:
    own = evaluate_flag(HALF, loaded_context(id=INSIDE))
    for id in (INSIDE, OUTSIDE):
        assert (
            evaluate_flag(HALF, loaded_context(id=id, device_id=INSIDE), **BY_DEVICE).value
            == own.value
        )
        out = evaluate_flag(HALF, loaded_context(id=id, device_id=OUTSIDE), **BY_DEVICE)
        assert summarize(out) == (False, "out_of_rollout_bound", 0)


@pytest.mark.parametrize("device", [None, ""])
@pytest.mark.parametrize("filters", [HALF, MATCH_ALL, build_filters({}, {})])
def test_device_flag_is_off_without_a_device(filters: dict[str, Any], device: str | None) -> None:
    outcome = evaluate_flag(filters, loaded_context(id=INSIDE, device_id=device), **BY_DEVICE)
    index = len(filters["groups"]) - 1
    assert summarize(outcome) == (False, "out_of_rollout_bound", index)


def test_condition_is_skipped_before_its_filters_without_a_device() -> None:
    filters = build_filters({"properties": [prop("country", "nowhere")]})
    assert summarize(evaluate_flag(filters, loaded_context(), **BY_DEVICE)) == (
        False,
        "out_of_rollout_bound",
        0,
    )


def test_condition_skipped_without_a_device_is_no_early_exit() -> None:
    filters = build_filters({}, {"aggregation_group_type_index": 0}, early_exit=True)
    outcome = evaluate_flag(filters, loaded_context(groups={0: "acme"}), **BY_DEVICE)
    assert summarize(outcome) == (True, "condition_match", 1)


def test_group_condition_of_a_device_flag_is_bucketed_by_group() -> None:
    filters = build_filters({"rollout_percentage": 50}, aggregation_group_type_index=0)
    assert evaluate_flag(filters, loaded_context(groups={0: INSIDE}), **BY_DEVICE).value is True
    context = loaded_context(groups={0: OUTSIDE}, device_id=INSIDE)
    assert evaluate_flag(filters, context, **BY_DEVICE).value is False


def test_holdout_of_a_device_flag_is_bucketed_by_device() -> None:
    context = loaded_context(id=NOT_HELD, device_id=HELD)
    assert evaluate_flag(MATCH_ALL | QUARTER, context, **BY_DEVICE).value == "holdout-7"


CONTINUITY: dict[str, Any] = {"ensure_experience_continuity": True}


@pytest.mark.parametrize(
    ("hash_keys", "anonymous", "expected_id"),
    [
        ({}, None, OUTSIDE),
        ({}, "", OUTSIDE),
        ({}, INSIDE, INSIDE),
        ({"flag-1": INSIDE}, None, INSIDE),
        ({"flag-1": INSIDE}, OUTSIDE, INSIDE),
        ({"other": INSIDE}, None, OUTSIDE),
    ],
)
def test_continuity_flag_keeps_the_bucket_after_login(
    hash_keys: dict[str, str], anonymous: str | None, expected_id: str
) -> None:
    """The order: the stored hash key, the anonymous id, the distinct id."""
    context = loaded_context(id=OUTSIDE, hash_keys=hash_keys, anonymous_id=anonymous)
    expected = evaluate_flag(HALF, loaded_context(id=expected_id))
    assert summarize(evaluate_flag(HALF, context, **CONTINUITY)) == summarize(expected)


def test_flag_without_continuity_is_bucketed_by_distinct_id() -> None:
    context = loaded_context(id=OUTSIDE, hash_keys={"flag-1": INSIDE}, anonymous_id=INSIDE)
    assert evaluate_flag(HALF, context).value is False


def test_continuity_does_not_affect_groups_and_devices() -> None:
    context = loaded_context(
        id=OUTSIDE, hash_keys={"flag-1": INSIDE}, groups={0: OUTSIDE}, device_id=OUTSIDE
    )
    of_company = build_filters({"rollout_percentage": 50}, aggregation_group_type_index=0)
    assert evaluate_flag(of_company, context, **CONTINUITY).value is False
    assert evaluate_flag(HALF, context, **CONTINUITY, **BY_DEVICE).value is False
