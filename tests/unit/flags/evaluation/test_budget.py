"""The budgets of an evaluation: what they refuse, and that the other flags keep their results."""

from collections.abc import Iterator
from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.filters.operators import Operator, build_predicate
from hedgerow.filters.validate import MAX_PATTERNS
from hedgerow.flags.evaluation.budget import (
    FLAG_BUDGET_S,
    MATCH_BUDGET_S,
    PROJECT_BURST_S,
    PROJECT_SHARE,
    REQUEST_BUDGET_S,
    SLOW_FLAG_COST_US,
    SLOW_FLAG_S,
    EvaluationPacer,
    ProjectBudget,
    RequestBudget,
)
from hedgerow.flags.evaluation.evaluation_context import BudgetExceeded
from hedgerow.flags.model import FlagOutcome
from hedgerow.flags.validate import ValidationContext, validate_filters
from hedgerow.persons.cohorts import validate_definition
from hedgerow.persons.model import CohortId
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import START
from tests.unit.flags.evaluation.test_decide import DeciderFixture, values_of
from tests.unit.flags.factories import (
    build_filters,
    depends_on,
    evaluate_all,
    group_prop,
    loaded_context,
    make_flag,
    make_snapshot,
    prop,
    request_context,
)

# With look-around, which RE2 does not support: each match ends at its time limit.
CATASTROPHIC = [f"(?=a)(a+a+)+${number}" for number in range(100)]
SLOW = build_filters(*({"properties": [prop("text", each, "regex")]} for each in CATASTROPHIC))
PERSON = {"text": "a" * 5000, "plan": "pro"}


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_project_budget_refills_up_to_its_burst() -> None:
    clock = FakeClock()
    budget = ProjectBudget(clock)
    budget.spend(PROJECT_BURST_S + 0.1)
    assert budget.is_spent()
    clock.now_s += 0.1 / PROJECT_SHARE - 0.001
    assert budget.is_spent()
    clock.now_s += 0.002
    assert not budget.is_spent()
    clock.now_s += 1000
    budget.is_spent()
    budget.spend(PROJECT_BURST_S)
    assert budget.is_spent()


def test_a_flag_has_a_budget() -> None:
    clock = FakeClock()
    budget = RequestBudget(ProjectBudget(), clock)
    clock.now_s = FLAG_BUDGET_S * 0.9
    budget.check()
    budget.end_part()
    clock.now_s += FLAG_BUDGET_S * 0.9
    budget.check()
    clock.now_s += FLAG_BUDGET_S * 0.2
    with pytest.raises(BudgetExceeded):
        budget.check()


def test_slow_matches_have_a_budget_for_the_whole_request() -> None:
    clock = FakeClock()
    budget = RequestBudget(ProjectBudget(), clock)
    for _ in range(2):
        budget.begin_match()
        clock.now_s += MATCH_BUDGET_S * 0.6
        budget.end_match()
    with pytest.raises(BudgetExceeded):
        budget.begin_match()


def test_slow_flags_are_charged_to_the_project_and_quick_ones_are_not() -> None:
    clock = FakeClock()
    project = ProjectBudget(FakeClock())
    for _ in range(1000):
        quick = RequestBudget(project, clock)
        clock.now_s += SLOW_FLAG_S * 0.9
        quick.end_part()
    assert not project.is_spent()
    slow = RequestBudget(project, clock)
    clock.now_s += PROJECT_BURST_S * 1.1
    slow.end_part()
    assert project.is_spent()
    other = RequestBudget(project, clock)
    assert not other.can_evaluate(SLOW_FLAG_COST_US)
    assert other.can_evaluate(SLOW_FLAG_COST_US - 1)
    with pytest.raises(BudgetExceeded):
        other.begin_match()


def test_a_request_has_a_budget() -> None:
    clock = FakeClock()
    budget = RequestBudget(ProjectBudget(), clock)
    clock.now_s += REQUEST_BUDGET_S * 1.1
    budget.end_part()
    assert not budget.can_evaluate(1)


async def test_slow_patterns_fail_their_flag_only() -> None:
    fixture = DeciderFixture(
        make_flag(id=1),
        make_flag(SLOW, id=2),
        make_flag(build_filters({"properties": [prop("plan", "pro")]}), id=3),
        make_flag(build_filters({"properties": [depends_on(2)]}), id=4),
    )
    for _ in range(3):
        decision = await fixture.decision(person_properties=PERSON)
        assert decision.has_errors
        assert values_of(decision) == {"flag-1": True, "flag-3": True, "flag-4": False}


async def test_a_project_without_time_left_is_refused_at_once_and_reported_once() -> None:
    reported: list[int] = []
    pacer = EvaluationPacer(reported.append, FakeClock())
    snapshot = make_snapshot(make_flag(SLOW, id=1), make_flag(id=2))
    evaluated = 0

    async def evaluate() -> list[FlagOutcome]:
        nonlocal evaluated
        context = request_context(PERSON)
        plan = snapshot.plan(snapshot.all_flags)
        outcomes = plan.defaults.copy()
        parts = snapshot.evaluate_in_parts(plan, context, outcomes, stop_at_stored_data=True)

        def count_parts() -> Iterator[int]:
            nonlocal evaluated
            for cost_us in parts:
                yield cost_us
                evaluated += not context.is_refused

        await pacer.run(ProjectId(1), count_parts(), context)
        assert context.has_errors
        return outcomes

    for _ in range(100):
        values = {each.flag.id: each.has_failed for each in await evaluate()}
        assert values == {1: True, 2: False}
    # The flag without filters each time, the slow one only while there was time.
    assert 100 < evaluated < 200
    assert pacer.exceeded == 100
    assert reported == [1]


def test_parts_have_the_same_outcomes_as_the_whole() -> None:
    flags = [make_flag(build_filters({"properties": [prop(f"p{id}", "x")]}), id=id)
             for id in range(1, 200)]  # fmt: skip
    flags += [
        make_flag(build_filters({"properties": [depends_on(id - 199)]}), id=id)
        for id in range(200, 300)
    ]
    snapshot = make_snapshot(*flags)
    person = {f"p{id}": "x" if id % 3 else "y" for id in range(1, 200)}
    context = loaded_context(person)
    plan = snapshot.plan(snapshot.all_flags)
    outcomes = plan.defaults.copy()
    parts = list(snapshot.evaluate_in_parts(plan, context, outcomes, stop_at_stored_data=False))
    assert len(parts) > 5
    expected = evaluate_all(snapshot, loaded_context(person))
    assert {each.flag.id: each for each in outcomes} == expected


@pytest.mark.parametrize("operator", ["icontains_multi", "not_icontains_multi"])
@pytest.mark.parametrize("value", ["some TEXT", "other", "", 12, None])
@pytest.mark.parametrize("count", [1, 5, 6, 37])
def test_a_long_list_of_texts_is_searched_like_a_short_one(
    operator: str, value: Any, count: int
) -> None:
    texts = [*(f"no-{number}" for number in range(count - 1)), "text"]
    expected = build_predicate(Operator(operator), texts)(value, START)
    filters = [prop("a", texts, operator), group_prop(0, "a", texts, operator)]
    snapshot = make_snapshot(
        make_flag(build_filters({"properties": [filters[0]]}), id=1),
        make_flag(
            build_filters(
                {"properties": [filters[1]], "aggregation_group_type_index": 0},
            ),
            id=2,
        ),
    )
    context = loaded_context({"a": value}, groups={0: "acme"}, group_properties={0: {"a": value}})
    assert {each.value for each in evaluate_all(snapshot, context).values()} == {expected}


def test_a_definition_has_a_maximum_of_patterns() -> None:
    patterns = [prop("text", str(number), "regex") for number in range(MAX_PATTERNS + 1)]
    context = ValidationContext(cohorts={}, flags={}, own_id=None)
    validate_filters(build_filters({"properties": patterns[1:]}), context, is_new=True)
    with pytest.raises(Invalid, match="at most 200 regular expressions"):
        validate_filters(build_filters({"properties": patterns}), context, is_new=True)
    with pytest.raises(Invalid, match="at most 200 regular expressions"):
        validate_definition({"type": "OR", "values": patterns}, CohortId(0), {})


def test_stored_patterns_beyond_the_maximum_fail_their_flags() -> None:
    flags = [
        make_flag(
            build_filters(
                *({"properties": [prop("text", f"{id}-{n}", "regex")]} for n in range(1000))
            ),
            id=id,
        )
        for id in range(1, 6)
    ]
    outcomes = evaluate_all(make_snapshot(*flags), loaded_context({"text": "1-1"}))
    assert [outcomes[id].has_failed for id in range(1, 6)] == [False] * 4 + [True]


async def test_a_huge_flag_is_ended_by_its_budget() -> None:
    """Without a budget, this search takes about five seconds."""
    texts = ["ab"] * 60_000
    huge = build_filters({"properties": [prop("text", texts, "icontains_multi")]})
    fixture = DeciderFixture(make_flag(huge, id=1), make_flag(id=2))
    decision = await fixture.decision(person_properties={"text": "a" * 10_000})
    assert decision.has_errors
    assert values_of(decision) == {"flag-2": True}
