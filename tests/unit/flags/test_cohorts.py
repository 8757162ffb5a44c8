from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.flags.model import Outcome
from hedgerow.persons.model import Cohort
from tests.effort import calls_made_by
from tests.unit.flags.world import (
    a_cohort,
    a_flag,
    a_snapshot,
    depends_on,
    in_cohort,
    known,
    of_groups,
    outcome_of,
    outcomes,
    prop,
    told,
)
from tests.unit.generated import bounded

DE, OLD = prop("country", "DE"), prop("age", 65, "gte")
GERMAN = {"country": "DE"}
NO_MATCH = (False, "no_condition_match", 0)


def all_of(*values: Any) -> dict[str, Any]:
    return {"type": "AND", "values": list(values)}


def any_of(*values: Any) -> dict[str, Any]:
    return {"type": "OR", "values": list(values)}


def asked(
    *cohorts: Cohort, properties: Any = None, id: Any = 1, operator: str | None = "in", **who: Any
) -> Outcome:
    filters = of_groups({"properties": [in_cohort(id, operator)]})
    return outcome_of(filters, known(properties, **who), cohorts=cohorts)


def is_in(definition: Any, properties: Any) -> bool:
    outcome = asked(a_cohort(1, definition), properties=properties)
    assert not outcome.failed
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
        # An empty group is true for everybody, a cohort that says nothing for nobody.
        (all_of(), {}, True),
        (any_of(), {}, True),
        (any_of(DE, all_of()), {}, True),
        ({}, GERMAN, False),
        # Leaves that are about nobody in particular are about the person.
        (all_of({"key": "country", "value": "DE"}), GERMAN, True),
    ],
)
def test_membership_is_what_the_definition_says(
    definition: Any, properties: Any, member: bool
) -> None:
    assert is_in(definition, properties) is member


@pytest.mark.parametrize("group", [all_of, any_of])
def test_a_negated_leaf_says_the_opposite(group: Any) -> None:
    definition = group(DE | {"negation": True})
    assert not is_in(definition, GERMAN)
    assert is_in(definition, {"country": "FR"})
    assert is_in(definition, {})
    assert is_in(group(DE | {"negation": False}), GERMAN)


def test_a_negated_leaf_beside_others() -> None:
    definition = all_of(DE, OLD | {"negation": True})
    assert is_in(definition, GERMAN)
    assert not is_in(definition, GERMAN | {"age": 70})


@pytest.mark.parametrize("operator", ["in", None, "exact"])
def test_in_is_meant_when_nothing_is_said(operator: str | None) -> None:
    cohort = a_cohort(1, all_of(DE))
    assert asked(cohort, properties=GERMAN, operator=operator).value is True
    assert asked(cohort, operator=operator).value is False


def test_not_in_is_for_all_others() -> None:
    cohort = a_cohort(1, all_of(DE))
    assert asked(cohort, properties=GERMAN, operator="not_in").value is False
    assert asked(cohort, operator="not_in").value is True


@pytest.mark.parametrize("operator", ["is_not", "icontains", "nonsense"])
def test_any_other_operator_matches_nobody(operator: str) -> None:
    cohort = a_cohort(1, all_of(DE))
    for properties in (GERMAN, {}):
        assert told(asked(cohort, properties=properties, operator=operator)) == NO_MATCH


@pytest.mark.parametrize("id", [1, "1"])
def test_a_cohort_is_named_by_number_or_text(id: Any) -> None:
    assert asked(a_cohort(1, all_of(DE)), properties=GERMAN, id=id).value is True


def test_a_cohort_asks_stored_properties_under_those_of_the_request() -> None:
    cohort = a_cohort(1, all_of(DE))
    assert asked(cohort, stored=GERMAN).value is True
    assert asked(cohort, stored=GERMAN, properties={"country": "FR"}).value is False


@pytest.mark.parametrize("operator", ["in", "not_in"])
def test_a_static_cohort_is_a_list(operator: str) -> None:
    member = asked(a_cohort(1), cohorts=[1, 2], operator=operator)
    stranger = asked(a_cohort(1), cohorts=[2], operator=operator)
    assert member.value is (operator == "in")
    assert stranger.value is (operator == "not_in")


def test_cohorts_of_cohorts() -> None:
    cohorts = [
        a_cohort(1, any_of(in_cohort(2), all_of(in_cohort(3), OLD))),
        a_cohort(2, all_of(DE)),
        a_cohort(3),
    ]
    assert asked(*cohorts, properties=GERMAN).value is True
    assert asked(*cohorts, properties={"age": 70}, cohorts=[3]).value is True
    assert asked(*cohorts, properties={"age": 70}).value is False


@pytest.mark.parametrize(
    "leaf", [in_cohort(2) | {"negation": True}, in_cohort(2, "not_in"), in_cohort(2)]
)
@pytest.mark.parametrize("group", [all_of, any_of])
def test_a_cohort_in_a_cohort_may_be_negated(group: Any, leaf: Any) -> None:
    outcome = asked(a_cohort(1, group(leaf)), a_cohort(2, all_of(DE)), properties=GERMAN)
    assert outcome.value is (leaf == in_cohort(2))


def test_not_in_a_negated_cohort_is_in_it() -> None:
    leaf = in_cohort(2, "not_in") | {"negation": True}
    cohorts = a_cohort(1, all_of(leaf)), a_cohort(2, all_of(DE))
    assert asked(*cohorts, properties=GERMAN).value is True
    assert asked(*cohorts).value is False


def test_groups_nest_to_any_sensible_depth() -> None:
    definition: Any = DE
    for level in range(20):
        definition = any_of(OLD, definition) if level % 2 else all_of(definition)
    assert is_in(definition, GERMAN)
    assert not is_in(definition, {})


def test_cohorts_nest_to_any_sensible_depth() -> None:
    chain = [a_cohort(id, all_of(in_cohort(id + 1))) for id in range(1, 20)]
    assert asked(*chain, a_cohort(20, all_of(DE)), properties=GERMAN).value is True
    assert told(asked(*chain, a_cohort(20, all_of(DE)))) == NO_MATCH


def test_what_is_nested_too_deep_fails_alone() -> None:
    definition: Any = DE
    for _ in range(3000):
        definition = all_of(definition)
    snapshot = a_snapshot(
        a_flag(of_groups({"properties": [in_cohort(1)]}), 1),
        a_flag(id=2),
        cohorts=[a_cohort(1, definition)],
    )
    found = outcomes(snapshot, known(GERMAN))
    assert found[1].failed
    assert found[2].value is True


@pytest.mark.parametrize("spellings", [("in", "in"), ("in", None)])
def test_a_cohort_that_several_ask_for_is_read_and_answered_once(spellings: Any) -> None:
    """Each of twenty cohorts asks for the next one twice: half a million ways to the last."""
    chain = [
        a_cohort(id, all_of(*(in_cohort(id + 1, operator) for operator in spellings)))
        for id in range(1, 20)
    ]

    def ask() -> None:
        assert asked(*chain, a_cohort(20, all_of(DE)), properties=GERMAN).value is True

    assert calls_made_by(ask) < 100_000


@pytest.mark.parametrize("operator", ["in", "not_in"])
@pytest.mark.parametrize(
    "cohorts",
    [
        [],
        [a_cohort(1, all_of(DE), deleted=True)],
        [a_cohort(1, deleted=True)],
        [a_cohort(1, any_of(DE, in_cohort(2)))],
        [a_cohort(1, all_of(in_cohort(1)))],
        [a_cohort(1, any_of(DE, in_cohort(2))), a_cohort(2, all_of(in_cohort(1)))],
        [a_cohort(1, all_of({"type": "behavioral", "key": "$pageview", "value": "did"}))],
        [a_cohort(1, all_of("not an object"))],
        [a_cohort(1, [DE])],
        [a_cohort(1, "text")],
        [a_cohort(1, all_of(prop("a", 1, "no such operator")))],
        [a_cohort(1, all_of({"value": "no key"}))],
        [a_cohort(1, all_of(DE | {"type": "nonsense"}))],
    ],
)
def test_a_cohort_that_cannot_be_asked_fails_its_flags_alone(
    cohorts: list[Cohort], operator: str
) -> None:
    snapshot = a_snapshot(
        a_flag(of_groups({"properties": [in_cohort(1, operator)]}), 1),
        a_flag(of_groups({}, {"properties": [in_cohort(1, operator)]}), 2),
        a_flag(of_groups({"properties": [DE]}), 3),
        cohorts=cohorts,
    )
    found = outcomes(snapshot, known(GERMAN))
    assert [found[id].failed for id in (1, 2, 3)] == [True, True, False]
    assert found[1].error
    assert found[3].value is True


@pytest.mark.parametrize("id", [None, "", "one", [], {}, 10**400])
def test_a_filter_that_names_no_cohort_fails_its_flag(id: Any) -> None:
    assert asked(a_cohort(1, all_of(DE)), id=id).failed


def test_a_cycle_is_found_from_every_side_and_hurts_nobody_else() -> None:
    cohorts = [
        a_cohort(1, all_of(in_cohort(2))),
        a_cohort(2, all_of(in_cohort(1))),
        a_cohort(3, any_of(in_cohort(1), DE)),
        a_cohort(4, all_of(DE)),
    ]
    flags = [a_flag(of_groups({"properties": [in_cohort(id)]}), id) for id in (1, 2, 3, 4)]
    found = outcomes(a_snapshot(*flags, cohorts=cohorts), known(GERMAN))
    assert [found[id].failed for id in (1, 2, 3, 4)] == [True, True, True, False]


def test_a_cohort_asked_twice_is_no_cycle() -> None:
    cohorts = [
        a_cohort(1, all_of(in_cohort(2), in_cohort(3))),
        a_cohort(2, all_of(in_cohort(3))),
        a_cohort(3, all_of(DE)),
    ]
    assert asked(*cohorts, properties=GERMAN).value is True


def test_cohorts_are_asked_after_properties() -> None:
    """Nobody's list is read when a property has already decided."""
    filters = of_groups({"properties": [in_cohort(1), DE]})
    snapshot = a_snapshot(a_flag(filters), cohorts=[a_cohort(1)])
    subject = known({"country": "FR"})
    subject.cohorts = None
    [outcome] = snapshot.evaluate(snapshot.everything, subject)
    assert told(outcome) == NO_MATCH
    assert not subject.needs_stored


def test_a_cohort_that_asks_for_a_flag_is_answered_or_fails() -> None:
    cohort = a_cohort(1, all_of(depends_on(2)))
    asks = a_flag(of_groups({"properties": [in_cohort(1)]}), 1)
    for flags in ([asks, a_flag(id=2)], [a_flag(id=2), asks]):
        outcome = outcomes(a_snapshot(*flags, cohorts=[cohort]), known())[1]
        assert outcome.failed or outcome.value is True


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


def plainly(node: Any, has: frozenset[str]) -> bool:
    if "values" not in node:
        return (node["key"] in has) is not node["negation"]
    answers = [plainly(value, has) for value in node["values"]]
    if not answers:
        return True
    return all(answers) if node["type"] == "AND" else any(answers)


@given(trees, st.frozensets(st.sampled_from(["a", "b", "c"])))
@bounded
def test_any_tree_is_the_logic_that_it_says(tree: Any, has: frozenset[str]) -> None:
    assert is_in(tree, dict.fromkeys(has, "1")) is plainly(tree, has)
