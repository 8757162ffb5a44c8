"""How surveys fare, from the events that SDKs send of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hedgerow.events.reading import Reading
from hedgerow.hogql.ast import Constant, Expr, Select
from hedgerow.hogql.parse import parse_select
from hedgerow.hogql.walk import replaced
from hedgerow.projects.model import Project
from hedgerow.surveys.model import MAX_SURVEYS

SHOWN, DISMISSED, SENT = "survey shown", "survey dismissed", "survey sent"

# Several events of one submission are one answer: they tell more and more of it.
_ANSWER = "coalesce(nullIf(toString(properties.$survey_submission_id), ''), toString(uuid))"
# Who leaves in the middle dismisses as well, having answered.
_COUNTS = f"""
    event IN ('{SHOWN}', '{DISMISSED}', '{SENT}') AND properties.$survey_id IN {{ids}}
    AND timestamp >= {{after}} AND timestamp <= {{before}}
    AND (event != '{DISMISSED}'
         OR ifNull(toString(properties.$survey_partially_completed), '') != 'true')
"""
COUNT_ANSWERS = f"""
    SELECT properties.$survey_id AS id, uniqExact({_ANSWER})
    FROM events
    WHERE event = '{SENT}' AND timestamp >= {{after}} AND properties.$survey_id IN {{ids}}
    GROUP BY id LIMIT {MAX_SURVEYS}
"""  # noqa: S608 - nothing in it comes from anywhere else
COUNT_EVENTS = f"""
    SELECT event, uniqExact(if(event = '{SENT}', {_ANSWER}, toString(uuid))),
           uniqExact(person_id), min(timestamp), max(timestamp)
    FROM events WHERE {_COUNTS} GROUP BY event LIMIT 3
"""  # noqa: S608
COUNT_BOTH = f"""
    SELECT count() FROM (
        SELECT person_id FROM events WHERE {_COUNTS} GROUP BY person_id
        HAVING countIf(event = '{DISMISSED}') > 0 AND countIf(event = '{SENT}') > 0
    )
"""  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often something happened to surveys, and to how many people."""

    total: int = 0
    people: int = 0
    first: datetime | None = None
    last: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fared:
    """Who dismissed a survey and answered it after all has answered it."""

    shown: Tally
    dismissed: Tally
    sent: Tally

    @property
    def only_shown(self) -> int:
        return max(0, self.shown.total - self.dismissed.total - self.sent.total)

    @property
    def people_only_shown(self) -> int:
        return max(0, self.shown.people - self.dismissed.people - self.sent.people)


NOTHING = Fared(shown=Tally(), dismissed=Tally(), sent=Tally())


class Responses:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    async def counts(
        self, project: Project, ids: Sequence[str], after: datetime, now: datetime
    ) -> Mapping[str, int]:
        """How many answers each of these surveys has had since then; those without are left
        out."""
        rows = await self._rows(project, COUNT_ANSWERS, {"ids": list(ids), "after": after}, now)
        return dict(rows)  # type: ignore[arg-type]

    async def fared(
        self, project: Project, ids: Sequence[str], span: tuple[datetime, datetime], now: datetime
    ) -> Fared:
        values = {"ids": list(ids), "after": span[0], "before": span[1]}
        found = {
            event: Tally(total=total, people=people, first=first, last=last)
            for event, total, people, first, last in await self._rows(
                project, COUNT_EVENTS, values, now
            )
        }
        [[both]] = await self._rows(project, COUNT_BOTH, values, now)
        shown, dismissed, sent = (found.get(name, Tally()) for name in (SHOWN, DISMISSED, SENT))
        kept = Tally(
            total=dismissed.total,
            people=max(0, dismissed.people - both),
            first=dismissed.first,
            last=dismissed.last,
        )
        return Fared(shown=shown, dismissed=kept, sent=sent)

    async def _rows(
        self, project: Project, text: str, values: Mapping[str, Any], now: datetime
    ) -> Sequence[Sequence[Any]]:
        known: dict[str, Expr] = {name: Constant(value=value) for name, value in values.items()}

        def ask() -> Select:
            return replaced(parse_select(text), known)

        around = await self._reading.surroundings(project, now, [text])
        return (await self._reading.read(around, ask)).rows
