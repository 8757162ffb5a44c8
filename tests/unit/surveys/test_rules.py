"""Validation of survey documents."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.surveys.html import clean_text, sanitize_html
from hedgerow.surveys.rules import (
    MAX_BYTES,
    MAX_HTML_CHARS,
    MAX_QUESTIONS,
    validate_appearance,
    validate_conditions,
    validate_questions,
    validate_translations,
)


def make_question(**fields: Any) -> dict[str, Any]:
    return {"id": "q", "type": "open", "question": "Why?", **fields}


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "link", "link": "https://x.example/a?b=c#d"},
        {"type": "link", "link": "mailto:ann@shop.example?subject=Hello there"},
        {"type": "link", "link": ""},
        {"type": "rating", "scale": 10, "display": "number", "isNpsQuestion": True},
        {"type": "rating", "scale": 2, "display": "emoji", "lowerBoundLabel": "bad"},
        {"type": "single_choice", "choices": ["<18", "18+"], "hasOpenChoice": True},
        {"type": "multiple_choice", "choices": ["a"], "shuffleOptions": None},
        {"description": "3 < 4", "descriptionContentType": "text", "optional": True},
        {"branching": {"type": "end"}},
        {"branching": {"type": "specific_question", "index": 0}},
        {"branching": {"type": "response_based", "responseValues": {"0": 0, "1": "end"}}},
        {"translations": {"de": {"question": "Warum?", "choices": ["a"]}}},
        {"validation": [{"type": "min_length", "value": 3}], "originalQuestionIndex": 0},
    ],
    ids=str,
)
def test_known_fields_are_stored_unchanged(fields: dict[str, Any]) -> None:
    question = make_question(**fields)
    assert validate_questions([question]) == [question]


@pytest.mark.parametrize(
    ("fields", "attr"),
    [
        ({"type": None}, "type"),
        ({"type": ["open"]}, "type"),
        ({"question": 7}, "question"),
        ({"question": "  "}, "question"),
        ({"question": "<script>x</script>"}, "question"),
        ({"description": ["x"]}, "description"),
        ({"descriptionContentType": "markdown"}, "descriptionContentType"),
        ({"optional": "yes"}, "optional"),
        ({"link": "javascript:alert(1)"}, "link"),
        ({"link": "JAVASCRIPT:alert(1)"}, "link"),
        ({"link": "data:text/html,x"}, "link"),
        ({"link": "http://x.example"}, "link"),
        ({"link": "//x.example"}, "link"),
        ({"link": "https:"}, "link"),
        ({"link": "https://[x"}, "link"),
        ({"link": "mailto:nobody"}, "link"),
        ({"link": ["https://x.example"]}, "link"),
        ({"type": "rating", "scale": "5"}, "scale"),
        ({"type": "rating", "scale": [5]}, "scale"),
        ({"type": "rating", "display": {}}, "display"),
        ({"type": "single_choice", "choices": []}, "choices"),
        ({"type": "single_choice", "choices": "ab"}, "choices"),
        ({"choices": [1]}, "choices"),
        ({"branching": []}, "branching"),
        ({"branching": {"type": "jump"}}, "branching.type"),
        ({"branching": {"type": "specific_question", "index": True}}, "branching.index"),
        ({"branching": {"type": "specific_question"}}, "branching.index"),
        (
            {"branching": {"type": "response_based", "responseValues": {"0": 2}}},
            "branching.responseValues.0",
        ),
        (
            {"branching": {"type": "response_based", "responseValues": 1}},
            "branching.responseValues",
        ),
        ({"translations": []}, "translations"),
        ({"translations": {"de": "Warum?"}}, "translations.de"),
        ({"translations": {"de": {"link": "javascript:x"}}}, "translations.de.link"),
    ],
    ids=str,
)
def test_values_that_break_sdks_are_refused_with_their_path(
    fields: dict[str, Any], attr: str
) -> None:
    with pytest.raises(Invalid) as caught:
        validate_questions([make_question(), make_question(**fields)])
    assert caught.value.attr == f"questions[1].{attr}"


def test_each_question_gets_an_id() -> None:
    first, second = validate_questions([make_question(id=None), make_question(id="")])
    assert first["id"] != second["id"]
    assert len(first["id"]) == 36
    assert validate_questions(None) == []


@pytest.mark.parametrize(
    "value",
    [
        [make_question()] * (MAX_QUESTIONS + 1),
        [make_question(more="x" * MAX_BYTES)],
        [make_question(description="x" * (MAX_HTML_CHARS + 1))],
        [make_question(translations={"de": {"description": "x" * (MAX_HTML_CHARS + 1)}})],
    ],
    ids=["questions", "bytes", "text", "translated text"],
)
def test_documents_are_bounded(value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        validate_questions(value)
    assert caught.value.code == "max_length"


@pytest.mark.parametrize(
    ("validate", "value"),
    [
        (validate_questions, "text"),
        (validate_questions, ["text"]),
        (validate_appearance, []),
        (validate_appearance, {"surveyPopupDelaySeconds": True}),
        (validate_appearance, {"thankYouMessageHeader": 7}),
        (validate_appearance, {"introScreenDescriptionContentType": "x"}),
        (validate_conditions, "text"),
        (validate_conditions, {"url": 7}),
        (validate_conditions, {"deviceTypes": "Mobile"}),
        (validate_conditions, {"seenSurveyWaitPeriodInDays": "7"}),
        (validate_conditions, {"events": []}),
        (validate_conditions, {"actions": {"values": [{"name": 7}]}}),
        (validate_translations, []),
        (validate_translations, {"de": 7}),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_other_documents_are_validated(validate: Any, value: Any) -> None:
    with pytest.raises(Invalid):
        validate(value)
    assert validate(None) in (None, [])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a < b & c", "a < b & c"),
        ("I <3 it", "I <3 it"),
        ("<b>bold</b>", "<b>bold</b>"),
        ("<script>alert(1)</script>hi", "hi"),
        ("<img src=x onerror=alert(1)>", '<img src="x">'),
        ("<svg/onload=alert(1)>", ""),
        ('<a href="java\tscript:alert(1)">x</a>', '<a rel="noopener noreferrer">x</a>'),
        ('<p style="background:url(https://x)">x</p>', '<p style="">x</p>'),
        ('<p style="position:fixed;color:red">x</p>', '<p style="color:red">x</p>'),
        ("<iframe srcdoc='<script>alert(1)</script>'></iframe>x", "x"),
        ("<form action=https://x><input></form>", ""),
    ],
)
def test_html_is_sanitized_idempotently(text: str, shown: str) -> None:
    assert clean_text(text) == shown
    assert clean_text(shown) == shown


def test_only_html_fields_are_sanitized_at_any_depth() -> None:
    evil = "<img src=x onerror=alert(1)>"
    clean = '<img src="x">'
    assert sanitize_html(
        {"choices": [evil], "other": {"description": evil}, "question": [evil]}
    ) == {
        "choices": [evil],
        "other": {"description": clean},
        "question": [evil],
    }
