"""What can be done with surveys: make, change, delete."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from hedgerow.errors import Invalid, NotFound
from hedgerow.flags.board import FlagCache
from hedgerow.flags.flags import person_of
from hedgerow.flags.model import Flag, FlagId
from hedgerow.flags.rules import variant_keys
from hedgerow.lib.text import cut_short
from hedgerow.projects.activity import Actor, Entry, differences
from hedgerow.projects.model import Project
from hedgerow.surveys.board import SurveyBoard
from hedgerow.surveys.model import MAX_SURVEYS, Flagged, Schedule, Survey, SurveyType
from hedgerow.surveys.store import Surroundings, SurveyStore, SurveyWrite
from hedgerow.surveys.targeting import Targeting
from hedgerow.surveys.told import moment

SCOPE = "Survey"
ANY_VARIANT = "any"
NOT_OF_EXTERNAL = (
    *("url", "urlMatchType", "selector", "seenSurveyWaitPeriodInDays", "linkedFlagVariant"),
    *("deviceTypes", "deviceTypesMatchType"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody wants of a survey. `fields` are those of Survey, already checked one by one;
    `targeting_filters` the conditions of its flag for chosen people, which `removes_targeting`
    takes away."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    targeting_filters: Mapping[str, Any] | None = None
    removes_targeting: bool = False


class Surveys:
    def __init__(self, store: SurveyStore, board: SurveyBoard, flags: FlagCache) -> None:
        self._store = store
        self._board = board
        self._flags = flags

    async def listing(self, project: Project) -> Sequence[Flagged]:
        """Newest first."""
        return (await self._board.refreshed(project.id)).surveys

    async def find(self, project: Project, id: str) -> Flagged:
        found = (await self._board.refreshed(project.id)).find(id)
        if found is None:
            raise NotFound
        return found

    async def owned_flags(self, project: Project) -> frozenset[FlagId]:
        """The flags that surveys keep for themselves."""
        return (await self._board.refreshed(project.id)).owned_flags

    async def create(self, project: Project, wish: Wish, actor: Actor, now: datetime) -> Flagged:
        filters = wish.targeting_filters

        def decide(around: Surroundings) -> SurveyWrite:
            if len(around.surveys) >= MAX_SURVEYS:
                raise Invalid(f"A project may have {MAX_SURVEYS} surveys at most.")
            survey = _laid_over(blank_survey(project, actor, now), wish, now)
            _check(survey, wish, around)
            flags = Targeting(project, around.definitions, actor, now)
            return SurveyWrite(
                survey=survey,
                internal=flags.new_internal(survey),
                targeting=flags.new_targeting(survey, filters) if filters else None,
                entry=_entry("created", {}, _audited(survey, filters or None), survey, actor),
            )

        return await self._stored(project, decide, now)

    async def change(
        self, project: Project, id: str, wish: Wish, actor: Actor, now: datetime
    ) -> Flagged:
        """Whatever the wish, it is brought up to its present iteration."""

        def decide(around: Surroundings) -> SurveyWrite:
            return _changed(project, around, _found(around, id), wish, actor, now)

        return await self._stored(project, decide, now)

    async def end(self, project: Project, id: str, actor: Actor, now: datetime) -> Flagged:
        """Unless somebody has."""

        def decide(around: Surroundings) -> SurveyWrite:
            before = _found(around, id)
            wish = Wish() if before.end_date else Wish(fields={"end_date": now})
            return _changed(project, around, before, wish, actor, now)

        return await self._stored(project, decide, now)

    async def delete(self, project: Project, id: str, actor: Actor, now: datetime) -> None:
        """Its flags go with it; the linked one is somebody else's."""

        def decide(around: Surroundings) -> SurveyWrite:
            before = _found(around, id)
            flags = Targeting(project, around.definitions, actor, now)
            own = around.flag(before.internal_targeting_flag_id)
            chosen = around.flag(before.targeting_flag_id)
            was = _audited(before, chosen.filters if chosen else None)
            return SurveyWrite(
                survey=before,
                internal=None,
                targeting=None,
                gone=[flags.gone(flag) for flag in (own, chosen) if flag is not None],
                entry=_entry("deleted", was, {}, before, actor),
                is_deleted=True,
            )

        await self._stored(project, decide, now)

    async def _stored(
        self, project: Project, decide: Callable[[Surroundings], SurveyWrite], now: datetime
    ) -> Flagged:
        found = await self._store.write_survey(project.id, decide, now)
        await self._flags.refreshed(project)
        await self._board.refreshed(project.id)
        return found


def blank_survey(project: Project, actor: Actor, now: datetime) -> Survey:
    return Survey(
        id=str(uuid4()),
        project_id=project.id,
        name="",
        description="",
        type=SurveyType.POPOVER,
        schedule=Schedule.ONCE,
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
        created_by=person_of(actor),
        created_at=now,
        updated_at=now,
    )


def _changed(
    project: Project,
    around: Surroundings,
    before: Survey,
    wish: Wish,
    actor: Actor,
    now: datetime,
) -> SurveyWrite:
    after = _laid_over(before, wish, now)
    _check(after, wish, around)
    _check_iterations(before, after)
    flags = Targeting(project, around.definitions, actor, now)
    own = around.flag(before.internal_targeting_flag_id)
    chosen = around.flag(before.targeting_flag_id)
    was = _audited(before, chosen.filters if chosen else None)
    gone = []
    if wish.removes_targeting and chosen is not None:
        gone.append(flags.gone(chosen))
        chosen = None
    targeting = None
    if chosen is not None:
        targeting = flags.targeting(chosen, after, wish.targeting_filters)
    elif wish.targeting_filters:
        targeting = flags.new_targeting(after, wish.targeting_filters)
    chosen = targeting.flag if targeting else chosen
    entry = _entry(
        "updated", was, _audited(after, chosen.filters if chosen else None), after, actor
    )
    return SurveyWrite(
        survey=replace(after, updated_at=now) if entry.changes else before,
        internal=flags.internal(own, before, after) if own else None,
        targeting=targeting,
        gone=gone,
        entry=entry if entry.changes else None,
    )


def _found(around: Surroundings, id: str) -> Survey:
    found = around.surveys.get(id)
    if found is None:
        raise NotFound
    return found


def _laid_over(before: Survey, wish: Wish, now: datetime) -> Survey:
    after = replace(before, **wish.fields)
    if wish.removes_targeting:
        after = replace(after, targeting_flag_id=None)
    return replace(after, current_iteration=after.due_iteration(now))


def _check(survey: Survey, wish: Wish, around: Surroundings) -> None:
    """What fields must be to each other, to other surveys and to flags."""
    if any(other.name == survey.name for other in around.surveys.values() if other.id != survey.id):
        another = "another" if survey.id in around.surveys else "a"
        detail = f"There is already {another} survey with this name."
        raise Invalid(detail, attr="name", code="unique")
    linked = around.flag(survey.linked_flag_id)
    if wish.fields.get("linked_flag_id") is not None and linked is None:
        raise Invalid("Feature Flag with this ID does not exist", attr="linked_flag_id")
    if wish.fields.keys() & {"linked_flag_id", "conditions"}:
        _check_variant(survey, linked)
    if survey.is_running and survey.type.is_shown_by_the_sdk and not survey.questions:
        raise Invalid("A survey needs a question before it starts.", attr="questions")
    if survey.type is SurveyType.EXTERNAL:
        targets = survey.targeting_flag_id is not None or bool(wish.targeting_filters)
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
    said = f"Feature flag variant '{cut_short(variant)}'"
    raise Invalid(
        f"{said} does not exist. Available variants: {known}"
        if known
        else f"{said} specified but the linked feature flag has no variants",
        attr=place,
    )


def _check_external(survey: Survey, *, targets: bool) -> None:
    """Somebody follows a link to it: there is no page for which conditions could hold."""
    for name, is_there in (
        ("linked_flag_id", survey.linked_flag_id is not None),
        ("targeting_flag_filters", targets),
    ):
        if is_there:
            raise Invalid(f"{name} is not allowed for external surveys", attr=name)
    conditions = survey.conditions or {}
    wrong = [name for name in NOT_OF_EXTERNAL if conditions.get(name) is not None]
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
    verb: str, before: Mapping[str, Any], after: Mapping[str, Any], survey: Survey, actor: Actor
) -> Entry:
    return Entry(
        scope=SCOPE,
        item_id=survey.id,
        item_name=survey.name,
        activity=verb,
        actor=actor,
        project_id=survey.project_id,
        changes=differences(SCOPE, before, after),
    )


def _audited(survey: Survey, targeting_filters: Mapping[str, Any] | None) -> Mapping[str, Any]:
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
        "start_date": moment(survey.start_date),
        "end_date": moment(survey.end_date),
        "archived": survey.archived,
        "responses_limit": survey.responses_limit,
        "iteration_count": survey.iteration_count,
        "iteration_frequency_days": survey.iteration_frequency_days,
        "current_iteration": survey.current_iteration,
        "enable_partial_responses": survey.enable_partial_responses,
    }
