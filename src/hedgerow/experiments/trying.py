"""An experiment's questions, put together before it is stored: whoever sends a filter that cannot
be asked hears of it at once, and not with the results. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from hedgerow.errors import Invalid
from hedgerow.events.compile import compiled
from hedgerow.events.conditions import Moment
from hedgerow.events.surroundings import Surroundings
from hedgerow.experiments.counting import Exposure, exposures_by_day, measured
from hedgerow.experiments.criteria import read_criteria
from hedgerow.experiments.metrics import read_metrics
from hedgerow.experiments.model import CONTROL
from hedgerow.hogql.ast import Select
from hedgerow.persons.model import Cohort
from hedgerow.projects.model import Project

CRITERIA = "exposure_criteria"
METRICS = ("metrics", "metrics_secondary")


def check_questions(
    edit: Mapping[str, Any], project: Project, cohorts: Sequence[Cohort], now: datetime
) -> None:
    """Invalid for what cannot be asked in these fields of an experiment."""
    around = Surroundings(
        project=project,
        cohorts={cohort.id: cohort for cohort in cohorts},
        at=Moment(now=now, zone=ZoneInfo(project.timezone)),
    )
    plain = _exposure({}, now)
    if CRITERIA in edit:
        _try(CRITERIA, partial(exposures_by_day, _exposure(edit[CRITERIA], now), around), around)
    for name in METRICS:
        for number, metric in enumerate(read_metrics(edit.get(name, []), name)):
            _try(f"{name}[{number}]", partial(measured, metric, plain, around), around)


def _exposure(criteria: Mapping[str, Any], now: datetime) -> Exposure:
    return Exposure(
        criteria=read_criteria(criteria, ""),
        flag_key="",
        variants=[CONTROL],
        unit="person_id",
        start=now,
        end=now,
    )


def _try(place: str, ask: Callable[[], Select], around: Surroundings) -> None:
    try:
        compiled(ask(), around)
    except Invalid as error:
        raise Invalid(error.detail, attr=error.attr or place, code=error.code) from None
