"""Secrets in texts of others: whole, encoded, as parts, and cut at the end."""

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.pipelines.config import MASK
from hedgerow.pipelines.secret_mask import SecretMask
from tests.unit.generated import bounded

SECRET = 's3cret/+&"pä ss'
PREFIXES = ("", "u:", "me:", "user:")


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        json.dumps(SECRET)[1:-1].replace("/", "\\/"),
        repr(SECRET)[1:-1],
        html.escape(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET),
        quote_plus(SECRET),
        quote(SECRET, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
        quote(quote(SECRET, safe="")),
        json.dumps(json.dumps(SECRET))[3:-3],
        html.escape(html.escape(SECRET)),
        # How Go and .NET write JSON.
        SECRET.replace('"', "\\u0022").replace("&", "\\u0026").replace("+", "\\u002B"),
        "".join(f"\\u{ord(each):04x}" for each in SECRET),
        "".join(f"&#{ord(each)};" for each in SECRET),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        SECRET.upper(),
    ],
)
def test_secret_is_masked_in_every_form(form: str) -> None:
    masked = SecretMask([SECRET]).apply(f"Got <{form}> and again {form}.")
    assert masked == f"Got <{MASK}> and again {MASK}."


@given(
    secret=st.text(st.characters(codec="utf-8"), min_size=8, max_size=40),
    before=st.sampled_from(PREFIXES),
    after=st.sampled_from(["", "x", "xy"]),
)
@bounded
def test_secret_is_masked_inside_base64(secret: str, before: str, after: str) -> None:
    encoded = base64.b64encode((before + secret + after).encode()).decode()
    masked = SecretMask([secret]).apply(encoded)
    assert MASK in masked
    # At most the first and the last character of the secret can be guessed from the rest.
    assert len(masked.replace(MASK, "")) <= len(base64.b64encode((before + after).encode())) + 5


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("postgresql://u:pass%20word@h/d", 'password "pass word" is wrong'),
        ("postgresql://u:pass@h/d", "pass is wrong"),
        ("Bearer abcdefgh-123", "no such token: abcdefgh-123"),
        ("Token open1", "no such token: open1"),
        ("session=abcdefgh; theme=dark", "unknown session abcdefgh"),
        ("Basic " + base64.b64encode(b"joe:open").decode(), "joe:open is wrong"),
        ("https://hooks.example/services/T0/B0/XXXXYYYY", "no service /services/T0/B0/XXXXYYYY"),
        ("https://hooks.example/x?token=abcdefgh", "token abcdefgh"),
    ],
)
def test_part_of_a_secret_is_masked(secret: str, text: str) -> None:
    masked = SecretMask([secret]).apply(text)
    assert MASK in masked
    assert not any(part in masked for part in ("pass ", "pass word", "abcdefgh", "open", "XXXX"))


def test_beginning_of_a_secret_at_the_end_of_a_text_is_masked() -> None:
    mask = SecretMask(["abcdefghijklmnop"])
    assert mask.apply("token abcdefghij") == f"token {MASK}"
    assert mask.cut("token abcdefghijklmnop!", 10) == f"token {MASK}"[:10]


def test_escaped_secret_that_is_cut_is_masked() -> None:
    mask = SecretMask(["a/b/c/d/e/f/g/h"])
    assert mask.apply("token a%2Fb%2Fc%2Fd%2Fe%2") == f"token {MASK}%2"
    assert mask.apply("token a\\u002fb\\u002fc\\u002fd\\u00") == f"token {MASK}\\u00"


def test_secret_after_the_beginning_of_an_escape_is_masked() -> None:
    assert SecretMask(["abcdef"]).apply("100%abcdef") == f"100%{MASK}"
    assert SecretMask(["nabcdef"]).apply("\\nabcdef") == f"\\{MASK}"


def test_short_and_other_texts_stay() -> None:
    assert SecretMask(["abc", ""]).apply("abc abcdef") == "abc abcdef"
    assert SecretMask().apply("text") == "text"


def test_error_with_a_secret_is_replaced() -> None:
    mask = SecretMask(["abcdefgh"])
    harmless = ValueError("other")
    assert mask.apply_to_error(harmless) is harmless
    masked = mask.apply_to_error(ValueError("no: abcdefgh"))
    assert "abcdefgh" not in str(masked)
    assert "ValueError" in str(masked)
