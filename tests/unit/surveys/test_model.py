"""What follows from a survey's dates."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hedgerow.projects.activity import SYSTEM
from hedgerow.surveys.model import Survey
from hedgerow.surveys.surveys import blank_survey
from tests.unit.projects.world import a_project

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_survey(**fields: Any) -> Survey:
    return replace(blank_survey(a_project(), SYSTEM, START), id="s", **fields)


@pytest.mark.parametrize(
    ("fields", "runs"),
    [
        ({}, False),
        ({"start_date": START}, True),
        ({"start_date": START, "end_date": START}, False),
        ({"start_date": START, "archived": True}, False),
        ({"end_date": START}, False),
    ],
)
def test_a_survey_runs_from_its_start_to_its_end(fields: dict[str, Any], runs: bool) -> None:
    assert a_survey(**fields).is_running is runs


@pytest.mark.parametrize(
    ("days", "iteration"),
    [(-5, 1), (0, 1), (6.9, 1), (7, 2), (14, 3), (700, 3)],
)
def test_iterations_follow_each_other_until_the_last(days: float, iteration: int) -> None:
    survey = a_survey(start_date=START, iteration_count=3, iteration_frequency_days=7)
    assert survey.due_iteration(START + timedelta(days=days)) == iteration
    ended = replace(survey, end_date=START + timedelta(days=8))
    assert ended.due_iteration(START + timedelta(days=days)) == min(iteration, 2)


@pytest.mark.parametrize(
    "fields", [{}, {"iteration_count": 3}, {"iteration_count": 0, "iteration_frequency_days": 7}]
)
def test_a_survey_of_one_time_has_no_iterations(fields: dict[str, Any]) -> None:
    survey = a_survey(start_date=START, **fields)
    assert survey.due_iteration(START) is None
    assert survey.iteration_start_dates == []
    assert survey.mark == "s"


def test_what_marks_an_answer_names_the_iteration() -> None:
    survey = a_survey(iteration_count=3, iteration_frequency_days=7)
    assert survey.mark == "s/1"
    assert survey.iteration_start_dates is None
    assert replace(survey, current_iteration=2).mark == "s/2"
    begun = replace(survey, start_date=START, current_iteration=2)
    assert begun.current_iteration_start_date == START + timedelta(days=7)
