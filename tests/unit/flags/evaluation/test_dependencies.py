from typing import Any

import pytest

from hedgerow.flags.model import Flag
from tests.unit.flags.factories import (
    MATCH_ALL,
    MATCH_NONE,
    build_filters,
    depends_on,
    evaluate_all,
    loaded_context,
    make_flag,
    make_snapshot,
    prop,
    summarize,
    variants,
)

MISSING_DEPENDENCY = (False, "missing_dependency", None)
ON = (True, "condition_match", 0)


def filters_depending_on(*ids: int, value: Any = True) -> dict[str, Any]:
    return build_filters({"properties": [depends_on(id, value) for id in ids]})


def summarize_all(*flags: Flag) -> dict[int, tuple[bool | str, str, int | None]]:
    found = evaluate_all(make_snapshot(*flags), loaded_context())
    return {id: summarize(outcome) for id, outcome in found.items()}


@pytest.mark.parametrize(
    ("filters", "expected", "matches"),
    [
        (MATCH_ALL, True, True),
        (MATCH_ALL, False, False),
        (MATCH_ALL, "true", False),
        (MATCH_NONE, True, False),
        (MATCH_NONE, False, True),
        (MATCH_NONE, "a", False),
        (build_filters({}, multivariate=variants(a=100)), True, True),
        (build_filters({}, multivariate=variants(a=100)), False, False),
        (build_filters({}, multivariate=variants(a=100)), "a", True),
        (build_filters({}, multivariate=variants(a=100)), "A", False),
        (build_filters({}, multivariate=variants(a=100)), "b", False),
        (build_filters({}, holdout={"id": 1, "exclusion_percentage": 100}), "holdout-1", True),
        (MATCH_ALL, None, False),
        (MATCH_NONE, None, False),
        (MATCH_ALL, ["true"], False),
    ],
)
def test_dependency_compares_the_value_of_the_other_flag(
    filters: Any, expected: Any, matches: bool
) -> None:
    found = summarize_all(
        make_flag(filters, 1), make_flag(filters_depending_on(1, value=expected), 2)
    )
    assert found[2] == (ON if matches else (False, "no_condition_match", 0))


@pytest.mark.parametrize("expected", [1, 0, 1.0])
def test_number_is_not_a_boolean_value(expected: Any) -> None:
    for filters in (MATCH_ALL, MATCH_NONE):
        found = summarize_all(
            make_flag(filters, 1), make_flag(filters_depending_on(1, value=expected), 2)
        )
        assert found[2][0] is False


@pytest.mark.parametrize("operator", ["exact", "is_not", "nonsense"])
def test_other_operators_never_match(operator: str) -> None:
    requested = build_filters({"properties": [depends_on(1, operator=operator)]})
    assert summarize_all(make_flag(id=1), make_flag(requested, 2))[2] == (
        False,
        "no_condition_match",
        0,
    )


def test_dependencies_are_independent_of_stored_order() -> None:
    chain = [
        make_flag(filters_depending_on(id + 1) if id < 9 else MATCH_ALL, id) for id in range(1, 10)
    ]
    assert set(summarize_all(*chain).values()) == {ON}
    assert set(summarize_all(*reversed(chain)).values()) == {ON}


def test_false_propagates_through_a_chain() -> None:
    chain = [
        make_flag(MATCH_NONE, 1),
        make_flag(filters_depending_on(1), 2),
        make_flag(filters_depending_on(2), 3),
    ]
    assert [found[0] for found in summarize_all(*chain).values()] == [False, False, False]
    inverted = [
        make_flag(MATCH_NONE, 1),
        make_flag(filters_depending_on(1, value=False), 2),
        make_flag(filters_depending_on(2), 3),
    ]
    assert [found[0] for found in summarize_all(*inverted).values()] == [False, True, True]


def test_condition_requires_all_dependencies() -> None:
    flags = [
        make_flag(MATCH_ALL, 1),
        make_flag(MATCH_NONE, 2),
        make_flag(filters_depending_on(1, 2), 3),
    ]
    assert summarize_all(*flags)[3][0] is False
    either = build_filters({"properties": [depends_on(2)]}, {"properties": [depends_on(1)]})
    assert summarize_all(*flags[:2], make_flag(either, 3))[3] == (True, "condition_match", 1)


def test_dependency_is_combined_with_other_filters() -> None:
    requested = build_filters({"properties": [depends_on(1), prop("country", "DE")]})
    snapshot = make_snapshot(make_flag(requested, 2), make_flag(MATCH_ALL, 1))
    assert evaluate_all(snapshot, loaded_context({"country": "DE"}))[2].value is True
    assert evaluate_all(snapshot, loaded_context())[2].value is False


@pytest.mark.parametrize("expected", [True, False])
def test_flag_with_a_missing_dependency_is_not_evaluated(expected: bool) -> None:
    gone = [(), (make_flag(id=1, deleted=True),), (make_flag(id=1, active=False),)]
    for flags in gone:
        assert (
            summarize_all(*flags, make_flag(filters_depending_on(1, value=expected), 2))[2]
            == MISSING_DEPENDENCY
        )


def test_missing_dependency_in_any_condition_is_reported() -> None:
    flag = make_flag(build_filters({}, {"properties": [depends_on(99)]}), 2)
    assert summarize_all(flag)[2] == MISSING_DEPENDENCY


def test_flags_in_a_cycle_and_their_dependents_are_not_evaluated() -> None:
    found = summarize_all(
        make_flag(filters_depending_on(2), 1),
        make_flag(filters_depending_on(3), 2),
        make_flag(filters_depending_on(1), 3),
        make_flag(filters_depending_on(1), 4),
        make_flag(filters_depending_on(6), 5),
        make_flag(MATCH_ALL, 6),
        make_flag(filters_depending_on(7), 7),
    )
    assert [id for id, each in found.items() if each == MISSING_DEPENDENCY] == [1, 2, 3, 4, 7]
    assert found[5] == found[6] == ON


def test_inactive_flag_breaks_a_cycle() -> None:
    found = summarize_all(
        make_flag(filters_depending_on(2), 1), make_flag(filters_depending_on(1), 2, active=False)
    )
    assert found[2] == (False, "flag_disabled", None)
    assert found[1] == MISSING_DEPENDENCY


@pytest.mark.parametrize("value", [True, False])
def test_failed_dependency_never_matches(value: bool) -> None:
    found = summarize_all(
        make_flag({"groups": 5}, 1), make_flag(filters_depending_on(1, value=value), 2)
    )
    assert found[1][1] == "evaluation_failed"
    assert found[2] == (False, "no_condition_match", 0)


@pytest.mark.parametrize("key", ["", "x", None, "1.5", [], {}])
def test_invalid_dependency_fails_only_its_flag(key: Any) -> None:
    requested = build_filters({"properties": [depends_on(1) | {"key": key}]})
    found = summarize_all(make_flag(MATCH_ALL, 1), make_flag(requested, 2))
    assert found[2][:2] == (False, "evaluation_failed")
    assert found[1] == ON


def test_selection_includes_dependencies() -> None:
    snapshot = make_snapshot(
        make_flag(filters_depending_on(2), 1),
        make_flag(filters_depending_on(3), 2),
        make_flag(MATCH_ALL, 3),
        make_flag(MATCH_ALL, 4),
    )
    chosen = snapshot.select(["flag-1", "nothing"])
    assert [each.flag.id for each in chosen] == [3, 2, 1]
    assert [outcome.value for outcome in snapshot.evaluate(chosen, loaded_context())] == [True] * 3
    assert snapshot.select([]) == ()
    assert [each.flag.id for each in snapshot.select(["flag-3", "flag-3"])] == [3]


def test_selected_flag_without_its_dependency_has_an_outcome() -> None:
    snapshot = make_snapshot(
        make_flag(filters_depending_on(9), 1), make_flag(filters_depending_on(1), 2)
    )
    found = snapshot.evaluate(snapshot.select(["flag-2"]), loaded_context())
    assert [summarize(outcome) for outcome in found] == [MISSING_DEPENDENCY]


@pytest.mark.parametrize("expected", [True, False, "a"])
def test_dependency_that_is_not_requested_is_false(expected: Any) -> None:
    """The runtime or the evaluation context of the dependency excludes it."""
    snapshot = make_snapshot(
        make_flag(MATCH_ALL, 1), make_flag(filters_depending_on(1, value=expected), 2)
    )
    requested = [each for each in snapshot.all_flags if each.flag.id == 2]
    [outcome] = snapshot.evaluate(requested, loaded_context())
    assert outcome.value is (expected is False)


def test_long_chain_is_ordered_by_dependency() -> None:
    chain = [
        make_flag(filters_depending_on(id + 1) if id < 500 else MATCH_ALL, id)
        for id in range(1, 501)
    ]
    found = summarize_all(*chain)
    assert set(found.values()) == {ON}
    assert list(found) == list(range(500, 0, -1))
