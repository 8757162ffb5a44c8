"""Validation of survey documents: questions, conditions, appearance and translations.

Raises Invalid with the exact path, such as `questions[1].choices`, for values that break SDKs and
for unknown fields.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import urlsplit
from uuid import uuid4

from hedgerow.errors import Invalid
from hedgerow.filters.validate import raise_invalid
from hedgerow.lib import jsonio
from hedgerow.lib.shape import AnyShape
from hedgerow.lib.text import truncate
from hedgerow.projects.validation import check_known_fields, check_storable
from hedgerow.surveys.html import HTML_FIELDS, sanitize_html
from hedgerow.surveys.known_fields import APPEARANCE, CONDITIONS, QUESTION, TRANSLATIONS

MAX_BYTES = 128 * 1024
MAX_QUESTIONS = 100
MAX_CHOICES = 200
# Sanitizing takes more than linear time.
MAX_HTML_CHARS = 5000
RATING, SINGLE, MULTIPLE = "rating", "single_choice", "multiple_choice"
QUESTION_TYPES = ("open", "link", RATING, SINGLE, MULTIPLE)
SCALES = (2, 3, 5, 7, 10)
DISPLAYS = ("number", "emoji")
CONTENT_TYPES = ("text", "html")
LINK_SCHEMES = ("https", "mailto")
NEXT, END, SPECIFIC, RESPONSE_BASED = "next_question", "end", "specific_question", "response_based"
BRANCHES = (NEXT, END, SPECIFIC, RESPONSE_BASED)
MATCHES = ("exact", "is_not", "icontains", "not_icontains", "regex", "not_regex")

_MAILTO = re.compile(r"mailto:[^\s@:?]+@[^\s@?]+\.[^\s@?]+", re.ASCII)
_TEXT_FIELDS = ("id", "description", "buttonText", "lowerBoundLabel", "upperBoundLabel")
_BOOLEAN_FIELDS = (
    "optional",
    "shuffleOptions",
    "hasOpenChoice",
    "isNpsQuestion",
    "skipSubmitButton",
)


def validate_questions(value: Any) -> list[dict[str, Any]]:
    """Return the questions to store, each with an id."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise_invalid("questions", "Questions must be a list of objects")
    _check_size(value, "questions")
    check_known_fields(value, QUESTION, "questions")
    if len(value) > MAX_QUESTIONS:
        raise_invalid(
            "questions", f"A survey can have at most {MAX_QUESTIONS} questions.", "max_length"
        )
    questions: list[dict[str, Any]] = sanitize_html(value)
    for number, question in enumerate(questions):
        attr = f"questions[{number}]"
        _check_question(question, attr, len(questions))
        question["id"] = question.get("id") or str(uuid4())
    return questions


def validate_appearance(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    appearance = _check_document(value, APPEARANCE, "appearance", "Appearance must be an object")
    for name in ("thankYouMessageDescriptionContentType", "introScreenDescriptionContentType"):
        _check_choice(appearance, name, CONTENT_TYPES, "appearance")
    if not isinstance(appearance.get("whiteLabel"), bool | None):
        raise_invalid("appearance.whiteLabel", "whiteLabel must be a boolean")
    delay = appearance.get("surveyPopupDelaySeconds")
    if delay is not None and (not _is_number(delay) or delay < 0):
        raise_invalid(
            "appearance.surveyPopupDelaySeconds",
            "Survey popup delay seconds must be a positive integer",
        )
    return appearance


def validate_conditions(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    conditions = _check_document(value, CONDITIONS, "conditions", "Conditions must be an object")
    for name in ("url", "selector", "linkedFlagVariant"):
        _check_text(conditions, name, "conditions")
    for name in ("urlMatchType", "deviceTypesMatchType"):
        _check_choice(conditions, name, MATCHES, "conditions")
    wait = conditions.get("seenSurveyWaitPeriodInDays")
    if wait is not None and (not _is_number(wait) or wait < 0):
        raise_invalid("conditions.seenSurveyWaitPeriodInDays", "Expected a number of days.")
    for name in ("events", "actions", "cancelEvents"):
        _check_triggers(conditions.get(name), f"conditions.{name}")
    devices = conditions.get("deviceTypes")
    if devices is not None and not _is_text_list(devices):
        raise_invalid("conditions.deviceTypes", "Expected a list of strings.")
    return conditions


def validate_translations(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    translations = _check_document(
        value, TRANSLATIONS, "translations", "Translations must be an object"
    )
    _check_translations(translations, "translations")
    return translations


def _check_question(question: Mapping[str, Any], attr: str, count: int) -> None:
    kind = question.get("type")
    if kind not in QUESTION_TYPES:
        raise_invalid(
            f"{attr}.type", f'"{truncate(kind)}" is not a valid choice.', "invalid_choice"
        )
    text = question.get("question")
    if not isinstance(text, str) or not text.strip():
        raise_invalid(f"{attr}.question", "Question text is required", "required")
    for name in _TEXT_FIELDS:
        _check_text(question, name, attr)
    for name in _BOOLEAN_FIELDS:
        if not isinstance(question.get(name), bool | None):
            raise_invalid(f"{attr}.{name}", "Must be a valid boolean.")
    _check_choice(question, "descriptionContentType", CONTENT_TYPES, attr)
    _check_link(question.get("link"), f"{attr}.link")
    if kind == RATING:
        _check_choice(question, "display", DISPLAYS, attr)
        if question.get("scale") not in (None, *SCALES):
            raise_invalid(f"{attr}.scale", f"One of {', '.join(map(str, SCALES))} is required.")
    _check_choices(question.get("choices"), f"{attr}.choices", kind in (SINGLE, MULTIPLE))
    _check_branching(question.get("branching"), f"{attr}.branching", count)
    translations = question.get("translations")
    if not isinstance(translations, dict | None):
        raise_invalid(f"{attr}.translations", "Translations must be an object")
    _check_translations(translations or {}, f"{attr}.translations")


def _check_translations(translations: Mapping[str, Any], attr: str) -> None:
    for language, texts in translations.items():
        attr_of_language = f"{attr}.{truncate(language)}"
        if not isinstance(texts, dict):
            raise_invalid(attr_of_language, "Translations must be an object")
        for name in ("name", *_TEXT_FIELDS, *HTML_FIELDS):
            _check_text(texts, name, attr_of_language)
        _check_link(texts.get("link"), f"{attr_of_language}.link")
        _check_choices(texts.get("choices"), f"{attr_of_language}.choices", is_required=False)


def _check_link(link: Any, attr: str) -> None:
    """SDKs open the link on a click, so it must not be a script."""
    if link is None or link == "":
        return
    if not isinstance(link, str):
        raise_invalid(attr, "Not a valid string.")
    try:
        parts = urlsplit(link)
    except ValueError:
        raise_invalid(attr, "Invalid link. Please enter a valid HTTPS or mailto link.")
    if parts.scheme not in LINK_SCHEMES or link != link.strip():
        schemes = ", ".join(LINK_SCHEMES)
        raise_invalid(attr, f"Link must be a URL with one of these schemes: [{schemes}]")
    if parts.scheme == "mailto" and not _MAILTO.fullmatch(link.partition("?")[0]):
        detail = "Invalid mailto link. Please enter a valid mailto link "
        raise_invalid(attr, f"{detail}(e.g., mailto:example@domain.com).")
    if parts.scheme == "https" and not parts.netloc:
        raise_invalid(attr, "Invalid HTTPS URL. Please enter a valid HTTPS link.")


def _check_choices(choices: Any, attr: str, is_required: bool) -> None:
    if choices is None and not is_required:
        return
    if not _is_text_list(choices):
        raise_invalid(attr, "Question choices must be a list of strings")
    if any(not choice.strip() for choice in choices) or (is_required and not choices):
        raise_invalid(attr, "Question choices cannot be empty")
    if len(choices) > MAX_CHOICES:
        raise_invalid(attr, f"A question can have at most {MAX_CHOICES} choices.", "max_length")


def _check_branching(branching: Any, attr: str, count: int) -> None:
    """A step to a missing question would stop the survey on the page."""
    if branching is None:
        return
    if not isinstance(branching, dict):
        raise_invalid(attr, "Branching must be an object")
    _check_choice(branching, "type", BRANCHES, attr)
    if branching.get("type") == SPECIFIC:
        _check_step(branching.get("index"), f"{attr}.index", count)
    if branching.get("type") == RESPONSE_BASED:
        steps = branching.get("responseValues")
        if not isinstance(steps, dict | None):
            raise_invalid(f"{attr}.responseValues", "Expected an object of answers and questions.")
        for answer, step in (steps or {}).items():
            if step not in (NEXT, END):
                _check_step(step, f"{attr}.responseValues.{truncate(answer)}", count)


def _check_step(step: Any, attr: str, count: int) -> None:
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < count:
        raise_invalid(attr, f"Expected the index of a question, from 0 to {count - 1}.")


def _check_triggers(triggers: Any, attr: str) -> None:
    """Check the events or actions that show or hide a survey."""
    if triggers is None:
        return
    values = triggers.get("values") if isinstance(triggers, dict) else ...
    if values is None:
        return
    if not isinstance(values, list) or not all(isinstance(each, dict) for each in values):
        raise_invalid(f"{attr}.values", "A list of objects is required.")
    for number, each in enumerate(values):
        _check_text(each, "name", f"{attr}.values[{number}]")


def _check_document(value: Any, shape: AnyShape, name: str, message: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise_invalid(name, message)
    _check_size(value, name)
    check_known_fields(value, shape, name)
    document: dict[str, Any] = sanitize_html(value)
    for field in HTML_FIELDS:
        _check_text(document, field, name)
    return document


def _check_size(value: Any, name: str) -> None:
    check_storable(value, name)
    if len(jsonio.encode(value)) > MAX_BYTES:
        raise_invalid(name, f"Expected at most {MAX_BYTES} bytes.", "max_length")
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            pending += node.values()
            for field in HTML_FIELDS & node.keys():
                if isinstance(node[field], str) and len(node[field]) > MAX_HTML_CHARS:
                    _refuse_long_text(name)


def _refuse_long_text(name: str) -> NoReturn:
    raise Invalid(
        f"Ensure each text has no more than {MAX_HTML_CHARS} characters.",
        attr=name,
        code="max_length",
    )


def _check_choice(within: Mapping[str, Any], name: str, choices: Sequence[str], attr: str) -> None:
    value = within.get(name)
    if value not in (None, "", *choices):
        quoted = ", ".join(f"'{choice}'" for choice in choices)
        raise_invalid(f"{attr}.{name}", f"{name} must be one of [{quoted}]", "invalid_choice")


def _check_text(within: Mapping[str, Any], name: str, attr: str) -> None:
    if not isinstance(within.get(name), str | None):
        raise_invalid(f"{attr}.{name}", "Not a valid string.")


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
