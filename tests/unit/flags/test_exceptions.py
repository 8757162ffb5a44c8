"""What comes before a flag's conditions: enrolment, its older form, holdouts. And the identifiers
that are not distinct ids."""

from typing import Any

import pytest

from hedgerow.flags.model import Bucketing
from tests.unit.flags.world import (
    EVERYBODY,
    NOBODY,
    known,
    of_groups,
    outcome_of,
    prop,
    someone,
    told,
    variants,
)

ENROLLED = "$feature_enrollment/flag-1"
ENROLMENT = {"feature_enrollment": True}


@pytest.mark.parametrize("choice", [True, "true"])
def test_who_enrolled_has_the_flag(choice: Any) -> None:
    for filters in (NOBODY, EVERYBODY, of_groups()):
        outcome = outcome_of(
            filters | ENROLMENT | {"payloads": {"true": "1"}}, known({ENROLLED: choice})
        )
        assert told(outcome) == (True, "super_condition_value", 0)
        assert outcome.payload == "1"


@pytest.mark.parametrize("choice", [False, "false", "True", "TRUE", "yes", 1, "", None, [], [True]])
def test_who_chose_anything_else_has_not(choice: Any) -> None:
    outcome = outcome_of(EVERYBODY | ENROLMENT, known({ENROLLED: choice}))
    assert told(outcome) == (False, "super_condition_value", 0)


def test_who_did_not_choose_is_asked_the_conditions() -> None:
    assert told(outcome_of(EVERYBODY | ENROLMENT)) == (True, "condition_match", 0)
    assert told(outcome_of(NOBODY | ENROLMENT)) == (False, "no_condition_match", 0)


def test_enrolment_gives_no_variant() -> None:
    filters = of_groups({}, multivariate=variants(a=100)) | ENROLMENT
    assert outcome_of(filters, known({ENROLLED: True})).value is True
    assert outcome_of(filters, known()).value == "a"


def test_enrolment_is_the_persons_even_when_groups_count() -> None:
    filters = of_groups({}, aggregation_group_type_index=0) | ENROLMENT
    assert outcome_of(filters, known({ENROLLED: True})).value is True


@pytest.mark.parametrize("enrollment", [False, None, "true", 1])
def test_enrolment_counts_only_when_it_is_on(enrollment: Any) -> None:
    filters = EVERYBODY | {"feature_enrollment": enrollment}
    assert told(outcome_of(filters, known({ENROLLED: False}))) == (True, "condition_match", 0)


def test_enrolment_in_another_flag_is_not_in_this() -> None:
    outcome = outcome_of(NOBODY | ENROLMENT, known({"$feature_enrollment/other": True}))
    assert told(outcome)[1] == "no_condition_match"


def test_enrolment_comes_before_the_older_form_and_the_holdout() -> None:
    before = {
        "super_groups": [{"properties": [prop("beta", "true")]}],
        "holdout": {"id": 1, "exclusion_percentage": 100},
    }
    filters = EVERYBODY | ENROLMENT | before
    assert told(outcome_of(filters, known({ENROLLED: False, "beta": "true"}))) == (
        False,
        "super_condition_value",
        0,
    )
    assert told(outcome_of(filters, known({"beta": "true"}))) == (True, "super_condition_value", 0)
    assert told(outcome_of(filters)) == ("holdout-1", "holdout_condition_value", None)


def with_super_group(conditions: Any, *properties: Any, **fields: Any) -> dict[str, Any]:
    return {**conditions, "super_groups": [{"properties": list(properties), **fields}]}


def test_the_older_form_is_final_for_who_has_its_property() -> None:
    beta = prop("beta", ["true"])
    assert told(outcome_of(with_super_group(NOBODY, beta), known({"beta": "true"}))) == (
        True,
        "super_condition_value",
        0,
    )
    assert told(outcome_of(with_super_group(EVERYBODY, beta), known({"beta": "no"}))) == (
        False,
        "super_condition_value",
        0,
    )
    assert told(outcome_of(with_super_group(EVERYBODY, beta))) == (True, "condition_match", 0)


def test_the_older_form_has_a_rollout() -> None:
    filters = with_super_group(EVERYBODY, prop("beta", ["true"]), rollout_percentage=50)
    for ends, value in [((0, 0.5), True), ((0.5, 1), False)]:
        outcome = outcome_of(filters, known({"beta": "true"}, id=someone("flag-1.", *ends)))
        assert told(outcome) == (value, "super_condition_value", 0)


def test_the_older_form_without_properties_is_its_rollout() -> None:
    filters = with_super_group(EVERYBODY, rollout_percentage=0)
    assert told(outcome_of(filters)) == (False, "super_condition_value", 0)


def test_only_the_first_super_group_counts() -> None:
    filters = with_super_group(NOBODY, prop("beta", "true"))
    filters["super_groups"].append({"properties": [prop("gamma", "true")]})
    assert told(outcome_of(filters, known({"gamma": "true"})))[1] == "no_condition_match"


@pytest.mark.parametrize("groups", [None, []])
def test_no_super_groups_are_none(groups: Any) -> None:
    filters = EVERYBODY | {"super_groups": groups, "holdout_groups": groups, "holdout": None}
    assert told(outcome_of(filters)) == (True, "condition_match", 0)


HELD, NOT_HELD = someone("holdout-", 0, 0.25), someone("holdout-", 0.25, 1)
QUARTER = {"holdout": {"id": 7, "exclusion_percentage": 25}}
OLD_QUARTER = {
    "holdout_groups": [{"variant": "holdout-7", "properties": [], "rollout_percentage": 25}]
}


@pytest.mark.parametrize("holdout", [QUARTER, OLD_QUARTER])
@pytest.mark.parametrize("conditions", [EVERYBODY, NOBODY])
def test_who_is_held_out_gets_the_holdout_in_every_flag(conditions: Any, holdout: Any) -> None:
    for key in ("one", "another"):
        held = outcome_of(conditions | holdout, known(id=HELD), key=key)
        assert (held.value, held.reason.value) == ("holdout-7", "holdout_condition_value")
        other = outcome_of(conditions | holdout, known(id=NOT_HELD), key=key)
        assert told(other) == told(outcome_of(conditions, known(id=NOT_HELD), key=key))


def test_a_holdout_has_no_condition() -> None:
    assert outcome_of(EVERYBODY | QUARTER, known(id=HELD)).condition_index is None


@pytest.mark.parametrize(
    ("percentage", "held"), [(0, False), (-5, False), (100, True), (250, True), (25.5, True)]
)
def test_a_holdouts_percentage_is_kept_within_bounds(percentage: float, held: bool) -> None:
    filters = EVERYBODY | {"holdout": {"id": 7, "exclusion_percentage": percentage}}
    assert (outcome_of(filters, known(id=HELD)).value == "holdout-7") is held


def test_the_check_vectors_of_holdouts() -> None:
    for id, at in [("user_123", 24.823847221312947), ("acme-inc", 9.653386325608826)]:
        for off, value in [(0.0001, "holdout-7"), (-0.0001, True)]:
            holdout = {"id": 7, "exclusion_percentage": at + off}
            assert outcome_of(EVERYBODY | {"holdout": holdout}, known(id=id)).value == value


def test_a_holdout_of_groups_holds_out_groups() -> None:
    filters = of_groups({}, aggregation_group_type_index=0) | QUARTER
    assert outcome_of(filters, known(id=NOT_HELD, groups={0: HELD})).value == "holdout-7"
    assert outcome_of(filters, known(id=HELD, groups={0: NOT_HELD})).value is True
    assert told(outcome_of(filters, known(id=HELD))) == (False, "no_group_type", 0)


def test_an_old_holdout_with_filters_is_ignored() -> None:
    filters = EVERYBODY | {
        "holdout_groups": [{"variant": "holdout-7", "properties": [prop("a", "b")]}]
    }
    assert told(outcome_of(filters)) == (True, "condition_match", 0)


def test_an_old_holdout_without_a_percentage_is_for_everybody() -> None:
    filters = EVERYBODY | {"holdout_groups": [{"variant": "holdout-7", "properties": []}]}
    assert outcome_of(filters).value == "holdout-7"
    assert outcome_of(EVERYBODY | {"holdout_groups": [{}]}).value == "holdout"


def test_the_newer_holdout_wins() -> None:
    filters = EVERYBODY | OLD_QUARTER | {"holdout": {"id": 8, "exclusion_percentage": 100}}
    assert outcome_of(filters, known(id=HELD)).value == "holdout-8"


HALF = of_groups({"rollout_percentage": 50}, multivariate=variants(a=50, b=50))
INSIDE, OUTSIDE = someone("flag-1.", 0, 0.5), someone("flag-1.", 0.5, 1)
BY_DEVICE: dict[str, Any] = {"bucketing_identifier": Bucketing.DEVICE_ID}


def test_a_flag_may_count_devices() -> None:
    own = outcome_of(HALF, known(id=INSIDE))
    for id in (INSIDE, OUTSIDE):
        assert outcome_of(HALF, known(id=id, device_id=INSIDE), **BY_DEVICE).value == own.value
        out = outcome_of(HALF, known(id=id, device_id=OUTSIDE), **BY_DEVICE)
        assert told(out) == (False, "out_of_rollout_bound", 0)


@pytest.mark.parametrize("device", [None, ""])
@pytest.mark.parametrize("filters", [HALF, EVERYBODY, of_groups({}, {})])
def test_without_a_device_such_a_flag_is_off(filters: dict[str, Any], device: str | None) -> None:
    outcome = outcome_of(filters, known(id=INSIDE, device_id=device), **BY_DEVICE)
    index = len(filters["groups"]) - 1
    assert told(outcome) == (False, "out_of_rollout_bound", index)


def test_without_a_device_a_condition_is_skipped_before_it_asks_anything() -> None:
    filters = of_groups({"properties": [prop("country", "nowhere")]})
    assert told(outcome_of(filters, known(), **BY_DEVICE)) == (False, "out_of_rollout_bound", 0)


def test_a_condition_skipped_for_want_of_a_device_is_no_early_exit() -> None:
    filters = of_groups({}, {"aggregation_group_type_index": 0}, early_exit=True)
    outcome = outcome_of(filters, known(groups={0: "acme"}), **BY_DEVICE)
    assert told(outcome) == (True, "condition_match", 1)


def test_a_group_counts_as_a_group_also_in_a_flag_of_devices() -> None:
    filters = of_groups({"rollout_percentage": 50}, aggregation_group_type_index=0)
    assert outcome_of(filters, known(groups={0: INSIDE}), **BY_DEVICE).value is True
    subject = known(groups={0: OUTSIDE}, device_id=INSIDE)
    assert outcome_of(filters, subject, **BY_DEVICE).value is False


def test_a_device_is_held_out_as_a_device() -> None:
    subject = known(id=NOT_HELD, device_id=HELD)
    assert outcome_of(EVERYBODY | QUARTER, subject, **BY_DEVICE).value == "holdout-7"


CONTINUED: dict[str, Any] = {"ensure_experience_continuity": True}


@pytest.mark.parametrize(
    ("hash_keys", "anonymous", "counted"),
    [
        ({}, None, OUTSIDE),
        ({}, "", OUTSIDE),
        ({}, INSIDE, INSIDE),
        ({"flag-1": INSIDE}, None, INSIDE),
        ({"flag-1": INSIDE}, OUTSIDE, INSIDE),
        ({"other": INSIDE}, None, OUTSIDE),
    ],
)
def test_who_logs_in_counts_as_before(
    hash_keys: dict[str, str], anonymous: str | None, counted: str
) -> None:
    """By the identifier that is stored, else the anonymous one, else the distinct id."""
    subject = known(id=OUTSIDE, hash_keys=hash_keys, anonymous_id=anonymous)
    expected = outcome_of(HALF, known(id=counted))
    assert told(outcome_of(HALF, subject, **CONTINUED)) == told(expected)


def test_other_flags_count_by_the_distinct_id() -> None:
    subject = known(id=OUTSIDE, hash_keys={"flag-1": INSIDE}, anonymous_id=INSIDE)
    assert outcome_of(HALF, subject).value is False


def test_continuity_leaves_groups_and_devices_alone() -> None:
    subject = known(
        id=OUTSIDE, hash_keys={"flag-1": INSIDE}, groups={0: OUTSIDE}, device_id=OUTSIDE
    )
    of_company = of_groups({"rollout_percentage": 50}, aggregation_group_type_index=0)
    assert outcome_of(of_company, subject, **CONTINUED).value is False
    assert outcome_of(HALF, subject, **CONTINUED, **BY_DEVICE).value is False
