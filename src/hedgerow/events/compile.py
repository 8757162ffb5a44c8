"""From a question to SQL: HogQL's printer, told of the project and its cohorts."""

from hedgerow.events.cohorts import members, named
from hedgerow.events.surroundings import Surroundings
from hedgerow.hogql.ast import Select
from hedgerow.hogql.printer import Limits, Printed, print_select
from hedgerow.hogql.world import World
from hedgerow.persons.model import CohortId

# Who asks says how many rows they want.
_AS_ASKED = Limits(default=None, maximum=None)


def compiled(
    query: Select, around: Surroundings, limits: Limits = _AS_ASKED, text: str | None = None
) -> Printed:
    """With the `text` that it was read from, an error tells the place."""
    return print_select(query, world_of(around), limits, text)


def world_of(around: Surroundings) -> World:
    """What HogQL is told of a project."""

    def cohort(which: int | str) -> Select:
        id = CohortId(which) if isinstance(which, int) else named(which, around.cohorts)
        return members(id, around.cohorts, around.at)

    return World(
        project_id=around.project.id,
        now=around.at.now,
        timezone=around.project.timezone,
        cohort=cohort,
    )
