"""How surveys fared: answers counted, and how many were shown, dismissed and answered."""

from collections.abc import Mapping, Sequence
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from hedgerow.errors import Invalid
from hedgerow.events.dates import EARLIEST, LATEST, asked_moment
from hedgerow.http.access import ProjectCall
from hedgerow.http.describe import Parameter, describes
from hedgerow.http.reply import JsonResponse
from hedgerow.http.surveys import BASES, READ
from hedgerow.surveys.responses import DISMISSED, NOTHING, SENT, SHOWN, Fared
from hedgerow.surveys.told import moment

router = APIRouter(tags=["Surveys"])

SPAN = (
    Parameter("date_from", "Only events from this moment on, such as 2026-01-31T12:00:00Z or -7d."),
    Parameter("date_to", "Only events up to this moment."),
)


class EventCounts(msgspec.Struct, kw_only=True):
    """`…_only_seen` counts what was neither dismissed nor answered afterwards."""

    total_count: int
    total_count_only_seen: int
    unique_persons: int
    unique_persons_only_seen: int
    first_seen: str | None
    last_seen: str | None


class Rates(msgspec.Struct, kw_only=True):
    """Of those who were shown a survey, in percent."""

    response_rate: float
    dismissal_rate: float
    unique_users_response_rate: float
    unique_users_dismissal_rate: float


class Stats(msgspec.Struct, kw_only=True):
    """How surveys fared, by event: `survey shown`, `survey dismissed`, `survey sent`."""

    stats: Mapping[str, EventCounts]
    rates: Rates


class SurveyStats(Stats, kw_only=True):
    survey_id: str
    start_date: str | None
    end_date: str | None


@describes(answer=dict[str, int])
async def responses_count(call: Annotated[ProjectCall, READ]) -> Response:
    """How many answers each survey has had, by its id. Those without any are left out."""
    surveys = [found.survey for found in await call.rooms.surveys.listing(call.project)]
    begun = {survey.id: survey.start_date for survey in surveys if survey.start_date is not None}
    if not begun:
        return JsonResponse({})
    since = min(begun.values())
    counts = await call.rooms.survey_responses.counts(call.project, list(begun), since, call.now)
    return JsonResponse(counts)


@describes(answer=Stats, query=SPAN)
async def surveys_stats(call: Annotated[ProjectCall, READ]) -> Response:
    """How all surveys fared that are not archived."""
    found = await call.rooms.surveys.listing(call.project)
    ids = [each.survey.id for each in found if not each.survey.archived]
    fared = await _fared(call, ids)
    return JsonResponse(Stats(stats=_counts(fared), rates=_rates(fared)))


@describes(answer=SurveyStats, query=SPAN)
async def survey_stats(survey_id: str, call: Annotated[ProjectCall, READ]) -> Response:
    """How one survey fared."""
    survey = (await call.rooms.surveys.find(call.project, survey_id)).survey
    fared = await _fared(call, [survey.id])
    return JsonResponse(
        SurveyStats(
            stats=_counts(fared),
            rates=_rates(fared),
            survey_id=survey.id,
            start_date=moment(survey.start_date),
            end_date=moment(survey.end_date),
        )
    )


async def _fared(call: ProjectCall, ids: Sequence[str]) -> Fared:
    zone = ZoneInfo(call.project.timezone)
    said = {name: call.asked(name) for name in ("date_from", "date_to")}
    moments = {
        name: asked_moment(text, call.now, zone, name) for name, text in said.items() if text
    }
    span = (moments.get("date_from", EARLIEST), moments.get("date_to", LATEST))
    if span[0] > span[1]:
        raise Invalid("date_from must be before date_to", attr="date_from")
    if not ids:
        return NOTHING
    return await call.rooms.survey_responses.fared(call.project, ids, span, call.now)


def _counts(fared: Fared) -> dict[str, EventCounts]:
    return {
        name: EventCounts(
            total_count=tally.total,
            total_count_only_seen=fared.only_shown if tally is fared.shown else 0,
            unique_persons=tally.people,
            unique_persons_only_seen=fared.people_only_shown if tally is fared.shown else 0,
            first_seen=moment(tally.first),
            last_seen=moment(tally.last),
        )
        for name, tally in (
            (SHOWN, fared.shown),
            (DISMISSED, fared.dismissed),
            (SENT, fared.sent),
        )
    }


def _rates(fared: Fared) -> Rates:
    shown = fared.shown
    return Rates(
        response_rate=_percent(fared.sent.total, shown.total),
        dismissal_rate=_percent(fared.dismissed.total, shown.total),
        unique_users_response_rate=_percent(fared.sent.people, shown.people),
        unique_users_dismissal_rate=_percent(fared.dismissed.people, shown.people),
    )


def _percent(part: int, whole: int) -> float:
    return round(part / whole * 100, 2) if whole else 0.0


for base in BASES:
    router.get(base + "responses_count/")(responses_count)
    router.get(base + "stats/")(surveys_stats)
    router.get(base + "{survey_id}/stats/")(survey_stats)
