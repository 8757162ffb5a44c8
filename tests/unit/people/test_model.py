import pytest

from hedgerow.errors import Invalid
from hedgerow.people.model import build_url, parse_email


def test_email_is_stored_in_lower_case() -> None:
    assert parse_email(" Ann.B+x@Example.COM ") == "ann.b+x@example.com"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ann",
        "@example.com",
        "ann@",
        "a b@example.com",
        "a@b@c.com",
        "a<b@x.com",
        "a\x00@x.com",
        "a@x.com\n",
        "\ta@x.com",
        "a@x.com\u200b",
        "a@x\r\n.com",
    ],
)
def test_other_text_is_no_email(text: str) -> None:
    with pytest.raises(Invalid):
        parse_email(text)


def test_long_email_is_refused() -> None:
    with pytest.raises(Invalid):
        parse_email("a" * 250 + "@example.com")


def test_token_of_a_link_is_in_the_fragment() -> None:
    assert build_url("https://x.example", "invite", "hgi_1") == "https://x.example/#invite=hgi_1"
