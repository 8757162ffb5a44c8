"""Validation of an experiment's filters before it is stored: its queries must compile. Pure."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from hedgerow.errors import Invalid
from hedgerow.events.actions.model import Action
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.events.query.context import QueryContext, compile_query
from hedgerow.experiments.criteria import parse_criteria
from hedgerow.experiments.metrics import parse_metrics
from hedgerow.experiments.model import CONTROL
from hedgerow.experiments.queries_sql import ExposureQuery, build_exposure_query, build_metric_query
from hedgerow.hogql.ast import Select
from hedgerow.persons.model import Cohort
from hedgerow.projects.model import Project

CRITERIA = "exposure_criteria"
METRICS = ("metrics", "metrics_secondary")


def validate_queries(
    edit: Mapping[str, Any],
    project: Project,
    cohorts: Sequence[Cohort],
    actions: Sequence[Action],
    now: datetime,
) -> None:
    """Raise Invalid if the criteria or metrics in these fields cannot be compiled."""
    context = QueryContext(
        project=project,
        cohorts={cohort.id: cohort for cohort in cohorts},
        time=QueryTime(now=now, zone=ZoneInfo(project.timezone)),
        actions={action.id: action for action in actions},
    )
    default_exposure = _build_exposure({}, now)
    if CRITERIA in edit:
        _check_compiles(
            CRITERIA,
            partial(build_exposure_query, _build_exposure(edit[CRITERIA], now), context),
            context,
        )
    for name in METRICS:
        for number, metric in enumerate(parse_metrics(edit.get(name, []), name)):
            _check_compiles(
                f"{name}[{number}]",
                partial(build_metric_query, metric, default_exposure, context),
                context,
            )


def _build_exposure(criteria: Mapping[str, Any], now: datetime) -> ExposureQuery:
    return ExposureQuery(
        criteria=parse_criteria(criteria, ""),
        flag_key="",
        variants=[CONTROL],
        unit="person_id",
        start=now,
        end=now,
    )


def _check_compiles(attr: str, ask: Callable[[], Select], context: QueryContext) -> None:
    try:
        compile_query(ask(), context)
    except Invalid as error:
        raise Invalid(error.detail, attr=error.attr or attr, code=error.code) from None
