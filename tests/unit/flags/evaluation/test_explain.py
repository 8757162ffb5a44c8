"""An explanation agrees with the evaluation of any flag, and names the source of each value."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.filters.values import MISSING
from hedgerow.flags.evaluation.decide import EvaluationRequest
from hedgerow.flags.evaluation.explain import explain_flags
from hedgerow.flags.evaluation.explanation import (
    Explanation,
    FilterExplanation,
    FilterGroupExplanation,
    Source,
    Verdict,
    to_json,
)
from hedgerow.flags.model import Bucketing, Flag, Reason
from hedgerow.flags.store import StoredData
from hedgerow.lib import jsonio
from hedgerow.persons.model import Cohort
from tests.unit.fake_time import START
from tests.unit.flags.factories import (
    MATCH_ALL,
    build_filters,
    depends_on,
    find_identifier,
    group_prop,
    in_cohort,
    make_cohort,
    make_flag,
    make_snapshot,
    prop,
    variants,
)
from tests.unit.generated import thorough

EARLY = find_identifier("flag-1.", 0, 0.1)
LATE = find_identifier("flag-1.", 0.5, 1)


def build_stored_data(**fields: Any) -> StoredData:
    empty: dict[str, Any] = {
        "person_id": None,
        "properties": {},
        "cohorts": frozenset(),
        "hash_keys": {},
        "groups": {},
    }
    return StoredData(**empty | fields)


def explain_all(
    *flags: Flag,
    cohorts: tuple[Cohort, ...] = (),
    stored_data: StoredData | None = None,
    id: str = "user",
    **requested: Any,
) -> dict[str, Explanation]:
    snapshot = make_snapshot(*flags, cohorts=cohorts)
    found = explain_flags(
        snapshot,
        EvaluationRequest(distinct_id=id, **requested),
        stored_data or build_stored_data(),
        START,
    )
    return {each.outcome.flag.key: each for each in found}


def explain_one(
    filters: Any, *, flag: Mapping[str, Any] | None = None, **fields: Any
) -> Explanation:
    """Explain a single flag."""
    [explanation] = explain_all(make_flag(filters, **flag or {}), **fields).values()
    return explanation


def verdicts(explanation: Explanation) -> list[tuple[Verdict, bool]]:
    return [(each.verdict, each.is_reached) for each in explanation.conditions]


def test_each_filter_shows_its_value_and_source() -> None:
    requested = [
        prop("country", "DE"),
        prop("age", 40, "gt"),
        prop("plan", "pro"),
        prop("distinct_id", "user"),
        prop("$initial_browser", "Firefox"),
        prop("email", operator="is_not_set"),
    ]
    explanation = explain_one(
        build_filters({"properties": requested}),
        stored_data=build_stored_data(
            properties={"age": 41, "country": "FR", "browser": "Firefox"}
        ),
        person_properties={"country": "DE"},
    )
    [condition] = explanation.conditions
    assert [(each.key, each.found, each.source, each.holds) for each in condition.filters] == [
        ("country", "DE", Source.GIVEN, True),
        ("age", 41, Source.STORED, True),
        ("plan", MISSING, Source.MISSING, False),
        ("distinct_id", "user", Source.GIVEN, True),
        ("$initial_browser", "Firefox", Source.STORED, True),
        ("email", MISSING, Source.MISSING, True),
    ]
    assert condition.verdict is Verdict.NO_MATCH
    assert explanation.outcome.reason is Reason.NO_MATCH


def test_null_is_shown_as_a_value() -> None:
    [condition] = explain_one(
        build_filters({"properties": [prop("plan", operator="is_set")]}),
        person_properties={"plan": None},
    ).conditions
    assert [(each.found, each.source, each.holds) for each in condition.filters] == [
        (None, Source.GIVEN, True)
    ]


def test_match_ends_the_evaluation_and_shows_the_bucket_position() -> None:
    filters = build_filters({"rollout_percentage": 10}, {}, multivariate=variants(a=25, b=75))
    explanation = explain_one(filters, id=EARLY)
    assert verdicts(explanation) == [(Verdict.MATCHES, True), (Verdict.MATCHES, False)]
    rollout, variation = explanation.conditions[0].rollout, explanation.conditions[0].variants
    assert (rollout.percentage, rollout.counted_by, rollout.identifier) == (
        10,
        "distinct id",
        EARLY,
    )
    assert rollout.place is not None
    assert 0 < rollout.place <= 10
    assert variation is not None
    assert [(each.key, each.start, each.end) for each in variation.ranges] == [
        ("a", 0, 25),
        ("b", 25, 100),
    ]
    assert variation.drawn == explanation.outcome.value
    assert variation.forced is None


def test_missed_rollout_continues_unless_the_flag_exits_early() -> None:
    groups: list[dict[str, Any]] = [{"rollout_percentage": 10}, {"rollout_percentage": 20}, {}]
    without_exit = explain_one(build_filters(*groups), id=LATE)
    assert verdicts(without_exit) == [
        (Verdict.OUT, True),
        (Verdict.OUT, True),
        (Verdict.MATCHES, True),
    ]
    with_exit = explain_one(build_filters(*groups, early_exit=True), id=LATE)
    assert verdicts(with_exit) == [
        (Verdict.OUT, True),
        (Verdict.OUT, False),
        (Verdict.MATCHES, False),
    ]
    assert with_exit.outcome.reason is Reason.OUT_OF_ROLLOUT


def test_forced_variant_is_explained() -> None:
    filters = build_filters({"variant": "b"}, multivariate=variants(a=100, b=0))
    explanation = explain_one(filters)
    assert explanation.conditions[0].variants is not None
    assert explanation.conditions[0].variants.forced == explanation.outcome.value == "b"


def test_groups_are_explained_by_their_type() -> None:
    filters = build_filters(
        {"properties": [group_prop(0, "plan", "pro"), group_prop(0, "$group_key", "acme")]},
        aggregation_group_type_index=0,
    )
    no_group = explain_one(filters)
    assert verdicts(no_group) == [(Verdict.NO_GROUP, True)]
    assert no_group.outcome.reason is Reason.NO_GROUP_TYPE
    found = explain_one(
        filters,
        groups={"company": "acme"},
        stored_data=build_stored_data(groups={0: {"plan": "pro"}}),
    )
    [condition] = found.conditions
    assert (condition.group_type, condition.rollout.counted_by) == ("company", "company")
    assert condition.rollout.identifier == "acme"
    assert [(each.about, each.found, each.source) for each in condition.filters] == [
        ("company", "pro", Source.STORED),
        ("company", "acme", Source.GIVEN),
    ]
    over = explain_one(
        filters,
        groups={"company": "acme"},
        group_properties={"company": {"plan": "free"}},
        stored_data=build_stored_data(groups={0: {"plan": "pro"}}),
    )
    first = over.conditions[0].filters[0]
    assert (first.found, first.source, first.holds) == ("free", Source.GIVEN, False)


def test_cohorts_are_explained_by_name() -> None:
    cohorts = (
        make_cohort(7, name="Testers"),
        make_cohort(8, {"type": "AND", "values": [prop("age", 40, "gt")]}, name="Old"),
    )
    filters = build_filters(
        {"properties": [in_cohort(7), in_cohort(8, "not_in"), in_cohort("7", None)]}
    )
    explanation = explain_one(
        filters,
        cohorts=cohorts,
        stored_data=build_stored_data(cohorts=frozenset({7}), properties={"age": 41}),
    )
    [condition] = explanation.conditions
    assert [(each.key, each.operator, each.found, each.holds) for each in condition.filters] == [
        ("Testers", "in", True, True),
        ("Old", "not_in", True, False),
        ("Testers", "in", True, True),
    ]


def explain_cohort(
    definition: Any, *others: Cohort, person: Mapping[str, Any] | None = None
) -> FilterGroupExplanation:
    """Explain a cohort with this definition."""
    [condition] = explain_one(
        build_filters({"properties": [in_cohort(1)]}),
        cohorts=(make_cohort(1, definition, name="It"), *others),
        stored_data=build_stored_data(properties=person or {}, cohorts=frozenset({7})),
    ).conditions
    [filter] = condition.filters
    assert filter.inside is not None
    assert filter.inside.holds is filter.found
    return filter.inside


def outline(part: FilterExplanation | FilterGroupExplanation) -> Any:
    """Return groups as lists and filters by key, each with its result."""
    if isinstance(part, FilterGroupExplanation):
        return part.wants, part.holds, [outline(each) for each in part.parts]
    key = f"not {part.key}" if part.negated else part.key
    if part.inside is not None:
        return key, part.holds, outline(part.inside)
    return key, part.holds


def any_of(*values: Any) -> dict[str, Any]:
    return {"type": "OR", "values": list(values)}


def all_of(*values: Any) -> dict[str, Any]:
    return {"type": "AND", "values": list(values)}


def test_nested_cohort_definitions_are_explained() -> None:
    definition = any_of(
        all_of(prop("age", 40, "gt"), prop("country", "DE")),
        all_of(prop("plan", "pro", negation=True), prop("age", 40, "gt", negation=True)),
        any_of(all_of(prop("country", "FR"))),
    )
    inside = explain_cohort(definition, person={"age": 41, "country": "FR"})
    assert outline(inside) == (
        "any",
        True,
        [
            ("all", False, [("age", True), ("country", False)]),
            ("all", False, [("not plan", True), ("not age", False)]),
            ("any", True, [("all", True, [("country", True)])]),
        ],
    )
    first = inside.parts[0]
    assert isinstance(first, FilterGroupExplanation)
    assert [
        (each.found, each.source) for each in first.parts if isinstance(each, FilterExplanation)
    ] == [
        (41, Source.STORED),
        ("FR", Source.STORED),
    ]


def test_nested_cohort_is_explained_once() -> None:
    inner = make_cohort(2, all_of(prop("age", 40, "gt")), name="Old")
    listed = make_cohort(7, name="Testers")
    definition = all_of(in_cohort(2), in_cohort(7), {**in_cohort(2), "negation": True})
    inside = explain_cohort(definition, inner, listed, person={"age": 41})
    assert outline(inside) == (
        "all",
        False,
        [("Old", True, ("all", True, [("age", True)])), ("Testers", True), ("not Old", False)],
    )
    again = inside.parts[2]
    assert isinstance(again, FilterExplanation)
    assert (again.is_told_before, again.found) == (True, True)


def test_repeated_cohorts_are_explained_in_bounded_time() -> None:
    doubled = [make_cohort(id, all_of(in_cohort(id - 1), in_cohort(id - 1))) for id in range(3, 24)]
    inside = explain_cohort(
        all_of(in_cohort(23)), *doubled, make_cohort(2, all_of(prop("age", 41)))
    )
    assert len(repr(inside)) < 40_000


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ({}, ("any", False, [])),
        (all_of(), ("all", True, [])),
        (any_of(), ("any", True, [])),
        (prop("age", 41), ("all", True, [("age", True)])),
    ],
)
def test_empty_cohort_definitions_are_explained(definition: Any, expected: Any) -> None:
    assert outline(explain_cohort(definition, person={"age": 41})) == expected


LEAVES = st.builds(
    lambda leaf, negation: {**leaf, "negation": negation},
    st.sampled_from([prop("age", 40, "gt"), prop("country", "DE"), in_cohort(2), in_cohort(7)]),
    st.booleans(),
)


@thorough
@given(
    definition=st.recursive(
        LEAVES, lambda inner: st.builds(all_of, inner, inner) | st.builds(any_of, inner, inner)
    ),
    person=st.dictionaries(st.sampled_from(["country", "age"]), st.sampled_from(["DE", 41])),
)
def test_cohort_explanation_agrees_with_the_evaluation(definition: Any, person: Any) -> None:
    inner = make_cohort(2, any_of(prop("country", "DE"), prop("age", 41)))
    explain_cohort(definition, inner, make_cohort(7), person=person)


def test_dependencies_are_explained_with_key_and_value() -> None:
    found = explain_all(
        make_flag(build_filters({}, multivariate=variants(a=100)), 1),
        make_flag(build_filters({"properties": [depends_on(1, "a")]}), 2),
        make_flag(MATCH_ALL, 3, active=False),
        make_flag(build_filters({"properties": [depends_on(3), depends_on(99)]}), 4),
        make_flag(build_filters({"properties": [depends_on(4)]}), 5),
    )
    assert [(each.key, each.value, each.problem) for each in found["flag-2"].dependencies] == [
        ("flag-1", "a", "")
    ]
    [filter] = found["flag-2"].conditions[0].filters
    assert (filter.key, filter.found, filter.source) == ("flag-1", "a", Source.EVALUATED)
    assert found["flag-4"].outcome.reason is Reason.MISSING_DEPENDENCY
    assert [(each.key, each.problem) for each in found["flag-4"].dependencies] == [
        ("flag-3", "is not active"),
        ("99", "does not exist"),
    ]
    assert [(each.key, each.problem) for each in found["flag-5"].dependencies] == [
        ("flag-4", "cannot be evaluated")
    ]


def test_json_contains_nested_cohorts_and_null_for_missing_values() -> None:
    cohort = make_cohort(1, any_of(prop("age", 41), prop("tags", ["a"])), name="It")
    explanation = explain_one(
        build_filters({"properties": [in_cohort(1)]}),
        cohorts=(cohort,),
        person_properties={"tags": ["a", {"b": []}]},
    )
    [condition] = jsonio.decode(jsonio.encode(to_json(explanation)))["conditions"]
    [filter] = condition["filters"]
    assert (filter["inside"]["wants"], filter["inside"]["holds"]) == ("any", False)
    assert [(each["found"], each["source"]) for each in filter["inside"]["parts"]] == [
        (None, "missing"),
        (["a", {"b": []}], "given"),
    ]


def test_only_requested_flags_are_explained() -> None:
    found = explain_all(
        make_flag(MATCH_ALL, 1),
        make_flag(build_filters({"properties": [depends_on(1)]}), 2),
        flag_keys=frozenset({"flag-2"}),
    )
    assert list(found) == ["flag-2"]
    assert found["flag-2"].outcome.value is True


@pytest.mark.parametrize(("share", "decides"), [(100, True), (0, False)])
def test_holdout_is_explained(share: float, decides: bool) -> None:
    explanation = explain_one(build_filters({}, holdout={"id": 3, "exclusion_percentage": share}))
    [exception] = explanation.exceptions
    assert (exception.kind, exception.decides) == ("holdout", decides)
    assert exception.rollout is not None
    assert exception.rollout.percentage == share
    assert verdicts(explanation) == [(Verdict.MATCHES, not decides)]
    assert (explanation.outcome.reason is Reason.HOLDOUT) is decides


@pytest.mark.parametrize(
    ("choice", "decides", "value"),
    [({}, False, True), (True, True, True), ("true", True, True), ("True", True, False)],
)
def test_enrollment_is_explained(choice: Any, decides: bool, value: bool) -> None:
    properties = {} if choice == {} else {"$feature_enrollment/flag-1": choice}
    explanation = explain_one(
        build_filters({}, feature_enrollment=True), person_properties=properties
    )
    [exception] = explanation.exceptions
    assert (exception.kind, exception.decides) == ("enrolment", decides)
    assert explanation.outcome.value is value
    if decides:
        assert exception.filters[0].holds is value
        assert explanation.outcome.reason is Reason.SUPER_CONDITION


def test_super_condition_is_explained() -> None:
    group = {"properties": [prop("$feature_enrollment/flag-1", ["true"])]}
    filters = build_filters({}, super_groups=[group])
    requested = {"$feature_enrollment/flag-1": "false"}
    decided = explain_one(filters, person_properties=requested)
    assert [(each.kind, each.decides) for each in decided.exceptions] == [("super condition", True)]
    assert decided.outcome.reason is Reason.SUPER_CONDITION
    assert explain_one(filters).exceptions[0].decides is False


def test_inactive_and_failed_flags_have_no_conditions() -> None:
    found = explain_all(
        make_flag(MATCH_ALL, 1, active=False),
        make_flag(build_filters({"properties": [in_cohort(404)]}), 2),
        make_flag(5, 3),
    )
    assert [each.outcome.reason for each in found.values()] == [
        Reason.DISABLED,
        Reason.FAILED,
        Reason.FAILED,
    ]
    assert "cohort 404" in found["flag-2"].outcome.error
    assert all(not each.conditions and not each.exceptions for each in found.values())


def test_bucketing_identifier_is_explained() -> None:
    half = build_filters({"rollout_percentage": 50})
    device = {"bucketing_identifier": Bucketing.DEVICE_ID}
    assert verdicts(explain_one(half, flag=device)) == [(Verdict.NO_DEVICE, True)]
    [condition] = explain_one(half, flag=device, device_id="phone").conditions
    assert (condition.rollout.counted_by, condition.rollout.identifier) == ("device id", "phone")
    [condition] = explain_one(
        half,
        flag={"ensure_experience_continuity": True},
        stored_data=build_stored_data(hash_keys={"flag-1": "anonymous"}),
    ).conditions
    assert condition.rollout.counted_by == "id from before the login"
    assert condition.rollout.identifier == "anonymous"


FILTERS = st.sampled_from(
    [prop("country", "DE"), prop("age", 40, "gt"), in_cohort(7), in_cohort(8, "not_in")]
)
SHARES = st.sampled_from([None, 0, 10, 50, 90, 100])
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"properties": st.lists(FILTERS, max_size=2), "rollout_percentage": SHARES},
        optional={"variant": st.sampled_from(["a", "b", None])},
    )
    | st.fixed_dictionaries(
        {
            "aggregation_group_type_index": st.just(0),
            "properties": st.lists(st.just(group_prop(0, "plan", "pro")), max_size=1),
            "rollout_percentage": SHARES,
        }
    ),
    min_size=1,
    max_size=4,
)
DEFINITIONS = st.fixed_dictionaries(
    {"groups": CONDITIONS},
    optional={
        "early_exit": st.booleans(),
        "feature_enrollment": st.booleans(),
        "multivariate": st.just(variants(a=30, b=40)),
        "holdout": st.just({"id": 1, "exclusion_percentage": 30}),
    },
)


@thorough
@given(
    filters=DEFINITIONS,
    id=st.integers(0, 200),
    person=st.dictionaries(
        st.sampled_from(["country", "age", "$feature_enrollment/flag-1"]),
        st.sampled_from(["DE", "true", 41, False]),
    ),
    is_in=st.booleans(),
    groups=st.sampled_from([{}, {"company": "acme"}, {"company": ""}]),
    fields=st.sampled_from(
        [{}, {"bucketing_identifier": Bucketing.DEVICE_ID}, {"ensure_experience_continuity": True}]
    ),
    device_id=st.sampled_from([None, "phone"]),
)
def test_explanation_agrees_with_the_evaluation(
    filters: Any, id: int, person: Any, is_in: bool, groups: Any, fields: Any, device_id: Any
) -> None:
    cohorts = (make_cohort(7), make_cohort(8, {"type": "AND", "values": [prop("age", 40, "gt")]}))
    explanation = explain_one(
        filters,
        flag=fields,
        id=f"user-{id}",
        cohorts=cohorts,
        stored_data=build_stored_data(
            properties=person,
            cohorts=frozenset({7} if is_in else ()),
            groups={0: {"plan": "pro"}},
        ),
        groups=groups,
        device_id=device_id,
    )
    outcome = explanation.outcome
    decided = [each for each in explanation.exceptions if each.decides]
    reached = [each for each in explanation.conditions if each.is_reached]
    assert jsonio.decode(jsonio.encode(to_json(explanation)))["value"] == outcome.value
    if decided:
        assert outcome.reason in (Reason.SUPER_CONDITION, Reason.HOLDOUT)
        assert reached == []
        return
    matching = [each for each in reached if each.verdict is Verdict.MATCHES]
    if matching:
        [winner] = matching
        assert (outcome.reason, outcome.condition_index) == (Reason.MATCH, winner.index)
        if winner.variants is not None:
            assert outcome.value == (winner.variants.forced or winner.variants.drawn or True)
        return
    verdicts_reached = {each.verdict for each in reached}
    if verdicts_reached & {Verdict.OUT, Verdict.NO_DEVICE}:
        assert outcome.reason is Reason.OUT_OF_ROLLOUT
    elif Verdict.NO_MATCH in verdicts_reached:
        assert outcome.reason is Reason.NO_MATCH
    else:
        assert outcome.reason is Reason.NO_GROUP_TYPE
