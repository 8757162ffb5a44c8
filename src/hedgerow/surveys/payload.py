"""The surveys in the format of PostHog's SDKs. It excludes descriptions, which are internal."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.surveys.model import SurveyWithFlags


def build_payload(found: SurveyWithFlags) -> dict[str, Any]:
    survey = found.survey
    return {
        "id": survey.id,
        "name": survey.name,
        "type": survey.type.value,
        "linked_flag_key": found.linked.key if found.linked else None,
        "targeting_flag_key": found.targeting.key if found.targeting else None,
        "internal_targeting_flag_key": found.internal.key,
        "questions": survey.questions,
        "conditions": survey.conditions,
        "appearance": survey.appearance,
        "translations": survey.translations,
        "start_date": format_date(survey.start_date),
        "end_date": format_date(survey.end_date),
        "current_iteration": survey.current_iteration,
        "current_iteration_start_date": format_date(survey.current_iteration_start_date),
        "schedule": survey.schedule.value if survey.schedule else None,
        "enable_partial_responses": survey.enable_partial_responses,
    }


def encode_payload(surveys: Sequence[SurveyWithFlags]) -> bytes:
    shown = [build_payload(found) for found in surveys if not found.survey.archived]
    return jsonio.encode({"surveys": shown, "survey_config": None})


def format_date(at: datetime | None) -> str | None:
    return None if at is None else format_iso(at)
