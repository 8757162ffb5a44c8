from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.flags.model import FlagOutcome
from hedgerow.persons.model import Cohort
from tests.support.call_counter import count_calls
from tests.unit.flags.factories import (
    build_filters,
    depends_on,
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

DE, OLD = prop("country", "DE"), prop("age", 65, "gte")
GERMAN = {"country": "DE"}
NO_MATCH = (False, "no_condition_match", 0)


def all_of(*values: Any) -> dict[str, Any]:
    return {"type": "AND", "values": list(values)}


def any_of(*values: Any) -> dict[str, Any]:
    return {"type": "OR", "values": list(values)}


def evaluate_cohort(
    *cohorts: Cohort,
    properties: Any = None,
    id: Any = 1,
    operator: str | None = "in",
    **fields: Any,
) -> FlagOutcome:
    filters = build_filters({"properties": [in_cohort(id, operator)]})
    return evaluate_flag(filters, loaded_context(properties, **fields), cohorts=cohorts)


def is_in(definition: Any, properties: Any) -> bool:
    outcome = evaluate_cohort(make_cohort(1, definition), properties=properties)
    assert not outcome.has_failed
    return outcome.value is True


@pytest.mark.parametrize(
    ("definition", "properties", "member"),
    [
        (all_of(DE), GERMAN, True),
        (all_of(DE), {}, False),
        (all_of(DE, OLD), GERMAN, False),
        (all_of(DE, OLD), GERMAN | {"age": 70}, True),
        (any_of(DE, OLD), {"age": 70}, True),
        (any_of(DE, OLD), {"age": 7}, False),
        (all_of(any_of(DE, OLD)), GERMAN, True),
        (any_of(all_of(DE, OLD), all_of(prop("vip", True))), {"vip": "true"}, True),
        (any_of(all_of(DE, OLD), all_of(prop("vip", True))), GERMAN, False),
        (all_of({"type": "property", "values": [DE, OLD]}), GERMAN, False),
        ({"type": "or", "values": [DE, OLD]}, GERMAN, True),
        # An empty group matches every person, an empty definition matches no person.
        (all_of(), {}, True),
        (any_of(), {}, True),
        (any_of(DE, all_of()), {}, True),
        ({}, GERMAN, False),
        # A leaf without a type is a person filter.
        (all_of({"key": "country", "value": "DE"}), GERMAN, True),
    ],
)
def test_definition_decides_membership(definition: Any, properties: Any, member: bool) -> None:
    assert is_in(definition, properties) is member


@pytest.mark.parametrize("group", [all_of, any_of])
def test_negated_leaf_inverts_the_result(group: Any) -> None:
    definition = group(DE | {"negation": True})
    assert not is_in(definition, GERMAN)
    assert is_in(definition, {"country": "FR"})
    assert is_in(definition, {})
    assert is_in(group(DE | {"negation": False}), GERMAN)


def test_negated_leaf_is_combined_with_others() -> None:
    definition = all_of(DE, OLD | {"negation": True})
    assert is_in(definition, GERMAN)
    assert not is_in(definition, GERMAN | {"age": 70})


@pytest.mark.parametrize("operator", ["in", None, "exact"])
def test_default_cohort_operator_is_in(operator: str | None) -> None:
    cohort = make_cohort(1, all_of(DE))
    assert evaluate_cohort(cohort, properties=GERMAN, operator=operator).value is True
    assert evaluate_cohort(cohort, operator=operator).value is False


def test_not_in_matches_all_other_persons() -> None:
    cohort = make_cohort(1, all_of(DE))
    assert evaluate_cohort(cohort, properties=GERMAN, operator="not_in").value is False
    assert evaluate_cohort(cohort, operator="not_in").value is True


@pytest.mark.parametrize("operator", ["is_not", "icontains", "nonsense"])
def test_unknown_cohort_operator_matches_no_person(operator: str) -> None:
    cohort = make_cohort(1, all_of(DE))
    for properties in (GERMAN, {}):
        assert (
            summarize(evaluate_cohort(cohort, properties=properties, operator=operator)) == NO_MATCH
        )


@pytest.mark.parametrize("id", [1, "1"])
def test_cohort_id_may_be_a_number_or_text(id: Any) -> None:
    assert evaluate_cohort(make_cohort(1, all_of(DE)), properties=GERMAN, id=id).value is True


def test_request_properties_override_stored_ones_in_a_cohort() -> None:
    cohort = make_cohort(1, all_of(DE))
    assert evaluate_cohort(cohort, stored=GERMAN).value is True
    assert evaluate_cohort(cohort, stored=GERMAN, properties={"country": "FR"}).value is False


@pytest.mark.parametrize("operator", ["in", "not_in"])
def test_static_cohort_uses_stored_membership(operator: str) -> None:
    member = evaluate_cohort(make_cohort(1), cohorts=[1, 2], operator=operator)
    non_member = evaluate_cohort(make_cohort(1), cohorts=[2], operator=operator)
    assert member.value is (operator == "in")
    assert non_member.value is (operator == "not_in")


def test_cohort_may_refer_to_other_cohorts() -> None:
    cohorts = [
        make_cohort(1, any_of(in_cohort(2), all_of(in_cohort(3), OLD))),
        make_cohort(2, all_of(DE)),
        make_cohort(3),
    ]
    assert evaluate_cohort(*cohorts, properties=GERMAN).value is True
    assert evaluate_cohort(*cohorts, properties={"age": 70}, cohorts=[3]).value is True
    assert evaluate_cohort(*cohorts, properties={"age": 70}).value is False


@pytest.mark.parametrize(
    "leaf", [in_cohort(2) | {"negation": True}, in_cohort(2, "not_in"), in_cohort(2)]
)
@pytest.mark.parametrize("group", [all_of, any_of])
def test_nested_cohort_may_be_negated(group: Any, leaf: Any) -> None:
    outcome = evaluate_cohort(
        make_cohort(1, group(leaf)), make_cohort(2, all_of(DE)), properties=GERMAN
    )
    assert outcome.value is (leaf == in_cohort(2))


def test_negated_not_in_is_in() -> None:
    leaf = in_cohort(2, "not_in") | {"negation": True}
    cohorts = make_cohort(1, all_of(leaf)), make_cohort(2, all_of(DE))
    assert evaluate_cohort(*cohorts, properties=GERMAN).value is True
    assert evaluate_cohort(*cohorts).value is False


def test_groups_nest_twenty_levels() -> None:
    definition: Any = DE
    for level in range(20):
        definition = any_of(OLD, definition) if level % 2 else all_of(definition)
    assert is_in(definition, GERMAN)
    assert not is_in(definition, {})


def test_cohorts_nest_twenty_levels() -> None:
    chain = [make_cohort(id, all_of(in_cohort(id + 1))) for id in range(1, 20)]
    assert evaluate_cohort(*chain, make_cohort(20, all_of(DE)), properties=GERMAN).value is True
    assert summarize(evaluate_cohort(*chain, make_cohort(20, all_of(DE)))) == NO_MATCH


def test_too_deep_cohort_fails_only_its_flags() -> None:
    definition: Any = DE
    for _ in range(3000):
        definition = all_of(definition)
    snapshot = make_snapshot(
        make_flag(build_filters({"properties": [in_cohort(1)]}), 1),
        make_flag(id=2),
        cohorts=[make_cohort(1, definition)],
    )
    found = evaluate_all(snapshot, loaded_context(GERMAN))
    assert found[1].has_failed
    assert found[2].value is True


@pytest.mark.parametrize("spellings", [("in", "in"), ("in", None)])
def test_shared_cohort_is_evaluated_once(spellings: Any) -> None:
    """Each of twenty cohorts refers to the next one twice: half a million paths to the last."""
    chain = [
        make_cohort(id, all_of(*(in_cohort(id + 1, operator) for operator in spellings)))
        for id in range(1, 20)
    ]

    def evaluate() -> None:
        assert evaluate_cohort(*chain, make_cohort(20, all_of(DE)), properties=GERMAN).value is True

    assert count_calls(evaluate) < 100_000


@pytest.mark.parametrize("combine", [all_of, any_of])
def test_nested_cohorts_that_need_stored_data_are_evaluated_once(combine: Any) -> None:
    cohorts = [make_cohort(0, all_of(DE))]
    for id in range(1, 12):
        cohorts.append(make_cohort(id, combine(*[in_cohort(id - 1)] * 4)))
    filters = build_filters({"properties": [in_cohort(11)]})
    snapshot = make_snapshot(make_flag(filters), cohorts=cohorts)
    context = request_context()

    def evaluate() -> None:
        snapshot.evaluate(snapshot.all_flags, context)

    assert count_calls(evaluate) < 1000
    assert context.needs_stored_data


def test_a_cohort_that_is_too_large_fails_its_flag_only() -> None:
    cohorts = [make_cohort(id, all_of(*[prop(f"p{id}", "x")] * 1000)) for id in range(2, 6)]
    cohorts.append(make_cohort(1, all_of(*map(in_cohort, range(2, 6)))))
    flags = [
        make_flag(build_filters({"properties": [in_cohort(1)]}), id=1),
        make_flag(build_filters({"properties": [in_cohort(2)]}), id=2),
    ]
    snapshot = make_snapshot(*flags, cohorts=cohorts)
    outcomes = list(snapshot.evaluate(snapshot.all_flags, loaded_context({"p2": "x"})))
    assert [each.has_failed for each in outcomes] == [True, False]
    assert "cohort 1 is too large" in outcomes[0].error


@pytest.mark.parametrize("operator", ["in", "not_in"])
@pytest.mark.parametrize(
    "cohorts",
    [
        [],
        [make_cohort(1, all_of(DE), deleted=True)],
        [make_cohort(1, deleted=True)],
        [make_cohort(1, any_of(DE, in_cohort(2)))],
        [make_cohort(1, all_of(in_cohort(1)))],
        [make_cohort(1, any_of(DE, in_cohort(2))), make_cohort(2, all_of(in_cohort(1)))],
        [make_cohort(1, all_of({"type": "behavioral", "key": "$pageview", "value": "did"}))],
        [make_cohort(1, all_of("not an object"))],
        [make_cohort(1, [DE])],
        [make_cohort(1, "text")],
        [make_cohort(1, all_of(prop("a", 1, "no such operator")))],
        [make_cohort(1, all_of({"value": "no key"}))],
        [make_cohort(1, all_of(DE | {"type": "nonsense"}))],
    ],
)
def test_unsupported_cohort_fails_only_its_flags(cohorts: list[Cohort], operator: str) -> None:
    snapshot = make_snapshot(
        make_flag(build_filters({"properties": [in_cohort(1, operator)]}), 1),
        make_flag(build_filters({}, {"properties": [in_cohort(1, operator)]}), 2),
        make_flag(build_filters({"properties": [DE]}), 3),
        cohorts=cohorts,
    )
    found = evaluate_all(snapshot, loaded_context(GERMAN))
    assert [found[id].has_failed for id in (1, 2, 3)] == [True, True, False]
    assert found[1].error
    assert found[3].value is True


@pytest.mark.parametrize("id", [None, "", "one", [], {}, 10**400])
def test_invalid_cohort_id_fails_its_flag(id: Any) -> None:
    assert evaluate_cohort(make_cohort(1, all_of(DE)), id=id).has_failed


def test_cohort_cycle_is_detected_and_affects_no_other_flag() -> None:
    cohorts = [
        make_cohort(1, all_of(in_cohort(2))),
        make_cohort(2, all_of(in_cohort(1))),
        make_cohort(3, any_of(in_cohort(1), DE)),
        make_cohort(4, all_of(DE)),
    ]
    flags = [make_flag(build_filters({"properties": [in_cohort(id)]}), id) for id in (1, 2, 3, 4)]
    found = evaluate_all(make_snapshot(*flags, cohorts=cohorts), loaded_context(GERMAN))
    assert [found[id].has_failed for id in (1, 2, 3, 4)] == [True, True, True, False]


def test_cohort_used_twice_is_not_a_cycle() -> None:
    cohorts = [
        make_cohort(1, all_of(in_cohort(2), in_cohort(3))),
        make_cohort(2, all_of(in_cohort(3))),
        make_cohort(3, all_of(DE)),
    ]
    assert evaluate_cohort(*cohorts, properties=GERMAN).value is True


def test_cohorts_are_evaluated_after_properties() -> None:
    """Static cohorts are not needed once a property decides."""
    filters = build_filters({"properties": [in_cohort(1), DE]})
    snapshot = make_snapshot(make_flag(filters), cohorts=[make_cohort(1)])
    context = loaded_context({"country": "FR"})
    context.static_cohorts = None
    [outcome] = snapshot.evaluate(snapshot.all_flags, context)
    assert summarize(outcome) == NO_MATCH
    assert not context.needs_stored_data


def test_cohort_with_a_flag_filter_matches_or_fails() -> None:
    cohort = make_cohort(1, all_of(depends_on(2)))
    flag = make_flag(build_filters({"properties": [in_cohort(1)]}), 1)
    for flags in ([flag, make_flag(id=2)], [make_flag(id=2), flag]):
        outcome = evaluate_all(make_snapshot(*flags, cohorts=[cohort]), loaded_context())[1]
        assert outcome.has_failed or outcome.value is True


leaves = st.tuples(st.sampled_from(["a", "b", "c"]), st.booleans()).map(
    lambda pair: prop(pair[0], "1") | {"negation": pair[1]}
)
trees = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from(["AND", "OR"]), st.lists(inner, max_size=3)).map(
        lambda pair: {"type": pair[0], "values": pair[1]}
    ),
    max_leaves=12,
).filter(lambda tree: "values" in tree)


def evaluate_tree(node: Any, true_keys: frozenset[str]) -> bool:
    if "values" not in node:
        return (node["key"] in true_keys) is not node["negation"]
    answers = [evaluate_tree(value, true_keys) for value in node["values"]]
    if not answers:
        return True
    return all(answers) if node["type"] == "AND" else any(answers)


@given(trees, st.frozensets(st.sampled_from(["a", "b", "c"])))
@bounded
def test_any_tree_equals_its_boolean_logic(tree: Any, true_keys: frozenset[str]) -> None:
    assert is_in(tree, dict.fromkeys(true_keys, "1")) is evaluate_tree(tree, true_keys)
