"""The schedule of a survey."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hedgerow.projects.activity import SYSTEM
from hedgerow.surveys.model import Survey
from hedgerow.surveys.surveys import new_survey
from tests.unit.projects.factories import make_project

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def make_survey(**fields: Any) -> Survey:
    return replace(new_survey(make_project(), SYSTEM, START), id="s", **fields)


@pytest.mark.parametrize(
    ("fields", "is_running"),
    [
        ({}, False),
        ({"start_date": START}, True),
        ({"start_date": START, "end_date": START}, False),
        ({"start_date": START, "archived": True}, False),
        ({"end_date": START}, False),
    ],
)
def test_survey_runs_from_its_start_to_its_end(fields: dict[str, Any], is_running: bool) -> None:
    assert make_survey(**fields).is_running is is_running


@pytest.mark.parametrize(
    ("days", "iteration"),
    [(-5, 1), (0, 1), (6.9, 1), (7, 2), (14, 3), (700, 3)],
)
def test_iterations_advance_until_the_last(days: float, iteration: int) -> None:
    survey = make_survey(start_date=START, iteration_count=3, iteration_frequency_days=7)
    assert survey.due_iteration(START + timedelta(days=days)) == iteration
    ended = replace(survey, end_date=START + timedelta(days=8))
    assert ended.due_iteration(START + timedelta(days=days)) == min(iteration, 2)


@pytest.mark.parametrize(
    "fields", [{}, {"iteration_count": 3}, {"iteration_count": 0, "iteration_frequency_days": 7}]
)
def test_survey_without_recurrence_has_no_iterations(fields: dict[str, Any]) -> None:
    survey = make_survey(start_date=START, **fields)
    assert survey.due_iteration(START) is None
    assert survey.iteration_start_dates == []
    assert survey.property_suffix == "s"


def test_property_suffix_contains_the_iteration() -> None:
    survey = make_survey(iteration_count=3, iteration_frequency_days=7)
    assert survey.property_suffix == "s/1"
    assert survey.iteration_start_dates is None
    assert replace(survey, current_iteration=2).property_suffix == "s/2"
    begun = replace(survey, start_date=START, current_iteration=2)
    assert begun.current_iteration_start_date == START + timedelta(days=7)
