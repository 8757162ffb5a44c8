"""An invalid stored definition fails alone, and nothing raises."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.flags.evaluation.evaluation_context import EvaluationContext
from hedgerow.flags.model import Bucketing, Reason
from tests.unit.flags.factories import (
    MATCH_ALL,
    build_filters,
    evaluate_all,
    evaluate_flag,
    in_cohort,
    loaded_context,
    make_cohort,
    make_flag,
    make_snapshot,
    prop,
    request_context,
    summarize,
)
from tests.unit.generated import bounded

# Words with a meaning in definitions, so that random documents reach deep code paths.
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

# The same with a valid structure, so that only the leaves are invalid.
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
structured = st.fixed_dictionaries(
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


def make_contexts(properties: Mapping[str, Any]) -> list[EvaluationContext]:
    return [
        loaded_context(properties, groups={0: "acme"}, device_id="device"),
        loaded_context(properties, id=""),
        request_context(properties),
    ]


def check(filters: Any, fields: Mapping[str, Any], properties: dict[str, Any]) -> None:
    snapshot = make_snapshot(
        make_flag(MATCH_ALL, 1),
        make_flag(filters, 2, **fields),
        make_flag(build_filters({"properties": [DE]}), 3),
        cohorts=[make_cohort(1, {"type": "AND", "values": [DE]}), make_cohort(2)],
    )
    for context in make_contexts(properties | {"country": "DE"}):
        found = evaluate_all(snapshot, context)
        assert summarize(found[1]) == summarize(found[3]) == (True, "condition_match", 0)
        outcome = found[2]
        assert isinstance(outcome.value, bool | str)
        assert outcome.reason in Reason
        assert outcome.has_failed or not outcome.error
        assert outcome.value is False or outcome.reason in (
            Reason.MATCH,
            Reason.SUPER_CONDITION,
            Reason.HOLDOUT,
        )


@given(objects, switches)
@bounded
def test_any_object_as_definition_affects_no_other_flag(filters: Any, fields: Any) -> None:
    check(filters, fields, {})


@given(structured, switches, objects)
@bounded
def test_definition_with_any_leaves_affects_no_other_flag(
    filters: Any, fields: Any, properties: Any
) -> None:
    check(filters, fields, properties)


@given(documents)
@bounded
def test_invalid_cohort_affects_no_other_flag(definition: Any) -> None:
    snapshot = make_snapshot(
        make_flag(build_filters({"properties": [in_cohort(1)]}), 1),
        make_flag(build_filters({"properties": [DE]}), 2),
        cohorts=[make_cohort(1, {} if definition is None else definition)],
    )
    for context in make_contexts({"country": "DE"}):
        assert evaluate_all(snapshot, context)[2].value is True


@given(st.dictionaries(words | st.text(max_size=3), documents, max_size=6))
@bounded
def test_any_properties_can_be_evaluated(properties: Any) -> None:
    operators = ["exact", "is_not", "icontains", "regex", "gt", "is_date_before", "semver_gt"]
    requested = [
        build_filters({"properties": [prop("key", "1", operator)]}) for operator in operators
    ]
    snapshot = make_snapshot(
        *(make_flag(filters, id) for id, filters in enumerate(requested, start=1))
    )
    found = snapshot.evaluate(snapshot.all_flags, loaded_context(properties))
    assert not any(outcome.has_failed for outcome in found)


@pytest.mark.parametrize("filters", [None, [], "text", 5, True, [{"groups": [{}]}]])
@pytest.mark.parametrize("active", [True, False])
def test_definition_that_is_not_an_object_affects_no_other_flag(filters: Any, active: bool) -> None:
    check(filters, {"active": active}, {})


@pytest.mark.parametrize(
    "filters",
    [
        {"groups": None},
        {"groups": {}} | {"groups": {"a": 1}},
        {"groups": "text"},
        {"groups": [None]},
        {"groups": [[]]},
        build_filters({"properties": "text"}),
        build_filters({"properties": [5]}),
        build_filters({"properties": [{}]}),
        build_filters({"properties": [{"key": "a", "value": "b", "operator": "no such"}]}),
        build_filters({"properties": [{"key": "a", "value": "b", "operator": "in"}]}),
        build_filters({"properties": [{"key": "a", "value": "b", "type": "no such"}]}),
        build_filters({"properties": [{"key": 5, "value": "b"}]}),
        build_filters({"properties": [{"key": "a", "value": "\ud800"}]}),
        build_filters({"rollout_percentage": "half"}),
        build_filters({"rollout_percentage": [50]}),
        build_filters({"rollout_percentage": 10**400}),
        build_filters({}, multivariate="text"),
        build_filters({}, multivariate={"variants": [{}]}),
        build_filters({}, multivariate={"variants": [{"key": "a", "rollout_percentage": "x"}]}),
        build_filters({}, holdout="text"),
        build_filters({}, holdout={"exclusion_percentage": 10}),
        build_filters({}, holdout_groups=["text"]),
        build_filters({}, super_groups=["text"]),
        build_filters({}, super_groups=[{"properties": [{}]}]),
    ],
)
def test_invalid_definition_fails_with_a_reason(filters: Any) -> None:
    outcome = evaluate_flag(filters)
    assert summarize(outcome) == (False, "evaluation_failed", None)
    assert outcome.has_failed
    assert outcome.error
    assert outcome.payload is None


def test_invalid_flag_can_be_found_and_selected() -> None:
    snapshot = make_snapshot(make_flag({"groups": 5}, 1))
    assert snapshot.get("flag-1") is not None
    [outcome] = snapshot.evaluate(snapshot.select(["flag-1"]), loaded_context())
    assert outcome.has_failed
