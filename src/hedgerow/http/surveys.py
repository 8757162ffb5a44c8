"""Surveys: their management, and `GET /api/surveys/` for pages and apps."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, LiteralString

import msgspec
from fastapi import APIRouter
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from starlette.responses import Response
from starlette.types import Receive, Scope

from hedgerow.errors import MethodNotAllowed
from hedgerow.events.dates import kept_moment
from hedgerow.http.access import ProjectCall, in_project
from hedgerow.http.activity import PAGE, ActivityPage, activity_page
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.fields import INT64_MAX, LEFT_OUT, Between, Boolean, Fields, Text
from hedgerow.http.flags import person
from hedgerow.http.owned_flag import OwnedFlag, owned_flag
from hedgerow.http.paging import WINDOW, Page, page
from hedgerow.http.project_key import asked_by_page, project_of_page
from hedgerow.http.reply import JSON_TYPE, JsonResponse, Reply, no_content, reply
from hedgerow.http.trace import Trace
from hedgerow.lib.clock import iso
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.projects.directory import Directory
from hedgerow.projects.store import ActivityQuery
from hedgerow.surveys.board import SurveyBoard
from hedgerow.surveys.model import (
    MAX_FREQUENCY_DAYS,
    MAX_ITERATIONS,
    Flagged,
    Schedule,
    SurveyType,
)
from hedgerow.surveys.rules import (
    checked_appearance,
    checked_conditions,
    checked_questions,
    checked_translations,
)
from hedgerow.surveys.surveys import SCOPE, Wish
from hedgerow.surveys.told import moment

router = APIRouter(tags=["Surveys"])

BASES = tuple(f"/api/{root}/{{project_id}}/surveys/" for root in ("projects", "environments"))
NAME_MAX = 400
TEXT_MAX = 10_000
RESERVED = ("activity", "responses_count", "stats")
SEARCH = (Parameter("search", "Only those with this text in their name or description."),)

READ = in_project("survey:read")
WRITE = in_project("survey:write")


def _read_moment(value: Any) -> datetime:
    try:
        return kept_moment(value)
    except ValueError:
        raise PydanticCustomError(
            "date", "A date such as 2026-01-31T12:00:00Z is required.", {"code": "invalid_date"}
        ) from None


Date = Annotated[datetime, BeforeValidator(_read_moment)]


def _only_null(detail: LiteralString) -> BeforeValidator:
    """For a field that PostHog has and we have nothing for."""

    def check(value: Any) -> None:
        if value is not None:
            raise PydanticCustomError("unsupported", detail, {"code": "not_supported"})

    return BeforeValidator(check)


Sampling = Annotated[
    None,
    _only_null(
        "Responses cannot be sampled here: leave it out, and limit them with responses_limit."
    ),
]
OtherFlag = Annotated[
    None,
    _only_null(
        "A survey makes the flag for chosen people itself: send targeting_flag_filters, or a "
        "linked_flag_id for who has a flag that is there."
    ),
]


class SurveyItem(msgspec.Struct, kw_only=True):
    """A survey in PostHog's words. Its own flag is on for who neither answered nor dismissed it
    while it runs; `targeting_flag` is the one for chosen people."""

    id: str
    name: str
    description: str
    type: str
    schedule: str | None
    linked_flag: OwnedFlag | None
    linked_flag_id: int | None
    targeting_flag: OwnedFlag | None
    internal_targeting_flag: OwnedFlag
    questions: Sequence[Mapping[str, Any]]
    conditions: Mapping[str, Any] | None
    appearance: Mapping[str, Any] | None
    translations: Mapping[str, Any] | None
    created_at: str
    created_by: Mapping[str, Any] | None
    updated_at: str
    start_date: str | None
    end_date: str | None
    archived: bool
    responses_limit: int | None
    feature_flag_keys: Sequence[Mapping[str, str | None]]
    iteration_count: int | None
    iteration_frequency_days: int | None
    iteration_start_dates: Sequence[str] | None
    current_iteration: int | None
    current_iteration_start_date: str | None
    response_sampling_start_date: None = None
    response_sampling_interval_type: None = None
    response_sampling_interval: None = None
    response_sampling_limit: None = None
    response_sampling_daily_limits: None = None
    enable_partial_responses: bool
    user_access_level: str


class SurveyBody(Fields):
    """With `start_date` it runs, with `end_date` it has ended, and null takes either back.
    `targeting_flag_filters` are the conditions of a flag for chosen people, and
    `remove_targeting_flag` takes that flag away."""

    name: Annotated[str, Text(NAME_MAX)] = LEFT_OUT
    description: Annotated[str, Text(TEXT_MAX, blank=True)] | None = None
    type: SurveyType = LEFT_OUT
    schedule: Schedule | None = None
    linked_flag_id: Annotated[int, Between(1, INT64_MAX)] | None = None
    targeting_flag_filters: dict[str, Any] | None = None
    remove_targeting_flag: Boolean | None = None
    questions: list[dict[str, Any]] | None = None
    conditions: dict[str, Any] | None = None
    appearance: dict[str, Any] | None = None
    translations: dict[str, Any] | None = None
    start_date: Date | None = None
    end_date: Date | None = None
    archived: Boolean = LEFT_OUT
    responses_limit: Annotated[int, Between(0)] | None = None
    iteration_count: Annotated[int, Between(0, MAX_ITERATIONS)] | None = None
    iteration_frequency_days: Annotated[int, Between(0, MAX_FREQUENCY_DAYS)] | None = None
    enable_partial_responses: Boolean | None = None
    targeting_flag_id: OtherFlag = None
    response_sampling_start_date: Sampling = None
    response_sampling_interval_type: Sampling = None
    response_sampling_interval: Sampling = None
    response_sampling_limit: Sampling = None
    response_sampling_daily_limits: Sampling = None

    def wish(self) -> Wish:
        """What was sent, checked and as it is stored."""
        sent = {name: getattr(self, name) for name in self.model_fields_set - _NO_FIELDS}
        for name, checked in _DOCUMENTS.items():
            if name in sent:
                sent[name] = checked(sent[name])
        for name, nothing in (("description", ""), ("enable_partial_responses", False)):
            if name in sent and sent[name] is None:
                sent[name] = nothing
        return Wish(
            fields=sent,
            targeting_filters=self.targeting_flag_filters,
            removes_targeting=bool(self.remove_targeting_flag),
        )


# What is sent beside the fields of a survey.
_NO_FIELDS = {
    *("targeting_flag_filters", "remove_targeting_flag", "targeting_flag_id"),
    *(name for name in SurveyBody.model_fields if name.startswith("response_sampling_")),
}
_DOCUMENTS = {
    "questions": checked_questions,
    "conditions": checked_conditions,
    "appearance": checked_appearance,
    "translations": checked_translations,
}


class NewSurvey(SurveyBody):
    name: Annotated[str, Text(NAME_MAX)]
    type: SurveyType


def item(call: ProjectCall, found: Flagged) -> SurveyItem:
    survey = found.survey
    starts = survey.iteration_start_dates
    return SurveyItem(
        id=survey.id,
        name=survey.name,
        description=survey.description,
        type=survey.type.value,
        schedule=survey.schedule.value if survey.schedule else None,
        linked_flag=owned_flag(found.linked) if found.linked else None,
        linked_flag_id=survey.linked_flag_id,
        targeting_flag=owned_flag(found.targeting) if found.targeting else None,
        internal_targeting_flag=owned_flag(found.internal),
        questions=survey.questions,
        conditions=survey.conditions,
        appearance=survey.appearance,
        translations=survey.translations,
        created_at=iso(survey.created_at),
        created_by=person(call, survey.created_by),
        updated_at=iso(survey.updated_at),
        start_date=moment(survey.start_date),
        end_date=moment(survey.end_date),
        archived=survey.archived,
        responses_limit=survey.responses_limit,
        feature_flag_keys=[
            {"key": f"{name}_key", "value": flag.key if flag else None}
            for name, flag in (
                ("linked_flag", found.linked),
                ("targeting_flag", found.targeting),
                ("internal_targeting_flag", found.internal),
                ("internal_response_sampling_flag", None),
            )
        ],
        iteration_count=survey.iteration_count,
        iteration_frequency_days=survey.iteration_frequency_days,
        iteration_start_dates=None if starts is None else [iso(each) for each in starts],
        current_iteration=survey.current_iteration,
        current_iteration_start_date=moment(survey.current_iteration_start_date),
        enable_partial_responses=survey.enable_partial_responses,
        user_access_level="manager",
    )


def _id(call: ProjectCall, survey_id: str) -> str:
    if survey_id in RESERVED:  # a path of its own, which does not take this method
        raise MethodNotAllowed(call.request.method, ["GET, HEAD", "OPTIONS"])
    return survey_id


@describes(answer=Page[SurveyItem], query=WINDOW + SEARCH)
async def list_surveys(call: Annotated[ProjectCall, READ]) -> Response:
    """The project's surveys, newest first."""
    asked = call.window
    needle = (call.asked("search") or "").strip().lower()
    found = [
        each
        for each in await call.rooms.surveys.listing(call.project)
        if needle in f"{each.survey.name}\n{each.survey.description}".lower()
    ]
    listed = [item(call, each) for each in asked.of(found)]
    return JsonResponse(page(call.request, call.rooms.origins, asked, len(found), listed))


@describes(answer=SurveyItem, status=201, body=NewSurvey)
async def create_survey(call: Annotated[ProjectCall, WRITE]) -> Response:
    """Make a survey, and the flags that say who sees it."""
    body = await call.body(NewSurvey)
    wish = await in_daemon_thread(body.wish)
    made = await call.rooms.surveys.create(call.project, wish, call.actor, call.now)
    return JsonResponse(item(call, made), status_code=201)


@describes(answer=SurveyItem)
async def retrieve_survey(survey_id: str, call: Annotated[ProjectCall, READ]) -> Response:
    """One survey."""
    return JsonResponse(item(call, await call.rooms.surveys.find(call.project, survey_id)))


@describes(answer=SurveyItem, body=SurveyBody)
async def change_survey(survey_id: str, call: Annotated[ProjectCall, WRITE]) -> Response:
    """Change some fields, start it, end it, archive it. Its flags are on while it runs."""
    id = _id(call, survey_id)
    await call.rooms.surveys.find(call.project, id)
    body = await call.body(SurveyBody)
    wish = await in_daemon_thread(body.wish)
    changed = await call.rooms.surveys.change(call.project, id, wish, call.actor, call.now)
    return JsonResponse(item(call, changed))


@describes(status=204)
async def delete_survey(survey_id: str, call: Annotated[ProjectCall, WRITE]) -> Response:
    """Delete a survey, and the flags that it made. Answers stay among the events."""
    id = _id(call, survey_id)
    await call.rooms.surveys.delete(call.project, id, call.actor, call.now)
    return no_content()


@describes(answer=ActivityPage, query=PAGE)
async def survey_activity(survey_id: str, call: Annotated[ProjectCall, READ]) -> Response:
    """Who changed what in this survey, newest first. Also for one that was deleted."""
    query = ActivityQuery(project_id=call.project.id, scope=SCOPE, item_id=survey_id)
    return await activity_page(call, query)


@describes(answer=ActivityPage, query=PAGE)
async def surveys_activity(call: Annotated[ProjectCall, READ]) -> Response:
    """Who changed what in any survey, newest first."""
    return await activity_page(call, ActivityQuery(project_id=call.project.id, scope=SCOPE))


for base in BASES:
    router.get(base)(list_surveys)
    router.post(base)(create_survey)
    router.get(base + "activity/")(surveys_activity)
    router.get(base + "{survey_id}/")(retrieve_survey)
    router.patch(base + "{survey_id}/")(change_survey)
    router.delete(base + "{survey_id}/")(delete_survey)
    router.get(base + "{survey_id}/activity/")(survey_activity)


class SurveysDoor:
    """What pages show, and to whom. Nothing is read or written for who asks."""

    def __init__(self, directory: Directory, board: SurveyBoard) -> None:
        self._directory = directory
        self._board = board

    async def public(self, scope: Scope, receive: Receive, trace: Trace) -> Reply:
        project = await project_of_page(self._directory, asked_by_page(scope))
        trace.project_id = project.id
        trace.mark("access")
        return reply(200, self._board.of(project.id).body, JSON_TYPE)
