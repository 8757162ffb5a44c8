"""Convert a survey of PostHog, and the properties that name it. Pure.

The flags of a survey are not imported: the survey creates them. The survey gets a new id, so
properties of persons and events that contain the old id are translated.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.flags.known_fields import FLAG_FILTERS
from hedgerow.flags.model import FlagId
from hedgerow.flags.validate import ValidationContext, validate_filters
from hedgerow.importers.documents import Item, get_object, parse_id
from hedgerow.importers.model import ImportItem, ResourceKind
from hedgerow.importers.unknown_fields import note_unknown_names, strip_unknown_fields
from hedgerow.lib.shape import AnyShape
from hedgerow.surveys.known_fields import (
    APPEARANCE,
    CONDITIONS,
    POSTHOG_SURVEY_FIELDS,
    QUESTION,
    TRANSLATIONS,
)
from hedgerow.surveys.model import SurveyType
from hedgerow.surveys.rules import (
    validate_appearance,
    validate_conditions,
    validate_questions,
    validate_translations,
)
from hedgerow.surveys.targeting import COMPLETION_PROPERTIES

# Fields that our API takes unchanged.
_PLAIN_FIELDS = ("schedule", "archived", "enable_partial_responses")
# Fields that are null when they are unset.
_NULLABLE_FIELDS = (
    "start_date",
    "end_date",
    "responses_limit",
    "iteration_count",
    "iteration_frequency_days",
)
_DOCUMENTS: Mapping[str, tuple[AnyShape, Callable[[Any], Any]]] = {
    "questions": (QUESTION, validate_questions),
    "conditions": (CONDITIONS, validate_conditions),
    "appearance": (APPEARANCE, validate_appearance),
    "translations": (TRANSLATIONS, validate_translations),
}
_SAMPLING = "response_sampling_"
_SURVEY_ID_PROPERTY = "$survey_id"
# Fields that hold the flags that a survey created.
_SURVEY_FLAG_FIELDS = (
    "targeting_flag",
    "internal_targeting_flag",
    "internal_response_sampling_flag",
)


def convert_survey(
    item: Item, name: str, context: ValidationContext, note: Callable[[str], None]
) -> ImportItem:
    """Raises Invalid if our rules reject it. `context` has the imported flags and cohorts."""
    if item.get("type") not in list(SurveyType):
        raise Invalid(f"The type {item.get('type')!r} has no equivalent here.", attr="type")
    body: dict[str, Any] = {
        "name": name,
        "description": str(item.get("description") or ""),
        "type": item["type"],
    }
    body |= {field: item[field] for field in _PLAIN_FIELDS if item.get(field) is not None}
    body |= {field: item.get(field) for field in _NULLABLE_FIELDS}
    for field, (shape, validate) in _DOCUMENTS.items():
        document = strip_unknown_fields(item.get(field), shape, field, note)
        # Normalized as the API stores it, so that the next run sees no difference.
        body[field] = None if document is None else validate(document)
    linked = item.get("linked_flag_id") or get_object(item, "linked_flag").get("id")
    if linked is not None and FlagId(parse_id(linked)) not in context.flags:
        raise Invalid("Its linked flag is not imported.")
    body["linked_flag_id"] = None if linked is None else parse_id(linked)
    filters = strip_unknown_fields(
        get_object(item, "targeting_flag").get("filters"), FLAG_FILTERS, "targeting_flag", note
    )
    body["targeting_flag_filters"] = (
        validate_filters(filters, context, is_new=True) if filters else None
    )
    sampled = [field for field in item if field.startswith(_SAMPLING) and item[field]]
    if sampled:
        note(f"Imported without its response sampling ({', '.join(sorted(sampled))}).")
    sampling = [field for field in item if field.startswith(_SAMPLING)]
    note_unknown_names(item, (*body, *_PLAIN_FIELDS, *sampling, *POSTHOG_SURVEY_FIELDS), note)
    return ImportItem(kind=ResourceKind.SURVEY, source_id=str(item.get("id")), name=name, body=body)


def list_survey_flags(surveys: Iterable[Item]) -> set[int]:
    """Return the ids of the flags that surveys created."""
    return {
        parse_id(get_object(each, name).get("id"))
        for each in surveys
        for name in _SURVEY_FLAG_FIELDS
    }


def translate_survey_properties(
    properties: Mapping[str, Any], ids: Mapping[Any, str]
) -> dict[str, Any]:
    """Return properties of a person or an event with the survey ids of the target project."""
    translated = {_translate_name(name, ids): value for name, value in properties.items()}
    survey = translated.get(_SURVEY_ID_PROPERTY)
    if isinstance(survey, str) and survey in ids:
        translated[_SURVEY_ID_PROPERTY] = ids[survey]
    for name in ("$set", "$set_once"):
        if isinstance(translated.get(name), Mapping):
            translated[name] = {
                _translate_name(key, ids): value for key, value in translated[name].items()
            }
    return translated


def _translate_name(name: str, ids: Mapping[Any, str]) -> str:
    if not name.startswith(COMPLETION_PROPERTIES):
        return name
    mark, _, rest = name.partition("/")
    id, slash, iteration = rest.partition("/")
    return f"{mark}/{ids.get(id, id)}{slash}{iteration}"
