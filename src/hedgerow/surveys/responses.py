"""Survey statistics, computed from the events that SDKs send."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hedgerow.events.query.executor import QueryExecutor
from hedgerow.hogql.ast import Constant, Expr, Select
from hedgerow.hogql.parser.parse import parse_select
from hedgerow.hogql.traversal import replace_placeholders
from hedgerow.projects.model import Project
from hedgerow.surveys.model import MAX_SURVEYS

SHOWN, DISMISSED, SENT = "survey shown", "survey dismissed", "survey sent"

# The events of one submission, each more complete than the last, are one response.
_SUBMISSION_SQL = "coalesce(nullIf(toString(properties.$survey_submission_id), ''), toString(uuid))"
# People who leave a survey after the first answers also send a dismissal.
_COUNTED_SQL = f"""
    event IN ('{SHOWN}', '{DISMISSED}', '{SENT}') AND properties.$survey_id IN {{ids}}
    AND timestamp >= {{after}} AND timestamp <= {{before}}
    AND (event != '{DISMISSED}'
         OR ifNull(toString(properties.$survey_partially_completed), '') != 'true')
"""
COUNT_ANSWERS = f"""
    SELECT properties.$survey_id AS id, uniqExact({_SUBMISSION_SQL})
    FROM events
    WHERE event = '{SENT}' AND timestamp >= {{after}} AND properties.$survey_id IN {{ids}}
    GROUP BY id LIMIT {MAX_SURVEYS}
"""  # noqa: S608 - contains only constants
COUNT_EVENTS = f"""
    SELECT event, uniqExact(if(event = '{SENT}', {_SUBMISSION_SQL}, toString(uuid))),
           uniqExact(person_id), min(timestamp), max(timestamp)
    FROM events WHERE {_COUNTED_SQL} GROUP BY event LIMIT 3
"""  # noqa: S608
COUNT_BOTH = f"""
    SELECT count() FROM (
        SELECT person_id FROM events WHERE {_COUNTED_SQL} GROUP BY person_id
        HAVING countIf(event = '{DISMISSED}') > 0 AND countIf(event = '{SENT}') > 0
    )
"""  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTally:
    """How often an event occurred, and for how many people."""

    total: int = 0
    people: int = 0
    first: datetime | None = None
    last: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyOutcomes:
    """The events of surveys. People who dismissed a survey and answered it later count as
    answers."""

    shown: EventTally
    dismissed: EventTally
    sent: EventTally

    @property
    def only_shown(self) -> int:
        return max(0, self.shown.total - self.dismissed.total - self.sent.total)

    @property
    def people_only_shown(self) -> int:
        return max(0, self.shown.people - self.dismissed.people - self.sent.people)


NO_STATS = SurveyOutcomes(shown=EventTally(), dismissed=EventTally(), sent=EventTally())


class SurveyResponses:
    def __init__(self, executor: QueryExecutor) -> None:
        self._executor = executor

    async def count_responses(
        self, project: Project, ids: Sequence[str], after: datetime, now: datetime
    ) -> Mapping[str, int]:
        """Count the responses of each survey since `after`. Surveys without any are left out."""
        rows = await self._fetch_rows(
            project, COUNT_ANSWERS, {"ids": list(ids), "after": after}, now
        )
        return dict(rows)  # type: ignore[arg-type]

    async def get_stats(
        self, project: Project, ids: Sequence[str], span: tuple[datetime, datetime], now: datetime
    ) -> SurveyOutcomes:
        values = {"ids": list(ids), "after": span[0], "before": span[1]}
        found = {
            event: EventTally(total=total, people=people, first=first, last=last)
            for event, total, people, first, last in await self._fetch_rows(
                project, COUNT_EVENTS, values, now
            )
        }
        [[both]] = await self._fetch_rows(project, COUNT_BOTH, values, now)
        shown, dismissed, sent = (
            found.get(name, EventTally()) for name in (SHOWN, DISMISSED, SENT)
        )
        without_answered = EventTally(
            total=dismissed.total,
            people=max(0, dismissed.people - both),
            first=dismissed.first,
            last=dismissed.last,
        )
        return SurveyOutcomes(shown=shown, dismissed=without_answered, sent=sent)

    async def _fetch_rows(
        self, project: Project, text: str, values: Mapping[str, Any], now: datetime
    ) -> Sequence[Sequence[Any]]:
        placeholders: dict[str, Expr] = {
            name: Constant(value=value) for name, value in values.items()
        }

        def build_query() -> Select:
            return replace_placeholders(parse_select(text), placeholders)

        context = await self._executor.build_context(project, now, [text])
        return (await self._executor.execute(context, build_query)).rows
