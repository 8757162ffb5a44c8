import pytest

from hedgerow.errors import Invalid
from hedgerow.projects.validation import validate_text


@pytest.mark.parametrize(
    ("text", "expected"), [("ci", "ci"), ("  two words \n", "two words"), ("12345", "12345")]
)
def test_surrounding_whitespace_is_removed(text: str, expected: str) -> None:
    assert validate_text("label", text, 10) == expected


@pytest.mark.parametrize(
    ("text", "code", "detail"),
    [
        ("", "blank", "This field may not be blank."),
        (" \t\n", "blank", "This field may not be blank."),
        ("elevenchars", "max_length", "Ensure this field has no more than 10 characters."),
        ("a\x00b", "null_characters_not_allowed", "Null characters are not allowed."),
        (
            "a\udcff",
            "surrogate_characters_not_allowed",
            "Surrogate characters are not allowed: U+DCFF.",
        ),
    ],
    ids=["empty", "blanks", "too long", "NUL", "surrogate"],
)
def test_invalid_text_is_refused_with_the_messages_of_the_api(
    text: str, code: str, detail: str
) -> None:
    """On the command line, a byte that is not UTF-8 becomes a lone surrogate."""
    with pytest.raises(Invalid) as raised:
        validate_text("label", text, 10)
    error = raised.value
    assert (error.code, error.detail, error.attr) == (code, detail, "label")
