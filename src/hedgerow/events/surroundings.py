"""What a question about events is asked in."""

from dataclasses import dataclass

from hedgerow.events.cohorts import Cohorts
from hedgerow.events.conditions import Moment
from hedgerow.projects.model import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a question is asked in: whose, when, and among which cohorts."""

    project: Project
    cohorts: Cohorts
    at: Moment
