"""Copy one flag to other projects, as PostHog does: with the cohorts that they lack, and with its
scheduled changes if wanted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hedgerow.errors import AppError
from hedgerow.flags.as_code.references import ReferenceNames, rewrite_references
from hedgerow.flags.environments.matrix import EnvironmentProject
from hedgerow.flags.environments.promotion_plan import PromotionRequest
from hedgerow.flags.environments.promotions import Promotions
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.model import Flag
from hedgerow.flags.schedules.model import MAX_PENDING_CHANGES, ScheduledChange
from hedgerow.flags.schedules.scheduled_changes import Plan, ScheduleAuthor, ScheduledChanges
from hedgerow.flags.schedules.store import ScheduledChangeFilter
from hedgerow.projects.model import Project
from hedgerow.projects.products import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagCopy:
    """The flag in the target, the changes that were scheduled for it, and why its schedule could
    not be copied, "" if it could."""

    flag: Flag
    scheduled: Sequence[ScheduledChange]
    schedule_problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPromotion:
    """A copy as a promotion from one project to another."""

    source: EnvironmentProject
    target: EnvironmentProject
    request: PromotionRequest


def describe_copy(flag: Flag, projects: tuple[Project, Project]) -> CopyPromotion:
    """Return the copy of a flag of the first project to the second."""
    source, target = map(_describe, projects)
    request = PromotionRequest(keys=[flag.key], with_cohorts=True)
    return CopyPromotion(source=source, target=target, request=request)


class FlagCopies:
    def __init__(
        self, promotions: Promotions, schedules: ScheduledChanges, flag_cache: FlagCache
    ) -> None:
        self._promotions = promotions
        self._schedules = schedules
        self._flag_cache = flag_cache

    async def find(self, project: Project, key: str) -> Flag | None:
        compiled = (await self._flag_cache.refresh(project)).get(key)
        return None if compiled is None else compiled.flag

    async def copy(
        self,
        flag: Flag,
        projects: tuple[Project, Project],
        author: ScheduleAuthor,
        now: datetime,
        *,
        with_schedule: bool,
    ) -> FlagCopy:
        """Copy a flag of the first project to the second. Raises Invalid if that is not possible,
        PromotionRefused if approvals are missing; then nothing is changed."""
        copy = describe_copy(flag, projects)
        await self._promotions.promote(
            copy.source, copy.target, copy.request, (author.actor, now), is_rehearsal=False
        )
        copied = await self.find(projects[1], flag.key)
        assert copied is not None
        scheduled: Sequence[ScheduledChange] = ()
        problem = ""
        if with_schedule:
            try:
                scheduled = await self._copy_schedule(flag, copied, projects, author, now)
            except AppError as error:
                problem = error.detail
        return FlagCopy(flag=copied, scheduled=scheduled, schedule_problem=problem)

    async def _copy_schedule(
        self,
        flag: Flag,
        copied: Flag,
        projects: tuple[Project, Project],
        author: ScheduleAuthor,
        now: datetime,
    ) -> Sequence[ScheduledChange]:
        source, target = projects
        names = await self._name_references(source), await self._name_references(target)
        pending = await self._list_pending(source, flag)
        plans = [_build_plan(each, *names) for each in pending]
        present = [_get_plan(each) for each in await self._list_pending(target, copied)]
        new = [plan for plan in plans if plan not in present]
        if not new:
            return ()
        return await self._schedules.create(target, copied.id, new, author, now)

    async def _list_pending(self, project: Project, flag: Flag) -> list[ScheduledChange]:
        wanted = ScheduledChangeFilter(flag_id=flag.id, is_pending=True, limit=MAX_PENDING_CHANGES)
        found, _ = await self._schedules.list_changes(project, wanted)
        return list(found)

    async def _name_references(self, project: Project) -> ReferenceNames:
        definitions = (await self._flag_cache.refresh(project)).definitions
        return ReferenceNames(definitions, {flag.id: flag.key for flag in definitions.flags})


def _describe(project: Project) -> EnvironmentProject:
    environment = Environment(name=f"project {project.id}", project_id=project.id)
    return EnvironmentProject(environment=environment, project=project)


def _get_plan(change: ScheduledChange) -> Plan:
    return Plan(
        payload=change.payload,
        scheduled_at=change.scheduled_at,
        recurrence_interval=change.recurrence_interval,
        cron_expression=change.cron_expression,
        end_date=change.end_date,
    )


def _build_plan(change: ScheduledChange, source: ReferenceNames, target: ReferenceNames) -> Plan:
    value = change.payload["value"]

    def translate(kind: str, id: Any, place: str) -> Any:
        return target.to_id(kind, source.to_name(kind, id, place), place)

    if isinstance(value, Mapping) and "groups" in value:
        value = rewrite_references(value, translate)
    elif isinstance(value, Mapping) and "filters" in value:
        value = {**value, "filters": rewrite_references(value["filters"], translate)}
    return replace(_get_plan(change), payload={**change.payload, "value": value})
