"""From a question to SQL: HogQL's printer, told of the project and its cohorts."""

from collections.abc import Sequence

from hedgerow.errors import Invalid
from hedgerow.events.cohorts import members, named
from hedgerow.events.expressions import field
from hedgerow.events.surroundings import Surroundings
from hedgerow.hogql.ast import Join, Select, SelectQuery
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parse import parse_expr, parse_order
from hedgerow.hogql.printer import Limits, Printed, print_select
from hedgerow.hogql.world import World
from hedgerow.persons.model import CohortId

# A parameter, or a place in one, and the HogQL there.
Text = tuple[str, str]

# Who asks says how many rows they want.
AS_ASKED = Limits(default=None, maximum=None)


def compiled(
    query: Select, around: Surroundings, limits: Limits = AS_ASKED, text: str | None = None
) -> Printed:
    """With the `text` that it was read from, an error tells the place."""
    return print_select(query, world_of(around), limits, text)


def blamed(error: HogQLError, texts: Sequence[Text], around: Surroundings) -> Invalid:
    """The error with the parameter that it is about and the place in it, as far as one of them is
    wrong by itself."""
    for attr, text in texts:
        try:
            expr = parse_order(text).expr if attr == "orderBy" else parse_expr(text)
            alone = SelectQuery(select=[expr], source=Join(table=field("events")))
            print_select(alone, world_of(around), AS_ASKED, text)
        except HogQLError as found:
            return Invalid(found.detail, attr=attr, code=found.code)
    return error


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
