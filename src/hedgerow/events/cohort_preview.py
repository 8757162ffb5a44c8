"""Count the persons whom a cohort would have, before it is saved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from hedgerow.events.filters.cohorts import CohortsById, select_members
from hedgerow.events.query.context import QueryContext
from hedgerow.events.query.executor import DEFAULT_LIMITS, QueryExecutor
from hedgerow.hogql.ast import Join, SelectQuery
from hedgerow.hogql.builders import call, field, in_subquery
from hedgerow.persons.behaviors.filters import BEHAVIORAL
from hedgerow.persons.cohorts import build_draft
from hedgerow.persons.model import Cohort, CohortId
from hedgerow.projects.model import Project

LIMITS = replace(DEFAULT_LIMITS, timeout_s=5.0)
# A definition with more alternatives is counted as a whole only.
MAX_GROUPS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortPreview:
    """`groups` are the persons of each alternative of the outermost OR."""

    count: int
    total: int
    groups: Sequence[int]


class CohortCounter:
    def __init__(self, executor: QueryExecutor) -> None:
        self._executor = executor

    async def count(self, project: Project, definition: Any, now: datetime) -> CohortPreview:
        """Count who matches now, by what is stored. Raises Invalid."""
        # Names what the context must contain: cohorts, and the actions of behaviors.
        documents = [{"type": "cohort"}, {"type": BEHAVIORAL}]
        context = await self._executor.build_context(project, now, documents)
        draft = build_draft(project.id, definition, context.cohorts, now)
        parts = await self._executor.resolve_actions(project, _split(draft))
        cohorts = {each.id: each for each in parts}
        context = replace(context, cohorts={**context.cohorts, **cohorts}, is_costly=True)
        query = partial(_build_query, list(cohorts), context.cohorts, context)
        [[total, count, *groups]] = (await self._executor.execute(context, query, LIMITS)).rows
        return CohortPreview(count=count, total=total, groups=groups)


def _split(draft: Cohort) -> Sequence[Cohort]:
    """Return the cohort, and each of its alternatives as one with a negative id."""
    definition: Mapping[str, Any] = draft.definition
    values = definition.get("values") or []
    is_any = str(definition.get("type")).upper() == "OR"
    alternatives = values if is_any and 1 < len(values) <= MAX_GROUPS else []
    return [
        draft,
        *(
            replace(draft, id=CohortId(-number), definition={"type": "AND", "values": [each]})
            for number, each in enumerate(alternatives, start=1)
        ),
    ]


def _build_query(
    ids: Sequence[CohortId], cohorts: CohortsById, context: QueryContext
) -> SelectQuery:
    members = [select_members(id, cohorts, context.time) for id in ids]
    return SelectQuery(
        select=[
            call("count"),
            *(call("countIf", in_subquery(field("id"), each)) for each in members),
        ],
        source=Join(table=field("persons")),
    )
