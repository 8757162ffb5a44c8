"""The filters that apply to all series of an insight, and its cohorts."""

from collections.abc import Mapping
from typing import Any

from hedgerow.events.query.context import QueryContext
from hedgerow.hogql.ast import Expr
from hedgerow.hogql.builders import all_of, constant
from hedgerow.insights.breakdowns import Breakdown, name_cohort
from hedgerow.insights.series import filter_compiler
from hedgerow.persons.model import CohortId
from hedgerow.projects.model import Project

_ATTR = "query__breakdownFilter__breakdown"


def build_query_filters(sent: Mapping[str, Any], context: QueryContext) -> Expr:
    compile_filters = filter_compiler(context).compile
    found: list[Expr] = []
    if properties := sent.get("properties"):
        found.append(compile_filters(properties, "query__properties"))
    if sent.get("filterTestAccounts"):
        accounts = list(context.project.test_account_filters)
        found.append(compile_filters(accounts, "test_account_filters"))
    return all_of(found)


def list_documents(sent: Mapping[str, Any], project: Project) -> list[Any]:
    """Return the documents that decide what a query needs to know."""
    return [sent, *(project.test_account_filters if sent.get("filterTestAccounts") else ())]


def list_cohorts(
    breakdown: Breakdown | None, context: QueryContext
) -> list[tuple[CohortId | None, str | None]]:
    """Return the cohorts of a breakdown with their names. Without one, everybody is one cohort."""
    if breakdown is None or not breakdown.cohorts:
        return [(None, None)]
    return [(each, name_cohort(each, context, _ATTR)) for each in breakdown.cohorts]


def match_cohort(cohort: CohortId | None, context: QueryContext) -> Expr:
    """Match the events of a cohort; None matches all."""
    if cohort is None:
        return constant(True)
    sent = {"type": "cohort", "key": "id", "value": int(cohort)}
    return filter_compiler(context).compile(sent, _ATTR)
