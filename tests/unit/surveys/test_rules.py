"""What the documents of a survey may hold."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.surveys.html import cleaned, harmless
from hedgerow.surveys.rules import (
    HTML_MAX,
    MAX_BYTES,
    MAX_QUESTIONS,
    checked_appearance,
    checked_conditions,
    checked_questions,
    checked_translations,
)


def a_question(**fields: Any) -> dict[str, Any]:
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
        {"of a newer version": [{"kept": None}]},
    ],
    ids=str,
)
def test_what_sdks_understand_or_may_come_to_is_kept_as_it_is(fields: dict[str, Any]) -> None:
    question = a_question(**fields)
    assert checked_questions([question]) == [question]


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
def test_what_sdks_would_stumble_over_is_refused_with_its_place(
    fields: dict[str, Any], attr: str
) -> None:
    with pytest.raises(Invalid) as refused:
        checked_questions([a_question(), a_question(**fields)])
    assert refused.value.attr == f"questions[1].{attr}"


def test_each_question_gets_an_id_of_its_own() -> None:
    first, second = checked_questions([a_question(id=None), a_question(id="")])
    assert first["id"] != second["id"]
    assert len(first["id"]) == 36
    assert checked_questions(None) == []


@pytest.mark.parametrize(
    "value",
    [
        [a_question()] * (MAX_QUESTIONS + 1),
        [a_question(more="x" * MAX_BYTES)],
        [a_question(description="x" * (HTML_MAX + 1))],
        [a_question(translations={"de": {"description": "x" * (HTML_MAX + 1)}})],
    ],
    ids=["questions", "bytes", "text", "translated text"],
)
def test_documents_are_bounded(value: Any) -> None:
    with pytest.raises(Invalid) as refused:
        checked_questions(value)
    assert refused.value.code == "max_length"


@pytest.mark.parametrize(
    ("checked", "value"),
    [
        (checked_questions, "text"),
        (checked_questions, ["text"]),
        (checked_appearance, []),
        (checked_appearance, {"surveyPopupDelaySeconds": True}),
        (checked_appearance, {"thankYouMessageHeader": 7}),
        (checked_appearance, {"introScreenDescriptionContentType": "x"}),
        (checked_conditions, "text"),
        (checked_conditions, {"url": 7}),
        (checked_conditions, {"deviceTypes": "Mobile"}),
        (checked_conditions, {"seenSurveyWaitPeriodInDays": "7"}),
        (checked_conditions, {"events": []}),
        (checked_conditions, {"actions": {"values": [{"name": 7}]}}),
        (checked_translations, []),
        (checked_translations, {"de": 7}),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_other_documents_are_checked_as_well(checked: Any, value: Any) -> None:
    with pytest.raises(Invalid):
        checked(value)
    assert checked(None) in (None, [])


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
def test_html_is_made_harmless_once_and_for_all(text: str, shown: str) -> None:
    assert cleaned(text) == shown
    assert cleaned(shown) == shown


def test_only_what_is_shown_as_html_is_touched_at_whatever_depth() -> None:
    evil = "<img src=x onerror=alert(1)>"
    clean = '<img src="x">'
    assert harmless({"choices": [evil], "other": {"description": evil}, "question": [evil]}) == {
        "choices": [evil],
        "other": {"description": clean},
        "question": [evil],
    }
