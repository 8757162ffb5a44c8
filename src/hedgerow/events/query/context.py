"""The context of a query, and compilation to SQL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from hedgerow.errors import Invalid
from hedgerow.events.actions.model import Action, ActionId, ActionsById
from hedgerow.events.actions.steps import build_action_condition
from hedgerow.events.filters.cohorts import CohortsById, find_cohort_by_name, select_members
from hedgerow.events.filters.conditions import QueryTime
from hedgerow.events.query.flag_values import FlagValues
from hedgerow.hogql.ast import Expr, Join, Select, SelectQuery
from hedgerow.hogql.builders import field as column
from hedgerow.hogql.errors import HogQLError
from hedgerow.hogql.parser.parse import parse_expr, parse_order
from hedgerow.hogql.printer.context import PrintContext
from hedgerow.hogql.printer.statement import PrintedQuery, RowLimits, print_select
from hedgerow.lib.text import truncate
from hedgerow.persons.model import CohortId
from hedgerow.projects.model import Project, WeekStart


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryContext:
    """The project, its cohorts and actions, the values of the flags that the query names, and the
    time that it runs with. `is_costly` if the compilation may take long. `reads_typed_columns` if
    the event store has filled them."""

    project: Project
    cohorts: CohortsById
    time: QueryTime
    is_costly: bool = False
    actions: ActionsById = field(default_factory=dict)
    flags: Mapping[str, FlagValues] = field(default_factory=dict)
    reads_typed_columns: bool = False


# The name of a parameter, and the HogQL in it.
NamedHogQL = tuple[str, str]

# The caller sets the LIMIT.
UNLIMITED_ROWS = RowLimits(default=None, maximum=None)


def compile_or_locate(
    build_query: Callable[[], Select],
    context: QueryContext,
    rows: RowLimits = UNLIMITED_ROWS,
    texts: Sequence[NamedHogQL] = (),
) -> PrintedQuery:
    """Print a query as SQL. `texts` is the HogQL in it, for error positions."""
    try:
        return compile_query(build_query(), context, rows)
    except HogQLError as error:
        raise locate_error(error, texts, context) from None


def compile_query(
    query: Select,
    context: QueryContext,
    limits: RowLimits = UNLIMITED_ROWS,
    text: str | None = None,
) -> PrintedQuery:
    """Print a query as SQL. With its source `text`, errors contain the position."""
    return print_select(query, build_print_context(context), limits, text)


def locate_error(error: HogQLError, texts: Sequence[NamedHogQL], context: QueryContext) -> Invalid:
    """Return the error with the parameter that causes it, if one of the texts is invalid on its
    own."""
    for attr, text in texts:
        try:
            expr = parse_order(text).expr if attr == "orderBy" else parse_expr(text)
            alone = SelectQuery(select=[expr], source=Join(table=column("events")))
            print_select(alone, build_print_context(context), UNLIMITED_ROWS, text)
        except HogQLError as found:
            return Invalid(found.detail, attr=attr, code=found.code)
    return error


def find_action(which: int | str, context: QueryContext, attr: str | None = None) -> Action:
    """Return the action with this id or name. Raises Invalid if there is none."""
    if isinstance(which, int):
        found = context.actions.get(ActionId(which))
    else:
        found = next((each for each in context.actions.values() if each.name == which), None)
    if found is None:
        by = f"id {which}" if isinstance(which, int) else f'name "{truncate(which)}"'
        raise Invalid(f"Could not find action with {by}", attr=attr, code="action_does_not_exist")
    return found


def match_action(action: Action, context: QueryContext) -> Expr:
    return build_action_condition(action, context.cohorts, context.time)


def build_print_context(context: QueryContext) -> PrintContext:
    @cache  # a query can name a cohort many times
    def cohort(which: int | str) -> Select:
        id = (
            CohortId(which)
            if isinstance(which, int)
            else find_cohort_by_name(which, context.cohorts)
        )
        return select_members(id, context.cohorts, context.time)

    @cache
    def action(which: int | str) -> Expr:
        return match_action(find_action(which, context), context)

    return PrintContext(
        project_id=context.project.id,
        now=context.time.now,
        timezone=context.project.timezone,
        starts_weeks_on_monday=context.project.week_start_day is WeekStart.MONDAY,
        find_cohort=cohort,
        find_action=action,
        find_flag=lambda key: each.table if (each := context.flags.get(key)) else None,
        reads_typed_columns=context.reads_typed_columns,
    )
