"""Definitions that nobody should have stored: each fails alone, and nothing raises."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.flags.model import Bucketing, Reason
from hedgerow.flags.subject import Subject
from tests.unit.flags.world import (
    EVERYBODY,
    a_cohort,
    a_flag,
    a_snapshot,
    asking,
    in_cohort,
    known,
    of_groups,
    outcome_of,
    outcomes,
    prop,
    told,
)
from tests.unit.generated import bounded

# Words that mean something somewhere, so that random documents go deep.
WORDS = [
    "groups properties rollout_percentage variant multivariate variants key value operator type",
    "payloads holdout holdout_groups super_groups feature_enrollment early_exit",
    "id aggregation_group_type_index group_type_index negation values person cohort flag group",
    "exact exclusion_percentage regex gt is_date_after semver_eq in not_in",
    "flag_evaluates_to icontains 1 2 -7d 1.2.3 true AND",
]
words = st.sampled_from(" ".join(WORDS).split())
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 200)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
    | st.text(max_size=5)
    | st.sampled_from(["\ud800", "(", "(a+)+$", ""])
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
)
objects = st.dictionaries(words, documents, max_size=5)

# The same with the right bones, so that what is odd sits in the leaves.
filters_of_conditions = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["country", "1", "id"]) | scalars,
        "value": documents,
        "operator": words | scalars,
        "type": st.sampled_from(["person", "group", "cohort", "flag", "static-cohort"]) | scalars,
        "group_type_index": st.integers(-1, 2) | scalars,
        "negation": scalars,
    },
)
conditions = st.fixed_dictionaries(
    {},
    optional={
        "properties": st.lists(filters_of_conditions, max_size=3) | documents,
        "rollout_percentage": st.floats(-10, 110) | scalars,
        "variant": scalars,
        "aggregation_group_type_index": st.integers(-1, 2) | scalars,
    },
)
skewed = st.fixed_dictionaries(
    {"groups": st.lists(conditions, max_size=3) | documents},
    optional={
        "multivariate": documents
        | st.fixed_dictionaries({"variants": st.lists(objects, max_size=3)}),
        "payloads": documents,
        "holdout": documents,
        "holdout_groups": st.lists(conditions, max_size=2) | documents,
        "super_groups": st.lists(conditions, max_size=2) | documents,
        "feature_enrollment": scalars,
        "early_exit": scalars,
        "aggregation_group_type_index": scalars,
    },
)
switches = st.fixed_dictionaries(
    {
        "active": st.booleans(),
        "ensure_experience_continuity": st.booleans(),
        "bucketing_identifier": st.sampled_from(Bucketing),
    }
)
DE = prop("country", "DE")


def subjects(properties: Mapping[str, Any]) -> list[Subject]:
    return [
        known(properties, groups={0: "acme"}, device_id="device"),
        known(properties, id=""),
        asking(properties),
    ]


def check(filters: Any, fields: Mapping[str, Any], properties: dict[str, Any]) -> None:
    snapshot = a_snapshot(
        a_flag(EVERYBODY, 1),
        a_flag(filters, 2, **fields),
        a_flag(of_groups({"properties": [DE]}), 3),
        cohorts=[a_cohort(1, {"type": "AND", "values": [DE]}), a_cohort(2)],
    )
    for subject in subjects(properties | {"country": "DE"}):
        found = outcomes(snapshot, subject)
        assert told(found[1]) == told(found[3]) == (True, "condition_match", 0)
        odd = found[2]
        assert isinstance(odd.value, bool | str)
        assert odd.reason in Reason
        assert odd.failed or not odd.error
        assert odd.value is False or odd.reason in (
            Reason.MATCH,
            Reason.SUPER_CONDITION,
            Reason.HOLDOUT,
        )


@given(objects, switches)
@bounded
def test_any_object_is_a_definition_that_hurts_no_other(filters: Any, fields: Any) -> None:
    check(filters, fields, {})


@given(skewed, switches, objects)
@bounded
def test_a_definition_with_anything_in_its_leaves_hurts_no_other(
    filters: Any, fields: Any, properties: Any
) -> None:
    check(filters, fields, properties)


@given(documents)
@bounded
def test_any_document_is_a_cohort_that_hurts_nobody_else(definition: Any) -> None:
    snapshot = a_snapshot(
        a_flag(of_groups({"properties": [in_cohort(1)]}), 1),
        a_flag(of_groups({"properties": [DE]}), 2),
        cohorts=[a_cohort(1, {} if definition is None else definition)],
    )
    for subject in subjects({"country": "DE"}):
        assert outcomes(snapshot, subject)[2].value is True


@given(st.dictionaries(words | st.text(max_size=3), documents, max_size=6))
@bounded
def test_any_properties_are_asked_without_harm(properties: Any) -> None:
    operators = ["exact", "is_not", "icontains", "regex", "gt", "is_date_before", "semver_gt"]
    asked = [of_groups({"properties": [prop("key", "1", operator)]}) for operator in operators]
    snapshot = a_snapshot(*(a_flag(filters, id) for id, filters in enumerate(asked, start=1)))
    found = snapshot.evaluate(snapshot.everything, known(properties))
    assert not any(outcome.failed for outcome in found)


@pytest.mark.parametrize("filters", [None, [], "text", 5, True, [{"groups": [{}]}]])
@pytest.mark.parametrize("active", [True, False])
def test_a_definition_that_is_no_object_hurts_no_other(filters: Any, active: bool) -> None:
    check(filters, {"active": active}, {})


@pytest.mark.parametrize(
    "filters",
    [
        {"groups": None},
        {"groups": {}} | {"groups": {"a": 1}},
        {"groups": "text"},
        {"groups": [None]},
        {"groups": [[]]},
        of_groups({"properties": "text"}),
        of_groups({"properties": [5]}),
        of_groups({"properties": [{}]}),
        of_groups({"properties": [{"key": "a", "value": "b", "operator": "no such"}]}),
        of_groups({"properties": [{"key": "a", "value": "b", "operator": "in"}]}),
        of_groups({"properties": [{"key": "a", "value": "b", "type": "no such"}]}),
        of_groups({"properties": [{"key": 5, "value": "b"}]}),
        of_groups({"properties": [{"key": "a", "value": "\ud800"}]}),
        of_groups({"rollout_percentage": "half"}),
        of_groups({"rollout_percentage": [50]}),
        of_groups({"rollout_percentage": 10**400}),
        of_groups({}, multivariate="text"),
        of_groups({}, multivariate={"variants": [{}]}),
        of_groups({}, multivariate={"variants": [{"key": "a", "rollout_percentage": "x"}]}),
        of_groups({}, holdout="text"),
        of_groups({}, holdout={"exclusion_percentage": 10}),
        of_groups({}, holdout_groups=["text"]),
        of_groups({}, super_groups=["text"]),
        of_groups({}, super_groups=[{"properties": [{}]}]),
    ],
)
def test_what_cannot_be_read_fails_and_says_why(filters: Any) -> None:
    outcome = outcome_of(filters)
    assert told(outcome) == (False, "evaluation_failed", None)
    assert outcome.failed
    assert outcome.error
    assert outcome.payload is None


def test_an_unreadable_flag_can_still_be_found_and_chosen() -> None:
    snapshot = a_snapshot(a_flag({"groups": 5}, 1))
    assert snapshot.of("flag-1") is not None
    [outcome] = snapshot.evaluate(snapshot.chosen(["flag-1"]), known())
    assert outcome.failed
