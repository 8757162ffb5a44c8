"""What the documents of a survey may hold: questions, conditions, appearance and translations.

What SDKs stumble over is refused, with its exact place, such as `questions[1].choices`. What we do
not know is kept as it is: newer SDKs may.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import urlsplit
from uuid import uuid4

from hedgerow.errors import Invalid
from hedgerow.filters.rules import refuse
from hedgerow.lib import jsonio
from hedgerow.lib.text import cut_short
from hedgerow.projects.text import check_storable
from hedgerow.surveys.html import SHOWN_AS_HTML, harmless

MAX_BYTES = 128 * 1024
MAX_QUESTIONS = 100
MAX_CHOICES = 200
# Cleaning takes longer the longer a text is, and not in proportion.
HTML_MAX = 5000
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
_TEXTS = ("id", "description", "buttonText", "lowerBoundLabel", "upperBoundLabel")
_TRUTHS = ("optional", "shuffleOptions", "hasOpenChoice", "isNpsQuestion", "skipSubmitButton")


def checked_questions(value: Any) -> list[dict[str, Any]]:
    """The questions as they are stored, each with an id."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        refuse("questions", "Questions must be a list of objects")
    _check_size(value, "questions")
    if len(value) > MAX_QUESTIONS:
        refuse("questions", f"A survey may have {MAX_QUESTIONS} questions at most.", "max_length")
    questions: list[dict[str, Any]] = harmless(value)
    for number, question in enumerate(questions):
        place = f"questions[{number}]"
        _check_question(question, place, len(questions))
        question["id"] = question.get("id") or str(uuid4())
    return questions


def checked_appearance(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    appearance = _document(value, "appearance", "Appearance must be an object")
    for name in ("thankYouMessageDescriptionContentType", "introScreenDescriptionContentType"):
        _choice(appearance, name, CONTENT_TYPES, "appearance")
    if not isinstance(appearance.get("whiteLabel"), bool | None):
        refuse("appearance.whiteLabel", "whiteLabel must be a boolean")
    delay = appearance.get("surveyPopupDelaySeconds")
    if delay is not None and (not _is_number(delay) or delay < 0):
        refuse(
            "appearance.surveyPopupDelaySeconds",
            "Survey popup delay seconds must be a positive integer",
        )
    return appearance


def checked_conditions(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    conditions = _document(value, "conditions", "Conditions must be an object")
    for name in ("url", "selector", "linkedFlagVariant"):
        _text(conditions, name, "conditions")
    for name in ("urlMatchType", "deviceTypesMatchType"):
        _choice(conditions, name, MATCHES, "conditions")
    wait = conditions.get("seenSurveyWaitPeriodInDays")
    if wait is not None and (not _is_number(wait) or wait < 0):
        refuse("conditions.seenSurveyWaitPeriodInDays", "A number of days is required.")
    for name in ("events", "actions", "cancelEvents"):
        _check_triggers(conditions.get(name), f"conditions.{name}")
    devices = conditions.get("deviceTypes")
    if devices is not None and not _are_texts(devices):
        refuse("conditions.deviceTypes", "A list of texts is required.")
    return conditions


def checked_translations(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    translations = _document(value, "translations", "Translations must be an object")
    _check_translations(translations, "translations")
    return translations


def _check_question(question: Mapping[str, Any], place: str, count: int) -> None:
    kind = question.get("type")
    if kind not in QUESTION_TYPES:
        refuse(f"{place}.type", f'"{cut_short(kind)}" is not a valid choice.', "invalid_choice")
    text = question.get("question")
    if not isinstance(text, str) or not text.strip():
        refuse(f"{place}.question", "Question text is required", "required")
    for name in _TEXTS:
        _text(question, name, place)
    for name in _TRUTHS:
        if not isinstance(question.get(name), bool | None):
            refuse(f"{place}.{name}", "Must be a valid boolean.")
    _choice(question, "descriptionContentType", CONTENT_TYPES, place)
    _check_link(question.get("link"), f"{place}.link")
    if kind == RATING:
        _choice(question, "display", DISPLAYS, place)
        if question.get("scale") not in (None, *SCALES):
            refuse(f"{place}.scale", f"One of {', '.join(map(str, SCALES))} is required.")
    _check_choices(question.get("choices"), f"{place}.choices", kind in (SINGLE, MULTIPLE))
    _check_branching(question.get("branching"), f"{place}.branching", count)
    translations = question.get("translations")
    if not isinstance(translations, dict | None):
        refuse(f"{place}.translations", "Translations must be an object")
    _check_translations(translations or {}, f"{place}.translations")


def _check_translations(translations: Mapping[str, Any], place: str) -> None:
    for language, texts in translations.items():
        where = f"{place}.{cut_short(language)}"
        if not isinstance(texts, dict):
            refuse(where, "Translations must be an object")
        for name in ("name", *_TEXTS, *SHOWN_AS_HTML):
            _text(texts, name, where)
        _check_link(texts.get("link"), f"{where}.link")
        _check_choices(texts.get("choices"), f"{where}.choices", is_wanted=False)


def _check_link(link: Any, place: str) -> None:
    """SDKs open it when somebody clicks, so it may not be a script."""
    if link is None or link == "":
        return
    if not isinstance(link, str):
        refuse(place, "Not a valid string.")
    try:
        parts = urlsplit(link)
    except ValueError:
        refuse(place, "Invalid link. Please enter a valid HTTPS or mailto link.")
    if parts.scheme not in LINK_SCHEMES or link != link.strip():
        schemes = ", ".join(LINK_SCHEMES)
        refuse(place, f"Link must be a URL with one of these schemes: [{schemes}]")
    if parts.scheme == "mailto" and not _MAILTO.fullmatch(link.partition("?")[0]):
        detail = "Invalid mailto link. Please enter a valid mailto link "
        refuse(place, f"{detail}(e.g., mailto:example@domain.com).")
    if parts.scheme == "https" and not parts.netloc:
        refuse(place, "Invalid HTTPS URL. Please enter a valid HTTPS link.")


def _check_choices(choices: Any, place: str, is_wanted: bool) -> None:
    if choices is None and not is_wanted:
        return
    if not _are_texts(choices):
        refuse(place, "Question choices must be a list of strings")
    if any(not choice.strip() for choice in choices) or (is_wanted and not choices):
        refuse(place, "Question choices cannot be empty")
    if len(choices) > MAX_CHOICES:
        refuse(place, f"A question may have {MAX_CHOICES} choices at most.", "max_length")


def _check_branching(branching: Any, place: str, count: int) -> None:
    """A step to a question that is not there would stop the survey on the page."""
    if branching is None:
        return
    if not isinstance(branching, dict):
        refuse(place, "Branching must be an object")
    _choice(branching, "type", BRANCHES, place)
    if branching.get("type") == SPECIFIC:
        _check_step(branching.get("index"), f"{place}.index", count)
    if branching.get("type") == RESPONSE_BASED:
        steps = branching.get("responseValues")
        if not isinstance(steps, dict | None):
            refuse(f"{place}.responseValues", "An object of answers and questions is required.")
        for answer, step in (steps or {}).items():
            if step not in (NEXT, END):
                _check_step(step, f"{place}.responseValues.{cut_short(answer)}", count)


def _check_step(step: Any, place: str, count: int) -> None:
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < count:
        refuse(place, f"The place of a question is required: 0 to {count - 1}.")


def _check_triggers(triggers: Any, place: str) -> None:
    """Events or actions that bring a survey up, or take it away."""
    if triggers is None:
        return
    values = triggers.get("values") if isinstance(triggers, dict) else ...
    if values is None:
        return
    if not isinstance(values, list) or not all(isinstance(each, dict) for each in values):
        refuse(f"{place}.values", "A list of objects is required.")
    for number, each in enumerate(values):
        _text(each, "name", f"{place}.values[{number}]")


def _document(value: Any, name: str, otherwise: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        refuse(name, otherwise)
    _check_size(value, name)
    document: dict[str, Any] = harmless(value)
    for field in SHOWN_AS_HTML:
        _text(document, field, name)
    return document


def _check_size(value: Any, name: str) -> None:
    check_storable(value, name)
    if len(jsonio.encode(value)) > MAX_BYTES:
        refuse(name, f"It may have {MAX_BYTES} bytes at most.", "max_length")
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            for field in SHOWN_AS_HTML & node.keys():
                if isinstance(node[field], str) and len(node[field]) > HTML_MAX:
                    _refuse_long(name)


def _refuse_long(name: str) -> NoReturn:
    raise Invalid(
        f"Ensure each text has no more than {HTML_MAX} characters.", attr=name, code="max_length"
    )


def _choice(within: Mapping[str, Any], name: str, choices: Sequence[str], place: str) -> None:
    value = within.get(name)
    if value not in (None, "", *choices):
        quoted = ", ".join(f"'{choice}'" for choice in choices)
        refuse(f"{place}.{name}", f"{name} must be one of [{quoted}]", "invalid_choice")


def _text(within: Mapping[str, Any], name: str, place: str) -> None:
    if not isinstance(within.get(name), str | None):
        refuse(f"{place}.{name}", "Not a valid string.")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
