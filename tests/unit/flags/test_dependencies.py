from typing import Any

import pytest

from hedgerow.flags.model import Flag
from tests.unit.flags.world import (
    EVERYBODY,
    NOBODY,
    a_flag,
    a_snapshot,
    depends_on,
    known,
    of_groups,
    outcomes,
    prop,
    told,
    variants,
)

MISSING_DEPENDENCY = (False, "missing_dependency", None)
ON = (True, "condition_match", 0)


def needing(*ids: int, value: Any = True) -> dict[str, Any]:
    return of_groups({"properties": [depends_on(id, value) for id in ids]})


def told_of(*flags: Flag) -> dict[int, tuple[bool | str, str, int | None]]:
    found = outcomes(a_snapshot(*flags), known())
    return {id: told(outcome) for id, outcome in found.items()}


@pytest.mark.parametrize(
    ("filters", "wanted", "matches"),
    [
        (EVERYBODY, True, True),
        (EVERYBODY, False, False),
        (EVERYBODY, "true", False),
        (NOBODY, True, False),
        (NOBODY, False, True),
        (NOBODY, "a", False),
        (of_groups({}, multivariate=variants(a=100)), True, True),
        (of_groups({}, multivariate=variants(a=100)), False, False),
        (of_groups({}, multivariate=variants(a=100)), "a", True),
        (of_groups({}, multivariate=variants(a=100)), "A", False),
        (of_groups({}, multivariate=variants(a=100)), "b", False),
        (of_groups({}, holdout={"id": 1, "exclusion_percentage": 100}), "holdout-1", True),
        (EVERYBODY, None, False),
        (NOBODY, None, False),
        (EVERYBODY, ["true"], False),
    ],
)
def test_a_flag_asks_what_another_evaluates_to(filters: Any, wanted: Any, matches: bool) -> None:
    found = told_of(a_flag(filters, 1), a_flag(needing(1, value=wanted), 2))
    assert found[2] == (ON if matches else (False, "no_condition_match", 0))


@pytest.mark.parametrize("wanted", [1, 0, 1.0])
def test_a_number_is_no_truth(wanted: Any) -> None:
    for filters in (EVERYBODY, NOBODY):
        found = told_of(a_flag(filters, 1), a_flag(needing(1, value=wanted), 2))
        assert found[2][0] is False


@pytest.mark.parametrize("operator", ["exact", "is_not", "nonsense"])
def test_with_another_operator_it_never_matches(operator: str) -> None:
    asked = of_groups({"properties": [depends_on(1, operator=operator)]})
    assert told_of(a_flag(id=1), a_flag(asked, 2))[2] == (False, "no_condition_match", 0)


def test_the_order_in_which_flags_are_stored_does_not_matter() -> None:
    chain = [a_flag(needing(id + 1) if id < 9 else EVERYBODY, id) for id in range(1, 10)]
    assert set(told_of(*chain).values()) == {ON}
    assert set(told_of(*reversed(chain)).values()) == {ON}


def test_a_chain_carries_false_to_its_end() -> None:
    chain = [a_flag(NOBODY, 1), a_flag(needing(1), 2), a_flag(needing(2), 3)]
    assert [found[0] for found in told_of(*chain).values()] == [False, False, False]
    inverted = [a_flag(NOBODY, 1), a_flag(needing(1, value=False), 2), a_flag(needing(2), 3)]
    assert [found[0] for found in told_of(*inverted).values()] == [False, True, True]


def test_several_dependencies_must_all_hold() -> None:
    flags = [a_flag(EVERYBODY, 1), a_flag(NOBODY, 2), a_flag(needing(1, 2), 3)]
    assert told_of(*flags)[3][0] is False
    either = of_groups({"properties": [depends_on(2)]}, {"properties": [depends_on(1)]})
    assert told_of(*flags[:2], a_flag(either, 3))[3] == (True, "condition_match", 1)


def test_a_dependency_stands_beside_other_filters() -> None:
    asked = of_groups({"properties": [depends_on(1), prop("country", "DE")]})
    snapshot = a_snapshot(a_flag(asked, 2), a_flag(EVERYBODY, 1))
    assert outcomes(snapshot, known({"country": "DE"}))[2].value is True
    assert outcomes(snapshot, known())[2].value is False


@pytest.mark.parametrize("wanted", [True, False])
def test_who_depends_on_what_is_not_there_cannot_be_evaluated(wanted: bool) -> None:
    gone = [(), (a_flag(id=1, deleted=True),), (a_flag(id=1, active=False),)]
    for flags in gone:
        assert told_of(*flags, a_flag(needing(1, value=wanted), 2))[2] == MISSING_DEPENDENCY


def test_a_missing_dependency_counts_in_any_condition() -> None:
    flag = a_flag(of_groups({}, {"properties": [depends_on(99)]}), 2)
    assert told_of(flag)[2] == MISSING_DEPENDENCY


def test_flags_in_a_circle_and_who_depends_on_them_cannot_be_evaluated() -> None:
    found = told_of(
        a_flag(needing(2), 1),
        a_flag(needing(3), 2),
        a_flag(needing(1), 3),
        a_flag(needing(1), 4),
        a_flag(needing(6), 5),
        a_flag(EVERYBODY, 6),
        a_flag(needing(7), 7),
    )
    assert [id for id, each in found.items() if each == MISSING_DEPENDENCY] == [1, 2, 3, 4, 7]
    assert found[5] == found[6] == ON


def test_a_circle_through_an_inactive_flag_is_open() -> None:
    found = told_of(a_flag(needing(2), 1), a_flag(needing(1), 2, active=False))
    assert found[2] == (False, "flag_disabled", None)
    assert found[1] == MISSING_DEPENDENCY


@pytest.mark.parametrize("value", [True, False])
def test_a_dependency_that_failed_matches_nothing(value: bool) -> None:
    found = told_of(a_flag({"groups": 5}, 1), a_flag(needing(1, value=value), 2))
    assert found[1][1] == "evaluation_failed"
    assert found[2] == (False, "no_condition_match", 0)


@pytest.mark.parametrize("key", ["", "x", None, "1.5", [], {}])
def test_a_dependency_on_what_is_no_flag_fails_alone(key: Any) -> None:
    asked = of_groups({"properties": [depends_on(1) | {"key": key}]})
    found = told_of(a_flag(EVERYBODY, 1), a_flag(asked, 2))
    assert found[2][:2] == (False, "evaluation_failed")
    assert found[1] == ON


def test_chosen_flags_bring_along_what_they_depend_on() -> None:
    snapshot = a_snapshot(
        a_flag(needing(2), 1), a_flag(needing(3), 2), a_flag(EVERYBODY, 3), a_flag(EVERYBODY, 4)
    )
    chosen = snapshot.chosen(["flag-1", "nothing"])
    assert [each.flag.id for each in chosen] == [3, 2, 1]
    assert [outcome.value for outcome in snapshot.evaluate(chosen, known())] == [True] * 3
    assert snapshot.chosen([]) == ()
    assert [each.flag.id for each in snapshot.chosen(["flag-3", "flag-3"])] == [3]


def test_a_chosen_flag_without_its_dependency_is_told_all_the_same() -> None:
    snapshot = a_snapshot(a_flag(needing(9), 1), a_flag(needing(1), 2))
    found = snapshot.evaluate(snapshot.chosen(["flag-2"]), known())
    assert [told(outcome) for outcome in found] == [MISSING_DEPENDENCY]


@pytest.mark.parametrize("wanted", [True, False, "a"])
def test_a_dependency_that_is_not_among_the_asked_flags_counts_as_false(wanted: Any) -> None:
    """One that another runtime or context keeps out of the answer."""
    snapshot = a_snapshot(a_flag(EVERYBODY, 1), a_flag(needing(1, value=wanted), 2))
    asked = [each for each in snapshot.everything if each.flag.id == 2]
    [outcome] = snapshot.evaluate(asked, known())
    assert outcome.value is (wanted is False)


def test_a_long_chain_is_put_in_order_soon() -> None:
    chain = [a_flag(needing(id + 1) if id < 500 else EVERYBODY, id) for id in range(1, 501)]
    found = told_of(*chain)
    assert set(found.values()) == {ON}
    assert list(found) == list(range(500, 0, -1))
