"""What a draft of a flag would change for the people of the last days: the saved definition against
the draft, through the flag engine, with what these people did."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from hedgerow.errors import Invalid
from hedgerow.events.query.executor import DEFAULT_LIMITS, QueryExecutor
from hedgerow.flags.evaluation.comparison import (
    ComparisonCounts,
    FlagComparison,
    FlagVersionDefinitions,
)
from hedgerow.flags.evaluation.draft import Draft, DraftEvaluation, DraftFields
from hedgerow.flags.evaluation.flag_values import GROUP_COLUMN, list_group_indexes
from hedgerow.flags.evaluation.snapshot import FlagSnapshot
from hedgerow.flags.model import Bucketing, Flag
from hedgerow.hogql.builders import constant
from hedgerow.hogql.templates import build_select
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project, ProjectId

MAX_DAYS = 365
MAX_PEOPLE = 200_000
MAX_RESULT_BYTES = 128 << 20
# Any text makes the query wait until persons are replicated.
_NEEDS_PERSONS = ("person_id",)

# The latest event of a person tells the distinct id and the groups that it is evaluated with. The
# order by a hash makes the people that are chosen a random sample, always the same.
_PEOPLE_SQL = """
SELECT toString(person_id) AS person, argMax(distinct_id, tuple(timestamp, uuid)) {groups},
    countIf(event = {{metric}})
FROM events
WHERE timestamp >= {{start}}
GROUP BY person_id
HAVING {{is_evaluated_only}} = 0
    OR countIf(event = '$feature_flag_called' AND properties.$feature_flag = {{flag}}) > 0
ORDER BY cityHash64(person), person
LIMIT {{limit}}
"""
_COUNT_SQL = """
SELECT count() FROM (
    SELECT person_id FROM events WHERE timestamp >= {start} GROUP BY person_id
    HAVING {is_evaluated_only} = 0
        OR countIf(event = '$feature_flag_called' AND properties.$feature_flag = {flag}) > 0
)
"""


class Population(StrEnum):
    """Whom to evaluate: people with any event, or those for whom an SDK has evaluated the flag."""

    SEEN = "seen"
    EVALUATED = "evaluated"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfQuestion:
    """`segment` is a person property to count by, `metric` the name of an event; "" for none."""

    days: int = 7
    population: Population = Population.SEEN
    segment: str = ""
    metric: str = ""
    max_people: int = MAX_PEOPLE


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfResult:
    """Of `total` people, `counts.evaluated` were evaluated."""

    question: WhatIfQuestion
    since: datetime
    total: int
    counts: ComparisonCounts

    @property
    def stopped_by(self) -> str | None:
        if self.counts.is_out_of_time:
            return "time_limit"
        return "row_limit" if self.counts.evaluated < self.total else None


class FlagVersionComparer(Protocol):
    """Evaluates two versions of a flag, in processes that can be killed. Raises Invalid if that
    takes too long."""

    async def compare_people(
        self, project_id: ProjectId, comparison: FlagComparison, people: Sequence[Sequence[Any]]
    ) -> ComparisonCounts:
        """Compare for people of events. A row has the person, the distinct id, the groups and the
        number of metric events."""
        ...

    async def compare_persons(
        self, project_id: ProjectId, comparison: FlagComparison
    ) -> ComparisonCounts:
        """Compare for all stored persons, each with its first distinct id and without groups."""
        ...


class WhatIf:
    def __init__(
        self, drafts: DraftEvaluation, executor: QueryExecutor, comparer: FlagVersionComparer
    ) -> None:
        self._drafts = drafts
        self._executor = executor
        self._comparer = comparer

    async def ask(
        self,
        project: Project,
        draft: DraftFields,
        question: WhatIfQuestion,
        actor: Actor,
        now: datetime,
    ) -> WhatIfResult:
        """Evaluate the saved flag and the draft for the people of the last days."""
        built = await self._drafts.build(project, draft, actor, now)
        comparison = build_comparison(built, now, segment=question.segment)
        since = now - timedelta(days=question.days)
        people, total = await self._list_people(project, built.flag, comparison, question, now)
        counts = await self._comparer.compare_people(project.id, comparison, people)
        return WhatIfResult(question=question, since=since, total=total, counts=counts)

    async def _list_people(
        self,
        project: Project,
        flag: Flag,
        comparison: FlagComparison,
        question: WhatIfQuestion,
        now: datetime,
    ) -> tuple[Sequence[Sequence[Any]], int]:
        parts = {
            "start": constant(now - timedelta(days=question.days)),
            "is_evaluated_only": constant(int(question.population is Population.EVALUATED)),
            "flag": constant(flag.key),
        }
        columns = "".join(
            f", argMax(ifNull({GROUP_COLUMN}{index}, ''), tuple(timestamp, uuid))"
            for index in comparison.group_indexes
        )
        text = _PEOPLE_SQL.format(groups=columns)
        own = {"metric": constant(question.metric), "limit": constant(question.max_people + 1)}
        context = await self._executor.build_context(project, now, _NEEDS_PERSONS)
        limits = replace(DEFAULT_LIMITS, max_bytes=MAX_RESULT_BYTES)
        listed = await self._executor.execute(
            context, lambda: build_select(text, **parts, **own), limits
        )
        if len(listed.rows) <= question.max_people:
            return listed.rows, len(listed.rows)
        counted = await self._executor.execute(context, lambda: build_select(_COUNT_SQL, **parts))
        return listed.rows[: question.max_people], counted.rows[0][0]


def build_comparison(draft: Draft, now: datetime, *, segment: str = "") -> FlagComparison:
    """Raises Invalid for a flag whose value depends on what events do not tell."""
    snapshots = [each for each in (draft.saved, draft.snapshot) if each is not None]
    _check_no_device(snapshots)
    indexes = {index for each in snapshots for index in list_group_indexes(each.all_flags)}
    return FlagComparison(
        before=None if draft.saved is None else _select_version(draft.saved, draft.flag),
        after=None if draft.flag.deleted else _select_version(draft.snapshot, draft.flag),
        now=now,
        group_indexes=sorted(indexes),
        segment=segment,
    )


def _select_version(snapshot: FlagSnapshot, flag: Flag) -> FlagVersionDefinitions:
    return FlagVersionDefinitions(
        flag_key=snapshot.compiled[flag.id].flag.key, definitions=snapshot.definitions
    )


def _check_no_device(snapshots: Sequence[FlagSnapshot]) -> None:
    for snapshot in snapshots:
        for each in snapshot.all_flags:
            if each.flag.bucketing_identifier is Bucketing.DEVICE_ID:
                raise Invalid(
                    f"Flag '{each.flag.key}' depends on the device, which events do not tell.",
                    attr="bucketing_identifier",
                    code="not_supported",
                )
