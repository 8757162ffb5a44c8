"""What pages and apps are told of surveys. A description is for those who make them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.lib.clock import iso
from hedgerow.surveys.model import Flagged


def told(found: Flagged) -> dict[str, Any]:
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
        "start_date": moment(survey.start_date),
        "end_date": moment(survey.end_date),
        "current_iteration": survey.current_iteration,
        "current_iteration_start_date": moment(survey.current_iteration_start_date),
        "schedule": survey.schedule.value if survey.schedule else None,
        "enable_partial_responses": survey.enable_partial_responses,
    }


def answer(surveys: Sequence[Flagged]) -> bytes:
    shown = [told(found) for found in surveys if not found.survey.archived]
    return jsonio.encode({"surveys": shown, "survey_config": None})


def moment(at: datetime | None) -> str | None:
    return None if at is None else iso(at)
