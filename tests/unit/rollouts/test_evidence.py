"""What is concluded from the sums of both groups."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hedgerow.flags.model import FlagId
from hedgerow.projects.activity import SYSTEM
from hedgerow.projects.model import ProjectId
from hedgerow.rollouts.evidence import CONTROL, TREATED, judge
from hedgerow.rollouts.model import HarmAction, NoDataRule, PlanId, RolloutPlan
from hedgerow.rollouts.parse import parse_metrics, parse_steps

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_plan(percentages: Sequence[float] = (10, 50, 100), **metric: Any) -> RolloutPlan:
    sent = {"type": "conversion", "event": "paid", "harm": "decrease"} | metric
    return RolloutPlan(
        id=PlanId(1),
        project_id=ProjectId(1),
        flag_id=FlagId(1),
        condition_index=0,
        name="",
        steps=parse_steps([{"rollout_percentage": p, "duration_seconds": 60} for p in percentages]),
        metrics=parse_metrics([sent]),
        alpha=0.05,
        window=timedelta(seconds=60),
        on_harm=HarmAction.PAUSE,
        on_no_data=NoDataRule.WAIT,
        destinations=(),
        author=SYSTEM,
        author_uuid="",
        created_at=NOW,
        updated_at=NOW,
    )


def row(group: int, persons: int, converted: int) -> list[Any]:
    return [group, persons, converted, persons, converted, persons, converted, converted]


def verdict(treated: tuple[int, int], control: tuple[int, int], **metric: Any) -> str:
    rows = [row(TREATED, *treated), row(CONTROL, *control)]
    return str(judge(make_plan(**metric), rows)[0]["verdict"])


def test_alpha_is_shared_by_the_tests_of_a_plan() -> None:
    assert make_plan().test_alpha == pytest.approx(0.025)  # none at 100 %
    assert make_plan((100,)).test_alpha == 0.05


@pytest.mark.parametrize(
    ("treated", "control", "metric", "expected"),
    [
        ((1_000, 100), (1_000, 300), {}, "harm"),
        ((1_000, 300), (1_000, 100), {}, "no_harm_found"),
        ((1_000, 300), (1_000, 100), {"harm": "increase"}, "harm"),
        ((1_000, 295), (1_000, 300), {}, "no_harm_found"),
        ((99, 0), (1_000, 300), {}, "too_few_persons"),
        ((1_000, 0), (99, 99), {}, "too_few_persons"),
        ((1_000, 0), (999, 300), {"min_persons": 1_000}, "too_few_persons"),
        ((1_000, 0), (1_000, 0), {}, "no_data"),
        ((1_000, 4), (1_000, 0), {"harm": "increase"}, "too_little_data"),
    ],
)
def test_verdicts(
    treated: tuple[int, int], control: tuple[int, int], metric: dict[str, Any], expected: str
) -> None:
    assert verdict(treated, control, **metric) == expected


def test_the_evidence_says_why() -> None:
    [found] = judge(make_plan(), [row(TREATED, 1_000, 100), row(CONTROL, 1_000, 300)])
    assert found["treated"] == {"persons": 1_000, "value": 0.1}
    assert found["difference"] == pytest.approx(-0.2)
    assert found["relative_difference"] == pytest.approx(-2 / 3)
    assert 0.1 < found["harm_at_least"] < 0.2
    assert "0.1 with the feature and 0.3 without it (-66.7%)" in found["why"]
    assert found["p_value"] <= found["alpha"]


def test_without_rows_there_are_no_persons() -> None:
    [found] = judge(make_plan(), [])
    assert (found["verdict"], found["treated"]) == (
        "too_few_persons",
        {"persons": 0, "value": None},
    )


def test_sums_that_overflow_are_no_harm() -> None:
    broken = [TREATED, 1_000, 1e308, 1_000, float("inf"), 1_000, float("inf"), 1_000]
    [found] = judge(make_plan(), [broken, row(CONTROL, 1_000, 300)])
    assert found["verdict"] == "too_little_data"
