"""Surveys and their response statistics."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.flags.validate import check_filter_fields
from hedgerow.http.api.activity import activity_endpoint, respond_with_activity
from hedgerow.http.api.flags.summary import FlagSummary, summarize_flag
from hedgerow.http.api.people.users import render_user
from hedgerow.http.auth.access import in_project
from hedgerow.http.call import ProjectCall
from hedgerow.http.endpoint import endpoint, project_paths
from hedgerow.http.paging import PAGE_PARAMETERS, Page
from hedgerow.http.parameters import Parameter
from hedgerow.http.payload.fields import (
    INT64_MAX,
    OMITTED,
    Between,
    Boolean,
    Date,
    Fields,
    Text,
    require_unset,
)
from hedgerow.http.server.response import JsonResponse, no_content
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.lib.dates import EARLIEST, LATEST
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.store import ActivityStore
from hedgerow.projects.validation import parse_date_parameter
from hedgerow.surveys.known_fields import POSTHOG_SURVEY_FIELDS
from hedgerow.surveys.model import (
    MAX_FREQUENCY_DAYS,
    MAX_ITERATIONS,
    SurveySchedule,
    SurveyType,
    SurveyWithFlags,
)
from hedgerow.surveys.payload import format_date
from hedgerow.surveys.responses import (
    DISMISSED,
    NO_STATS,
    SENT,
    SHOWN,
    SurveyOutcomes,
    SurveyResponses,
)
from hedgerow.surveys.rules import (
    validate_appearance,
    validate_conditions,
    validate_questions,
    validate_translations,
)
from hedgerow.surveys.surveys import SCOPE, SurveyEdit, Surveys

NAME_MAX = 400
TEXT_MAX = 10_000
RESERVED = dict.fromkeys(("activity", "responses_count", "stats"), "GET, HEAD")
LIST_PARAMETERS = (
    Parameter("search", "Only surveys whose name or description contains this text."),
)
READ = in_project("survey:read")
WRITE = in_project("survey:write")


UnsupportedSampling = Annotated[
    None,
    require_unset(
        "Response sampling is not supported. Leave this field out and use `responses_limit`."
    ),
]
UnsupportedFlag = Annotated[
    None,
    require_unset(
        "A survey creates its own targeting flag. Send `targeting_flag_filters`, or "
        "`linked_flag_id` to target the users of an existing flag."
    ),
]


class SurveyItem(msgspec.Struct, kw_only=True):
    """A survey. While it runs, `internal_targeting_flag` is on for users that neither answered nor
    dismissed it; `targeting_flag` holds the targeting conditions."""

    id: str
    name: str
    description: str
    type: str
    schedule: str | None
    linked_flag: FlagSummary | None
    linked_flag_id: int | None
    targeting_flag: FlagSummary | None
    internal_targeting_flag: FlagSummary
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
    """`start_date` starts the survey and `end_date` ends it; null reverts either.
    `targeting_flag_filters` are the conditions of the targeting flag, and
    `remove_targeting_flag` deletes that flag."""

    ignored_fields: ClassVar[frozenset[str] | None] = POSTHOG_SURVEY_FIELDS

    name: Annotated[str, Text(NAME_MAX)] = OMITTED
    description: Annotated[str, Text(TEXT_MAX, blank=True)] | None = None
    type: SurveyType = OMITTED
    schedule: SurveySchedule | None = None
    linked_flag_id: Annotated[int, Between(1, INT64_MAX)] | None = None
    targeting_flag_filters: dict[str, Any] | None = None
    remove_targeting_flag: Boolean | None = None
    questions: list[dict[str, Any]] | None = None
    conditions: dict[str, Any] | None = None
    appearance: dict[str, Any] | None = None
    translations: dict[str, Any] | None = None
    start_date: Date | None = None
    end_date: Date | None = None
    archived: Boolean = OMITTED
    responses_limit: Annotated[int, Between(0)] | None = None
    iteration_count: Annotated[int, Between(0, MAX_ITERATIONS)] | None = None
    iteration_frequency_days: Annotated[int, Between(0, MAX_FREQUENCY_DAYS)] | None = None
    enable_partial_responses: Boolean | None = None
    targeting_flag_id: UnsupportedFlag = None
    response_sampling_start_date: UnsupportedSampling = None
    response_sampling_interval_type: UnsupportedSampling = None
    response_sampling_interval: UnsupportedSampling = None
    response_sampling_limit: UnsupportedSampling = None
    response_sampling_daily_limits: UnsupportedSampling = None

    def to_edit(self, before: SurveyWithFlags | None = None) -> SurveyEdit:
        """Validate the fields present in the body and convert them to their stored form. A document
        that is as it was before is left out: it can be older than the checks."""
        sent = {name: getattr(self, name) for name in self.model_fields_set - _OTHER_BODY_FIELDS}
        for name, validate in _VALIDATORS.items():
            if name in sent:
                if before is not None and jsonio.is_equal(sent[name], getattr(before.survey, name)):
                    del sent[name]
                else:
                    sent[name] = validate(sent[name])
        targeting = before.targeting.filters if before and before.targeting else None
        if not jsonio.is_equal(self.targeting_flag_filters, targeting):
            check_filter_fields(self.targeting_flag_filters, "targeting_flag_filters")
        for name, empty in (("description", ""), ("enable_partial_responses", False)):
            if name in sent and sent[name] is None:
                sent[name] = empty
        return SurveyEdit(
            fields=sent,
            targeting_filters=self.targeting_flag_filters,
            removes_targeting=bool(self.remove_targeting_flag),
        )


# Body fields that are not fields of a survey.
_OTHER_BODY_FIELDS = {
    *("targeting_flag_filters", "remove_targeting_flag", "targeting_flag_id"),
    *(name for name in SurveyBody.model_fields if name.startswith("response_sampling_")),
}
_VALIDATORS = {
    "questions": validate_questions,
    "conditions": validate_conditions,
    "appearance": validate_appearance,
    "translations": validate_translations,
}


class NewSurvey(SurveyBody):
    name: Annotated[str, Text(NAME_MAX)]
    type: SurveyType


def _render_survey(call: ProjectCall, found: SurveyWithFlags) -> SurveyItem:
    survey = found.survey
    starts = survey.iteration_start_dates
    return SurveyItem(
        id=survey.id,
        name=survey.name,
        description=survey.description,
        type=survey.type.value,
        schedule=survey.schedule.value if survey.schedule else None,
        linked_flag=summarize_flag(found.linked) if found.linked else None,
        linked_flag_id=survey.linked_flag_id,
        targeting_flag=summarize_flag(found.targeting) if found.targeting else None,
        internal_targeting_flag=summarize_flag(found.internal),
        questions=survey.questions,
        conditions=survey.conditions,
        appearance=survey.appearance,
        translations=survey.translations,
        created_at=format_iso(survey.created_at),
        created_by=render_user(call, survey.created_by),
        updated_at=format_iso(survey.updated_at),
        start_date=format_date(survey.start_date),
        end_date=format_date(survey.end_date),
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
        iteration_start_dates=None if starts is None else [format_iso(each) for each in starts],
        current_iteration=survey.current_iteration,
        current_iteration_start_date=format_date(survey.current_iteration_start_date),
        enable_partial_responses=survey.enable_partial_responses,
        user_access_level="manager",
    )


STATS_PARAMETERS = (
    Parameter("date_from", "Only events from this time on, such as 2026-01-31T12:00:00Z or -7d."),
    Parameter("date_to", "Only events up to this time."),
)


class EventCounts(msgspec.Struct, kw_only=True):
    """`…_only_seen` counts views that were neither dismissed nor answered."""

    total_count: int
    total_count_only_seen: int
    unique_persons: int
    unique_persons_only_seen: int
    first_seen: str | None
    last_seen: str | None


class Rates(msgspec.Struct, kw_only=True):
    """Percentages of the views of a survey."""

    response_rate: float
    dismissal_rate: float
    unique_users_response_rate: float
    unique_users_dismissal_rate: float


class SurveysStats(msgspec.Struct, kw_only=True):
    """Counts by event: `survey shown`, `survey dismissed`, `survey sent`."""

    stats: Mapping[str, EventCounts]
    rates: Rates


class SurveyStats(SurveysStats, kw_only=True):
    survey_id: str
    start_date: str | None
    end_date: str | None


def _render_counts(stats: SurveyOutcomes) -> dict[str, EventCounts]:
    return {
        name: EventCounts(
            total_count=counts.total,
            total_count_only_seen=stats.only_shown if counts is stats.shown else 0,
            unique_persons=counts.people,
            unique_persons_only_seen=stats.people_only_shown if counts is stats.shown else 0,
            first_seen=format_date(counts.first),
            last_seen=format_date(counts.last),
        )
        for name, counts in (
            (SHOWN, stats.shown),
            (DISMISSED, stats.dismissed),
            (SENT, stats.sent),
        )
    }


def _render_rates(stats: SurveyOutcomes) -> Rates:
    shown = stats.shown
    return Rates(
        response_rate=_calculate_percent(stats.sent.total, shown.total),
        dismissal_rate=_calculate_percent(stats.dismissed.total, shown.total),
        unique_users_response_rate=_calculate_percent(stats.sent.people, shown.people),
        unique_users_dismissal_rate=_calculate_percent(stats.dismissed.people, shown.people),
    )


def _calculate_percent(part: int, whole: int) -> float:
    return round(part / whole * 100, 2) if whole else 0.0


class SurveyEndpoints:
    tag = "Surveys"

    def __init__(
        self, activity: ActivityStore, responses: SurveyResponses, surveys: Surveys
    ) -> None:
        self._activity = activity
        self._responses = responses
        self._surveys = surveys

    @endpoint(
        "GET",
        *project_paths("surveys/"),
        access=READ,
        response=Page[SurveyItem],
        query=PAGE_PARAMETERS + LIST_PARAMETERS,
    )
    async def list_surveys(self, call: ProjectCall) -> Response:
        """List the project's surveys, newest first."""
        window = call.window
        search = (call.query_param("search") or "").strip().lower()
        found = [
            each
            for each in await self._surveys.list_surveys(call.project)
            if search in f"{each.survey.name}\n{each.survey.description}".lower()
        ]
        listed = [_render_survey(call, each) for each in window.of(found)]
        return JsonResponse(call.page(len(found), listed))

    @endpoint(
        "POST",
        *project_paths("surveys/"),
        access=WRITE,
        response=SurveyItem,
        status=201,
        body=NewSurvey,
    )
    async def create_survey(self, call: ProjectCall) -> Response:
        """Create a survey and its targeting flags."""
        body = await call.body(NewSurvey)
        edit = await run_in_thread(body.to_edit)
        created = await self._surveys.create(call.project, edit, call.actor, call.now)
        return JsonResponse(_render_survey(call, created), status_code=201)

    @endpoint("GET", *project_paths("surveys/{survey_id}/"), access=READ, response=SurveyItem)
    async def retrieve_survey(self, call: ProjectCall) -> Response:
        """Retrieve a survey."""
        return JsonResponse(
            _render_survey(
                call, await self._surveys.find(call.project, call.path_param("survey_id"))
            )
        )

    @endpoint(
        "PATCH",
        *project_paths("surveys/{survey_id}/"),
        access=WRITE,
        response=SurveyItem,
        body=SurveyBody,
    )
    async def change_survey(self, call: ProjectCall) -> Response:
        """Update, start, end or archive a survey. Its flags are active while it runs."""
        return await self._change(call, SurveyBody)

    @endpoint(
        "PUT",
        *project_paths("surveys/{survey_id}/"),
        access=WRITE,
        response=SurveyItem,
        body=NewSurvey,
    )
    async def replace_survey(self, call: ProjectCall) -> Response:
        """Update a survey by all of its fields. One that the body leaves out stays as it is."""
        return await self._change(call, NewSurvey)

    async def _change(self, call: ProjectCall, model: type[SurveyBody]) -> Response:
        id = call.path_param("survey_id", RESERVED)
        found = await self._surveys.find(call.project, id)
        body = await call.body(model)
        edit = await run_in_thread(lambda: body.to_edit(found))
        changed = await self._surveys.change(call.project, id, edit, call.actor, call.now)
        return JsonResponse(_render_survey(call, changed))

    @endpoint("DELETE", *project_paths("surveys/{survey_id}/"), access=WRITE, status=204)
    async def delete_survey(self, call: ProjectCall) -> Response:
        """Delete a survey and the flags that it created. Its responses remain as events."""
        id = call.path_param("survey_id", RESERVED)
        await self._surveys.delete(call.project, id, call.actor, call.now)
        return no_content()

    @activity_endpoint("surveys/{survey_id}/activity/", READ)
    async def list_survey_activity(self, call: ProjectCall) -> Response:
        """List the changes made to a survey, newest first. Works for deleted surveys too."""
        return await respond_with_activity(
            call, self._activity, SCOPE, call.path_param("survey_id")
        )

    @activity_endpoint("surveys/activity/", READ)
    async def list_surveys_activity(self, call: ProjectCall) -> Response:
        """List the changes made to all surveys, newest first."""
        return await respond_with_activity(call, self._activity, SCOPE)

    @endpoint(
        "GET", *project_paths("surveys/responses_count/"), access=READ, response=dict[str, int]
    )
    async def count_responses(self, call: ProjectCall) -> Response:
        """Count the responses of each survey, by survey id. Surveys without responses are left
        out."""
        surveys = [found.survey for found in await self._surveys.list_surveys(call.project)]
        start_dates = {
            survey.id: survey.start_date for survey in surveys if survey.start_date is not None
        }
        if not start_dates:
            return JsonResponse({})
        since = min(start_dates.values())
        counts = await call.while_connected(
            self._responses.count_responses(call.project, list(start_dates), since, call.now)
        )
        return JsonResponse(counts)

    @endpoint(
        "GET",
        *project_paths("surveys/stats/"),
        access=READ,
        response=SurveysStats,
        query=STATS_PARAMETERS,
    )
    async def retrieve_surveys_stats(self, call: ProjectCall) -> Response:
        """Retrieve view, dismissal and response counts of all surveys that are not archived."""
        found = await self._surveys.list_surveys(call.project)
        ids = [each.survey.id for each in found if not each.survey.archived]
        stats = await self._count_events(call, ids)
        return JsonResponse(SurveysStats(stats=_render_counts(stats), rates=_render_rates(stats)))

    @endpoint(
        "GET",
        *project_paths("surveys/{survey_id}/stats/"),
        access=READ,
        response=SurveyStats,
        query=STATS_PARAMETERS,
    )
    async def retrieve_survey_stats(self, call: ProjectCall) -> Response:
        """Retrieve view, dismissal and response counts of a survey."""
        survey = (await self._surveys.find(call.project, call.path_param("survey_id"))).survey
        stats = await self._count_events(call, [survey.id])
        return JsonResponse(
            SurveyStats(
                stats=_render_counts(stats),
                rates=_render_rates(stats),
                survey_id=survey.id,
                start_date=format_date(survey.start_date),
                end_date=format_date(survey.end_date),
            )
        )

    async def _count_events(self, call: ProjectCall, ids: Sequence[str]) -> SurveyOutcomes:
        zone = ZoneInfo(call.project.timezone)
        texts = {name: call.query_param(name) for name in ("date_from", "date_to")}
        times = {
            name: parse_date_parameter(text, call.now, zone, name)
            for name, text in texts.items()
            if text
        }
        span = (times.get("date_from", EARLIEST), times.get("date_to", LATEST))
        if span[0] > span[1]:
            raise Invalid("`date_from` must be before `date_to`.", attr="date_from")
        if not ids:
            return NO_STATS
        return await call.while_connected(
            self._responses.get_stats(call.project, ids, span, call.now)
        )
