from typing import Any

import pytest

from hedgerow.flags.bucket import limit_below
from hedgerow.flags.model import Reason
from tests.unit.flags.world import (
    EVERYBODY,
    NOBODY,
    a_flag,
    a_snapshot,
    asking,
    group_prop,
    known,
    of_groups,
    outcome_of,
    prop,
    someone,
    told,
    variants,
)

DE = {"properties": [prop("country", "DE")]}
OLD = {"properties": [prop("age", 65, "gte")]}
GERMAN = {"country": "DE"}

# Within a tenth of all, and beyond half of them, for the flag of most tests here.
EARLY = someone("flag-1.", 0, 0.1)
LATE = someone("flag-1.", 0.5, 1)


def test_a_condition_without_anything_is_for_everybody() -> None:
    assert told(outcome_of(EVERYBODY)) == (True, "condition_match", 0)


def test_without_conditions_a_flag_is_for_nobody() -> None:
    outcome = outcome_of({"groups": []})
    assert outcome.value is False
    assert outcome.condition_index is None
    assert not outcome.failed


def test_all_filters_of_a_condition_must_hold() -> None:
    both = of_groups({"properties": [prop("country", "DE"), prop("age", 65, "gte")]})
    assert told(outcome_of(both, known({"country": "DE", "age": 70})))[0] is True
    assert told(outcome_of(both, known(GERMAN))) == (False, "no_condition_match", 0)
    assert told(outcome_of(both, known({"age": 70}))) == (False, "no_condition_match", 0)


def test_the_first_condition_that_holds_wins() -> None:
    filters = of_groups(OLD, DE, {})
    assert told(outcome_of(filters, known({"country": "DE", "age": 70})))[2] == 0
    assert told(outcome_of(filters, known(GERMAN)))[2] == 1
    assert told(outcome_of(filters, known()))[2] == 2


def test_a_condition_with_a_variant_does_not_come_before_its_turn() -> None:
    filters = of_groups({}, {"variant": "b"}, multivariate=variants(a=100, b=0))
    assert told(outcome_of(filters)) == ("a", "condition_match", 0)


def test_a_condition_gives_its_own_variant() -> None:
    filters = of_groups(
        DE | {"variant": "b"}, {"variant": "a"}, multivariate=variants(a=50, b=25, c=25)
    )
    assert told(outcome_of(filters, known(GERMAN))) == ("b", "condition_match", 0)
    assert told(outcome_of(filters, known())) == ("a", "condition_match", 1)


@pytest.mark.parametrize("variant", ["gone", "", None, 5, ["a"], {}])
def test_a_variant_that_the_flag_has_not_is_not_given(variant: Any) -> None:
    filters = of_groups({"variant": variant}, multivariate=variants(a=100))
    assert told(outcome_of(filters)) == ("a", "condition_match", 0)


def test_who_is_left_by_the_variants_gets_true() -> None:
    filters = of_groups({}, multivariate=variants(a=20, b=20))
    for above, up_to, value in [(0, 0.2, "a"), (0.2, 0.4, "b"), (0.4, 1, True)]:
        id = someone("flag-1.", above, up_to, "variant")
        assert outcome_of(filters, known(id=id)).value == value
        # The same with a second condition, which takes another way through.
        two = of_groups(DE, {}, multivariate=variants(a=20, b=20))
        assert told(outcome_of(two, known(id=id))) == (value, "condition_match", 1)


@pytest.mark.parametrize("multivariate", [None, {}, {"variants": None}, {"variants": []}])
def test_no_variants_is_a_boolean_flag(multivariate: Any) -> None:
    assert outcome_of(of_groups({}, multivariate=multivariate)).value is True


def test_variant_shares_are_added_up_as_floats() -> None:
    """0.1 + 0.2 is a little more than 0.3, and the sum is what counts."""
    [compiled] = a_snapshot(a_flag(of_groups({}, multivariate=variants(a=10, b=20)))).everything
    [condition] = compiled.conditions
    ends = [end for end, _ in condition.variants]
    assert ends == [limit_below(10 / 100), limit_below(10 / 100 + 20 / 100)]
    assert ends[1] != limit_below(0.3)


@pytest.mark.parametrize("percentage", [None, 100, 100.0])
def test_no_percentage_is_all(percentage: Any) -> None:
    filters = of_groups({"rollout_percentage": percentage})
    assert outcome_of(filters, known(id=LATE)).value is True


def test_a_rollout_takes_in_its_share() -> None:
    for filters in (of_groups({"rollout_percentage": 10}), of_groups(NOT_HERE, TENTH)):
        index = len(filters["groups"]) - 1
        assert told(outcome_of(filters, known(id=EARLY))) == (True, "condition_match", index)
        assert told(outcome_of(filters, known(id=LATE))) == (False, "out_of_rollout_bound", index)


NOT_HERE = {"properties": [prop("country", "nowhere")]}
TENTH = {"rollout_percentage": 10}


def test_fractions_of_a_percent_count() -> None:
    filters = of_groups({"rollout_percentage": 0.5})
    inside, outside = someone("flag-1.", 0, 0.005), someone("flag-1.", 0.005, 0.01)
    assert outcome_of(filters, known(id=inside)).value is True
    assert outcome_of(filters, known(id=outside)).value is False


def test_nobody_is_in_zero_percent() -> None:
    filters = of_groups({"rollout_percentage": 0})
    assert told(outcome_of(filters, known(id=EARLY))) == (False, "out_of_rollout_bound", 0)


def test_an_empty_id_is_in_every_rollout_with_the_first_variant() -> None:
    filters = of_groups({"rollout_percentage": 0}, multivariate=variants(a=1, b=99))
    assert outcome_of(filters, known(id="")).value == "a"


def test_an_id_counts_by_its_first_200_characters() -> None:
    for share in range(0, 101, 10):
        filters = of_groups({"rollout_percentage": share})
        short = outcome_of(filters, known(id="ü" * 200))
        assert outcome_of(filters, known(id="ü" * 200 + "more")).value is short.value


def test_who_is_out_of_one_rollout_may_be_in_the_next() -> None:
    filters = of_groups(TENTH, {"rollout_percentage": 100})
    assert told(outcome_of(filters, known(id=LATE))) == (True, "condition_match", 1)


def test_early_exit_ends_with_the_first_rollout_that_leaves_somebody_out() -> None:
    filters = of_groups(DE | TENTH, {}, early_exit=True)
    assert told(outcome_of(filters, known(GERMAN, id=LATE))) == (False, "out_of_rollout_bound", 0)
    assert told(outcome_of(filters, known(GERMAN, id=EARLY))) == (True, "condition_match", 0)
    assert told(outcome_of(filters, known(id=LATE))) == (True, "condition_match", 1)


@pytest.mark.parametrize("early_exit", [False, None])
def test_no_early_exit_unless_asked_for(early_exit: Any) -> None:
    filters = of_groups(TENTH, {}, early_exit=early_exit)
    assert told(outcome_of(filters, known(id=LATE))) == (True, "condition_match", 1)


COMPANY = {"aggregation_group_type_index": 0}


@pytest.mark.parametrize(
    ("groups", "told_reason", "index"),
    [
        # Out of the rollout says more than no match, which says more than no group.
        ([TENTH, DE], "out_of_rollout_bound", 0),
        ([DE, TENTH], "out_of_rollout_bound", 1),
        ([TENTH, DE, COMPANY], "out_of_rollout_bound", 0),
        ([DE, COMPANY], "no_condition_match", 0),
        ([COMPANY, DE], "no_condition_match", 1),
        ([COMPANY], "no_group_type", 0),
        # Of the same reason the last is told.
        ([DE, OLD], "no_condition_match", 1),
        ([TENTH, TENTH, DE], "out_of_rollout_bound", 1),
        ([COMPANY, COMPANY], "no_group_type", 1),
        ([DE, DE, TENTH, COMPANY, TENTH, OLD], "out_of_rollout_bound", 4),
    ],
)
def test_the_highest_reason_is_told(
    groups: list[dict[str, Any]], told_reason: str, index: int
) -> None:
    assert told(outcome_of(of_groups(*groups), known(id=LATE))) == (False, told_reason, index)


def test_a_flag_of_groups_counts_groups() -> None:
    filters = of_groups({"rollout_percentage": 50}, aggregation_group_type_index=0)
    inside, outside = someone("flag-1.", 0, 0.5), someone("flag-1.", 0.5, 1)
    for id in (inside, outside):
        assert outcome_of(filters, known(id=id, groups={0: inside})).value is True
        assert told(outcome_of(filters, known(id=id, groups={0: outside}))) == (
            False,
            "out_of_rollout_bound",
            0,
        )
        assert told(outcome_of(filters, known(id=id))) == (False, "no_group_type", 0)
        assert told(outcome_of(filters, known(id=id, groups={1: inside})))[1] == "no_group_type"


def test_a_groups_variant_is_the_groups() -> None:
    filters = of_groups(COMPANY, multivariate=variants(a=50, b=50))
    a, b = (someone("flag-1.", *ends, "variant") for ends in [(0, 0.49), (0.51, 1)])
    assert outcome_of(filters, known(id=b, groups={0: a})).value == "a"
    assert outcome_of(filters, known(id=a, groups={0: b})).value == "b"


def test_a_condition_may_count_otherwise_than_its_flag() -> None:
    person = {"aggregation_group_type_index": None}
    filters = of_groups(TENTH, TENTH | person, aggregation_group_type_index=0)
    assert told(outcome_of(filters, known(id=LATE, groups={0: EARLY})))[2] == 0
    assert told(outcome_of(filters, known(id=EARLY, groups={0: LATE})))[2] == 1
    assert told(outcome_of(filters, known(id=EARLY)))[2] == 1
    assert told(outcome_of(filters, known(id=LATE))) == (False, "out_of_rollout_bound", 1)


def test_filters_of_groups_ask_the_group() -> None:
    filters = of_groups(
        {"properties": [group_prop(0, "plan", "pro")]}, aggregation_group_type_index=0
    )
    acme: dict[str, Any] = {"groups": {0: "acme"}}
    assert outcome_of(filters, known(**acme, group_properties={0: {"plan": "Pro"}})).value is True
    assert outcome_of(filters, known(**acme, stored_groups={0: {"plan": "pro"}})).value is True
    assert told(outcome_of(filters, known({"plan": "pro"}, **acme)))[1] == "no_condition_match"
    # Properties without their group are nobody's.
    assert outcome_of(filters, known(group_properties={0: {"plan": "pro"}})).value is False


def test_filters_of_groups_may_ask_from_a_condition_on_persons() -> None:
    filters = of_groups({"properties": [group_prop(1, "plan", "free", "is_not")]})
    assert outcome_of(filters, known(groups={1: "acme"})).value is True
    assert told(outcome_of(filters, known(groups={0: "acme"})))[1] == "no_condition_match"


def test_a_filter_of_groups_without_an_index_asks_the_conditions_group() -> None:
    filters = of_groups(
        {"properties": [prop("plan", "pro", type="group")]}, aggregation_group_type_index=0
    )
    subject = known(groups={0: "acme"}, group_properties={0: {"plan": "pro"}})
    assert outcome_of(filters, subject).value is True


def test_a_group_without_a_name_is_no_group() -> None:
    filters = of_groups({}, aggregation_group_type_index=0)
    assert told(outcome_of(filters, known(groups={0: ""}))) == (False, "no_group_type", 0)


@pytest.mark.parametrize("given", [{}, {"$group_key": "other"}])
def test_the_groups_key_is_one_of_its_properties(given: dict[str, Any]) -> None:
    filters = of_groups(
        {"properties": [group_prop(0, "$group_key", "acme")]}, aggregation_group_type_index=0
    )
    for subject in (known, asking):
        somebody = subject(groups={0: "acme"}, group_properties={0: given})
        assert outcome_of(filters, somebody).value is True


def test_a_filter_without_a_type_is_about_the_person() -> None:
    for type in ({}, {"type": None}, {"type": "person"}, {"type": "event"}):
        filters = of_groups({"properties": [{"key": "country", "value": "DE"} | type]})
        assert outcome_of(filters, known(GERMAN)).value is True


@pytest.mark.parametrize("properties", [[], None])
def test_very_old_definitions_are_one_condition(properties: Any) -> None:
    assert told(outcome_of({"properties": properties})) == (True, "condition_match", 0)
    assert told(outcome_of({})) == (True, "condition_match", 0)
    old = {"properties": [prop("country", "DE")], "rollout_percentage": 10}
    assert told(outcome_of(old, known(GERMAN, id=EARLY))) == (True, "condition_match", 0)
    assert told(outcome_of(old, known(GERMAN, id=LATE))) == (False, "out_of_rollout_bound", 0)
    assert told(outcome_of(old, known(id=EARLY))) == (False, "no_condition_match", 0)


@pytest.mark.parametrize("filters", [EVERYBODY, NOBODY, {"groups": 5}])
def test_an_inactive_flag_is_off(filters: Any) -> None:
    assert told(outcome_of(filters, active=False)) == (False, "flag_disabled", None)


PAYLOADS = {"true": "1", "a": '{"x": 1}', "holdout-3": "3"}


@pytest.mark.parametrize(
    ("filters", "payload"),
    [
        (of_groups({}), "1"),
        (of_groups({}, multivariate=variants(a=100)), '{"x": 1}'),
        (of_groups({}, multivariate=variants(b=100)), None),
        (of_groups({}, multivariate=variants(a=0)), "1"),
        (of_groups({"variant": "a"}, multivariate=variants(b=100, a=0)), '{"x": 1}'),
        (of_groups({}, holdout={"id": 3, "exclusion_percentage": 100}), "3"),
        (NOBODY, None),
        (of_groups({"rollout_percentage": 0}), None),
        ({"groups": []}, None),
    ],
)
def test_only_a_match_has_a_payload(filters: dict[str, Any], payload: Any) -> None:
    assert outcome_of(filters | {"payloads": PAYLOADS}).payload == payload


@pytest.mark.parametrize("payload", ["", "null", "0", 0, False, None, {"a": 1}, [1]])
def test_a_payload_is_told_as_it_is_stored(payload: Any) -> None:
    assert outcome_of(EVERYBODY | {"payloads": {"true": payload}}).payload == payload


@pytest.mark.parametrize("payloads", [None, [], "true", 5])
def test_payloads_that_are_none_are_none(payloads: Any) -> None:
    outcome = outcome_of(EVERYBODY | {"payloads": payloads})
    assert outcome.value is True
    assert outcome.payload is None


def test_the_variant_is_the_value_when_it_is_no_truth() -> None:
    assert outcome_of(EVERYBODY).variant is None
    assert outcome_of(NOBODY).variant is None
    assert outcome_of(of_groups({}, multivariate=variants(a=100))).variant == "a"


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
def test_reasons_are_told_in_posthogs_words(reason: str, index: int | None, text: str) -> None:
    assert Reason(reason).description(index) == text


def test_every_reason_has_a_text() -> None:
    assert all(reason.description(None) for reason in Reason)
