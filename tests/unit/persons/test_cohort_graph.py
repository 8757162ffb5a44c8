from typing import Any

import pytest

from hedgerow.persons.cohort_graph import (
    MAX_BYTES,
    MAX_COHORTS,
    MAX_LEVELS,
    MAX_NODES,
    CohortGraph,
    CohortTooLarge,
)
from hedgerow.persons.model import CohortId
from tests.support.call_counter import count_calls


def leaf(value: Any = "pro") -> dict[str, Any]:
    return {"type": "person", "key": "plan", "value": value}


def refer(id: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "cohort", "key": "id", "value": id, **fields}


def all_of(*values: Any) -> dict[str, Any]:
    return {"type": "AND", "values": list(values)}


def graph(**definitions: Any) -> CohortGraph:
    """Return a graph of cohorts named `c1`, `c2` and so on."""
    return CohortGraph({CohortId(int(name[1:])): each for name, each in definitions.items()})


def build_nested(levels: int, times: int) -> CohortGraph:
    """Return cohorts that each name the previous one several times."""
    definitions: dict[CohortId, Any] = {CohortId(0): all_of(leaf())}
    for level in range(1, levels + 1):
        definitions[CohortId(level)] = all_of(*[refer(level - 1)] * times)
    return CohortGraph(definitions)


def find_code(graph: CohortGraph, id: int) -> str:
    problem = graph.find_problem(CohortId(id))
    return problem.code if problem else ""


def test_each_cohort_comes_once_and_after_those_that_it_refers_to() -> None:
    found = graph(c1=all_of(refer(2), refer(3)), c2=all_of(refer(3), refer(3)), c3=all_of(leaf()))
    assert found.order(CohortId(1)) == [3, 2, 1]
    assert found.order(CohortId(3)) == [3]


def test_references_in_any_spelling_count() -> None:
    found = graph(
        c1=all_of(refer("2"), refer(3, type="static-cohort"), refer(True), refer(None), refer("x"))
    )
    assert set(found.order(CohortId(1))) == {1, 2, 3}


def test_work_grows_with_the_cohorts_and_not_with_the_paths() -> None:
    nested = build_nested(20, 20)
    assert count_calls(lambda: nested.order(CohortId(20))) < 20_000
    assert len(nested.order(CohortId(20))) == 21


@pytest.mark.parametrize(
    "cycle",
    [
        {"c1": all_of(refer(1))},
        {"c1": all_of(refer(2)), "c2": all_of(refer(1))},
        {"c1": all_of(leaf(), refer(2)), "c2": all_of(refer(3)), "c3": refer(2)},
    ],
)
def test_a_cycle_is_refused(cycle: Any) -> None:
    assert find_code(graph(**cycle), 1) == "nested_too_deep"
    with pytest.raises(CohortTooLarge):
        graph(**cycle).order(CohortId(1))


def test_groups_and_cohorts_share_the_maximum_of_levels() -> None:
    deep: Any = leaf()
    for _ in range(MAX_LEVELS - 2):
        deep = all_of(deep)
    assert find_code(graph(c1=refer(2), c2=deep), 1) == ""
    assert find_code(graph(c1=all_of(refer(2)), c2=deep), 1) == "nested_too_deep"
    assert find_code(graph(c1=all_of(all_of(deep), leaf())), 1) == "nested_too_deep"


def test_filters_are_counted_in_all_cohorts_together() -> None:
    half = all_of(*[leaf()] * (MAX_NODES // 2 - 3))
    assert find_code(graph(c1=all_of(refer(2), refer(2)), c2=half), 1) == ""
    assert find_code(graph(c1=all_of(refer(2), refer(3)), c2=half, c3=half), 1) == ""
    three = graph(c1=all_of(refer(2), refer(3), refer(4)), c2=half, c3=half, c4=half)
    assert find_code(three, 1) == "cohort_too_large"
    assert find_code(three, 2) == ""


def test_a_huge_definition_is_read_up_to_the_limit() -> None:
    huge = graph(c1=all_of(*[all_of(*[leaf()] * 1000)] * 200))
    assert count_calls(lambda: huge.find_problem(CohortId(1))) < 50_000
    assert find_code(huge, 1) == "cohort_too_large"


def test_many_cohorts_and_many_bytes_are_refused() -> None:
    wide = {f"c{n}": all_of(leaf()) for n in range(2, MAX_COHORTS + 2)}
    assert (
        find_code(graph(c1=all_of(*[refer(n) for n in range(2, MAX_COHORTS + 1)]), **wide), 1) == ""
    )
    every = all_of(*[refer(n) for n in range(2, MAX_COHORTS + 2)])
    assert find_code(graph(c1=every, **wide), 1) == "cohort_too_large"
    assert find_code(graph(c1=all_of(leaf("x" * MAX_BYTES))), 1) == "cohort_too_large"


def test_users_are_found_through_others() -> None:
    found = graph(c1=refer(2), c2=all_of(refer(3), refer(3)), c3=leaf(), c4=leaf(), c5=refer(3))
    assert sorted(found.find_users(CohortId(3))) == [1, 2, 5]
    assert found.find_users(CohortId(1)) == []


def test_a_replaced_definition_leaves_the_other_graph_unchanged() -> None:
    before = graph(c1=refer(2), c2=leaf())
    after = before.replace(CohortId(2), refer(3))
    assert before.order(CohortId(1)) == [2, 1]
    assert after.order(CohortId(1)) == [3, 2, 1]
    assert before.count_bytes() != after.count_bytes()
