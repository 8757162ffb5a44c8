"""What a survey of PostHog becomes here, and the marks that it leaves on people. Pure.

Its own flags are not copied: a survey makes them. It has another id here, so what people and events
say of the id of there is said of that of here.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.model import FlagId
from hedgerow.flags.rules import Surroundings, checked_filters
from hedgerow.importers.model import Kind, Wanted
from hedgerow.importers.shapes import Item, number, part
from hedgerow.surveys.model import SurveyType
from hedgerow.surveys.rules import (
    checked_appearance,
    checked_conditions,
    checked_questions,
    checked_translations,
)
from hedgerow.surveys.targeting import DONE

# Who is chosen, and when it is asked, as our API takes it.
_PLAIN = ("schedule", "archived", "enable_partial_responses")
# What was there and is there no more differs, too.
_PERHAPS_NONE = (
    "start_date",
    "end_date",
    "responses_limit",
    "iteration_count",
    "iteration_frequency_days",
)
_DOCUMENTS = {
    "questions": checked_questions,
    "conditions": checked_conditions,
    "appearance": checked_appearance,
    "translations": checked_translations,
}
_SAMPLING = "response_sampling_"
_OF_SURVEYS = "$survey_id"
# Under these names a survey tells of the flags that it made for itself.
_OWN_FLAGS = ("targeting_flag", "internal_targeting_flag", "internal_response_sampling_flag")


def wanted_survey(
    item: Item, name: str, around: Surroundings, note: Callable[[str], None]
) -> Wanted:
    """Or Invalid, by our rules. `around` are the flags and cohorts that are copied."""
    if item.get("type") not in list(SurveyType):
        raise Invalid(f"There is no type {item.get('type')!r} here.", attr="type")
    body: dict[str, Any] = {
        "name": name,
        "description": str(item.get("description") or ""),
        "type": item["type"],
    }
    body |= {field: item[field] for field in _PLAIN if item.get(field) is not None}
    body |= {field: item.get(field) for field in _PERHAPS_NONE}
    for field, checked in _DOCUMENTS.items():
        # As it is stored: cleaned, so that it is the same the next time.
        body[field] = None if item.get(field) is None else checked(item[field])
    linked = item.get("linked_flag_id") or part(item, "linked_flag").get("id")
    if linked is not None and FlagId(number(linked)) not in around.flags:
        raise Invalid("Its linked flag is not copied.")
    body["linked_flag_id"] = None if linked is None else number(linked)
    filters = part(item, "targeting_flag").get("filters")
    body["targeting_flag_filters"] = (
        checked_filters(filters, around, is_new=True) if filters else None
    )
    sampled = [field for field in item if field.startswith(_SAMPLING) and item[field]]
    if sampled:
        note(f"Without its sampling of responses ({', '.join(sorted(sampled))}).")
    return Wanted(kind=Kind.SURVEY, source_id=str(item.get("id")), name=name, body=body)


def own_flags(surveys: Iterable[Item]) -> set[int]:
    """The numbers of the flags that surveys have made for themselves."""
    return {number(part(each, name).get("id")) for each in surveys for name in _OWN_FLAGS}


def with_survey_ids(properties: Mapping[str, Any], ids: Mapping[Any, str]) -> dict[str, Any]:
    """Properties of somebody or of an event that name surveys by the ids of here."""
    made = {_named(name, ids): value for name, value in properties.items()}
    survey = made.get(_OF_SURVEYS)
    if isinstance(survey, str) and survey in ids:
        made[_OF_SURVEYS] = ids[survey]
    for name in ("$set", "$set_once"):
        if isinstance(made.get(name), Mapping):
            made[name] = {_named(key, ids): value for key, value in made[name].items()}
    return made


def _named(name: str, ids: Mapping[Any, str]) -> str:
    if not name.startswith(DONE):
        return name
    mark, _, rest = name.partition("/")
    id, slash, iteration = rest.partition("/")
    return f"{mark}/{ids.get(id, id)}{slash}{iteration}"
