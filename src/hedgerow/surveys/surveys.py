"""Operations on surveys: create, change, end, delete."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.flags import describe_actor
from hedgerow.flags.model import Flag, FlagId
from hedgerow.flags.validate import variant_keys
from hedgerow.lib.text import truncate
from hedgerow.projects.activity import ActivityEntry, Actor, diff_fields
from hedgerow.projects.model import Project
from hedgerow.surveys.cache import SurveyCache
from hedgerow.surveys.model import MAX_SURVEYS, Survey, SurveySchedule, SurveyType, SurveyWithFlags
from hedgerow.surveys.payload import format_date
from hedgerow.surveys.store import SurveyStore, SurveyWrite, SurveyWriteContext
from hedgerow.surveys.targeting import TargetingFlags

SCOPE = "Survey"
ANY_VARIANT = "any"
EXTERNAL_FORBIDDEN_CONDITIONS = (
    *("url", "urlMatchType", "selector", "seenSurveyWaitPeriodInDays", "linkedFlagVariant"),
    *("deviceTypes", "deviceTypesMatchType"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyEdit:
    """A change of a survey. `fields` are validated fields of Survey. `targeting_filters` are the
    filters of its targeting flag, which `removes_targeting` deletes."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    targeting_filters: Mapping[str, Any] | None = None
    removes_targeting: bool = False


class Surveys:
    def __init__(self, store: SurveyStore, cache: SurveyCache, flags: FlagCache) -> None:
        self._store = store
        self._cache = cache
        self._flags = flags

    async def list_surveys(self, project: Project) -> Sequence[SurveyWithFlags]:
        """Return all surveys, newest first."""
        return (await self._cache.refresh(project.id)).surveys

    async def find(self, project: Project, id: str) -> SurveyWithFlags:
        found = (await self._cache.refresh(project.id)).find(id)
        if found is None:
            raise NotFound
        return found

    async def owned_flags(self, project: Project) -> frozenset[FlagId]:
        """Return the ids of the flags that belong to surveys."""
        return (await self._cache.refresh(project.id)).owned_flags

    async def create(
        self, project: Project, edit: SurveyEdit, actor: Actor, now: datetime
    ) -> SurveyWithFlags:

        def decide(context: SurveyWriteContext) -> SurveyWrite:
            return build_new_survey(project, context, edit, actor, now)

        return await self._store_change(project, decide, now)

    async def change(
        self, project: Project, id: str, edit: SurveyEdit, actor: Actor, now: datetime
    ) -> SurveyWithFlags:
        """Apply an edit, and advance the survey to its current iteration."""

        def decide(context: SurveyWriteContext) -> SurveyWrite:
            return _build_change(project, context, _get_survey(context, id), edit, actor, now)

        return await self._store_change(project, decide, now)

    async def end(self, project: Project, id: str, actor: Actor, now: datetime) -> SurveyWithFlags:
        """End the survey, unless it has ended."""

        def decide(context: SurveyWriteContext) -> SurveyWrite:
            before = _get_survey(context, id)
            edit = SurveyEdit() if before.end_date else SurveyEdit(fields={"end_date": now})
            return _build_change(project, context, before, edit, actor, now)

        return await self._store_change(project, decide, now)

    async def delete(self, project: Project, id: str, actor: Actor, now: datetime) -> None:
        """Delete the survey and its own flags. The linked flag stays."""

        def decide(context: SurveyWriteContext) -> SurveyWrite:
            before = _get_survey(context, id)
            flags = TargetingFlags(project, context.definitions, actor, now)
            internal_flag = context.flag(before.internal_targeting_flag_id)
            targeting_flag = context.flag(before.targeting_flag_id)
            audited_before = _audit_fields(
                before, targeting_flag.filters if targeting_flag else None
            )
            return SurveyWrite(
                survey=before,
                internal=None,
                targeting=None,
                deleted_flags=[
                    flags.delete(flag)
                    for flag in (internal_flag, targeting_flag)
                    if flag is not None
                ],
                entry=_entry("deleted", audited_before, {}, before, actor),
                is_deleted=True,
            )

        await self._store_change(project, decide, now)

    async def _store_change(
        self, project: Project, decide: Callable[[SurveyWriteContext], SurveyWrite], now: datetime
    ) -> SurveyWithFlags:
        found = await self._store.write_survey(project.id, decide, now)
        await self._flags.refresh(project)
        await self._cache.refresh(project.id)
        return found


def build_new_survey(
    project: Project, context: SurveyWriteContext, edit: SurveyEdit, actor: Actor, now: datetime
) -> SurveyWrite:
    """Return the survey with its flags. Raises Invalid."""
    if len(context.surveys) >= MAX_SURVEYS:
        raise Invalid(f"A project can have at most {MAX_SURVEYS} surveys.")
    filters = edit.targeting_filters
    survey = _apply_edit(new_survey(project, actor, now), edit, now)
    _check(survey, edit, context)
    flags = TargetingFlags(project, context.definitions, actor, now)
    return SurveyWrite(
        survey=survey,
        internal=flags.create_internal(survey),
        targeting=flags.create_targeting(survey, filters) if filters else None,
        entry=_entry("created", {}, _audit_fields(survey, filters or None), survey, actor),
    )


def new_survey(project: Project, actor: Actor, now: datetime) -> Survey:
    return Survey(
        id=str(uuid4()),
        project_id=project.id,
        name="",
        description="",
        type=SurveyType.POPOVER,
        schedule=SurveySchedule.ONCE,
        linked_flag_id=None,
        targeting_flag_id=None,
        internal_targeting_flag_id=FlagId(0),
        questions=[],
        conditions=None,
        appearance=None,
        translations=None,
        start_date=None,
        end_date=None,
        archived=False,
        responses_limit=None,
        iteration_count=None,
        iteration_frequency_days=None,
        current_iteration=None,
        enable_partial_responses=False,
        created_by=describe_actor(actor),
        created_at=now,
        updated_at=now,
    )


def _build_change(
    project: Project,
    context: SurveyWriteContext,
    before: Survey,
    edit: SurveyEdit,
    actor: Actor,
    now: datetime,
) -> SurveyWrite:
    after = _apply_edit(before, edit, now)
    _check(after, edit, context)
    _check_iterations(before, after)
    flags = TargetingFlags(project, context.definitions, actor, now)
    internal_flag = context.flag(before.internal_targeting_flag_id)
    targeting_flag = context.flag(before.targeting_flag_id)
    audited_before = _audit_fields(before, targeting_flag.filters if targeting_flag else None)
    gone = []
    if edit.removes_targeting and targeting_flag is not None:
        gone.append(flags.delete(targeting_flag))
        targeting_flag = None
    targeting = None
    if targeting_flag is not None:
        targeting = flags.update_targeting(targeting_flag, after, edit.targeting_filters)
    elif edit.targeting_filters:
        targeting = flags.create_targeting(after, edit.targeting_filters)
    targeting_flag = targeting.flag if targeting else targeting_flag
    entry = _entry(
        "updated",
        audited_before,
        _audit_fields(after, targeting_flag.filters if targeting_flag else None),
        after,
        actor,
    )
    return SurveyWrite(
        survey=replace(after, updated_at=now) if entry.changes else before,
        internal=flags.update_internal(internal_flag, before, after) if internal_flag else None,
        targeting=targeting,
        deleted_flags=gone,
        entry=entry if entry.changes else None,
    )


def _get_survey(context: SurveyWriteContext, id: str) -> Survey:
    found = context.surveys.get(id)
    if found is None:
        raise NotFound
    return found


def _apply_edit(before: Survey, edit: SurveyEdit, now: datetime) -> Survey:
    after = replace(before, **edit.fields)
    if edit.removes_targeting:
        after = replace(after, targeting_flag_id=None)
    return replace(after, current_iteration=after.due_iteration(now))


def _check(survey: Survey, edit: SurveyEdit, context: SurveyWriteContext) -> None:
    """Check fields against each other, other surveys and flags."""
    if any(
        other.name == survey.name for other in context.surveys.values() if other.id != survey.id
    ):
        another = "another" if survey.id in context.surveys else "a"
        detail = f"There is already {another} survey with this name."
        raise Invalid(detail, attr="name", code="unique")
    linked = context.flag(survey.linked_flag_id)
    if edit.fields.get("linked_flag_id") is not None and linked is None:
        raise Invalid("Feature Flag with this ID does not exist", attr="linked_flag_id")
    if edit.fields.keys() & {"linked_flag_id", "conditions"}:
        _check_variant(survey, linked)
    if survey.is_running and survey.type.is_shown_by_sdk and not survey.questions:
        raise Invalid("A survey requires a question before it starts.", attr="questions")
    if survey.type is SurveyType.EXTERNAL:
        targets = survey.targeting_flag_id is not None or bool(edit.targeting_filters)
        _check_external(survey, targets=targets)


def _check_variant(survey: Survey, linked: Flag | None) -> None:
    variant = (survey.conditions or {}).get("linkedFlagVariant")
    if not variant:
        return
    place = "conditions.linkedFlagVariant"
    if survey.linked_flag_id is None:
        detail = "linkedFlagVariant can only be used when a linked_flag_id is specified"
        raise Invalid(detail, attr=place)
    if linked is None or variant == ANY_VARIANT or variant in variant_keys(linked.filters):
        return
    known = ", ".join(variant_keys(linked.filters))
    subject = f"Feature flag variant '{truncate(variant)}'"
    raise Invalid(
        f"{subject} does not exist. Available variants: {known}"
        if known
        else f"{subject} specified but the linked feature flag has no variants",
        attr=place,
    )


def _check_external(survey: Survey, *, targets: bool) -> None:
    """Check a survey that people open by a link: it has no page for conditions."""
    for name, is_set in (
        ("linked_flag_id", survey.linked_flag_id is not None),
        ("targeting_flag_filters", targets),
    ):
        if is_set:
            raise Invalid(f"{name} is not allowed for external surveys", attr=name)
    conditions = survey.conditions or {}
    wrong = [name for name in EXTERNAL_FORBIDDEN_CONDITIONS if conditions.get(name) is not None]
    wrong += [name for name in ("actions", "events") if (conditions.get(name) or {}).get("values")]
    if wrong:
        names = ", ".join(wrong)
        raise Invalid(
            f"The following condition fields are not allowed for external surveys: {names}",
            attr="conditions",
        )
    if (survey.appearance or {}).get("surveyPopupDelaySeconds") is not None:
        raise Invalid(
            "surveyPopupDelaySeconds is not allowed for external surveys", attr="appearance"
        )


def _check_iterations(before: Survey, after: Survey) -> None:
    if before.current_iteration and 0 < (after.iteration_count or 0) < before.current_iteration:
        raise Invalid(
            f"Cannot change survey recurrence to {after.iteration_count}, should be at least "
            f"{before.current_iteration}",
            attr="iteration_count",
        )


def _entry(
    activity: str, before: Mapping[str, Any], after: Mapping[str, Any], survey: Survey, actor: Actor
) -> ActivityEntry:
    return ActivityEntry(
        scope=SCOPE,
        item_id=survey.id,
        item_name=survey.name,
        activity=activity,
        actor=actor,
        project_id=survey.project_id,
        changes=diff_fields(SCOPE, before, after),
    )


def _audit_fields(survey: Survey, targeting_filters: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {
        "name": survey.name,
        "description": survey.description,
        "type": survey.type.value,
        "schedule": survey.schedule.value if survey.schedule else None,
        "linked_flag_id": survey.linked_flag_id,
        "targeting_flag_filters": targeting_filters,
        "questions": survey.questions,
        "conditions": survey.conditions,
        "appearance": survey.appearance,
        "translations": survey.translations,
        "start_date": format_date(survey.start_date),
        "end_date": format_date(survey.end_date),
        "archived": survey.archived,
        "responses_limit": survey.responses_limit,
        "iteration_count": survey.iteration_count,
        "iteration_frequency_days": survey.iteration_frequency_days,
        "current_iteration": survey.current_iteration,
        "enable_partial_responses": survey.enable_partial_responses,
    }
