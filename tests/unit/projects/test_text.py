import pytest

from hedgerow.errors import Invalid
from hedgerow.projects.text import checked_text


@pytest.mark.parametrize(
    ("given", "kept"), [("ci", "ci"), ("  two words \n", "two words"), ("12345", "12345")]
)
def test_a_name_is_kept_without_blanks_around_it(given: str, kept: str) -> None:
    assert checked_text("label", given, 10) == kept


@pytest.mark.parametrize(
    ("given", "code", "detail"),
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
def test_a_name_that_cannot_be_one_is_refused_in_the_words_of_the_api(
    given: str, code: str, detail: str
) -> None:
    """A byte at the terminal that is no UTF-8 comes in as a lone surrogate."""
    with pytest.raises(Invalid) as raised:
        checked_text("label", given, 10)
    error = raised.value
    assert (error.code, error.detail, error.attr) == (code, detail, "label")
