"""Escapes are decoded, and every character is found again in the original."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.pipelines.escapes import decode_escapes
from tests.unit.generated import bounded


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("plain", "plain"),
        ("a%2Fb%252fc", "a/b/c"),
        ("%C3%A4", "ä"),
        (r"\u00e4\\u00e4", "ää"),
        (r"\ud83d\ude00", "😀"),
        (r"\xe4", "ä"),
        (r"\"a\/b\\\"", '"a/b"'),
        (r"a\nb", "a\nb"),
        ("&lt;&#60;&#x3C;&amp;lt;", "<<<<"),
        ("cut%2", "cut"),
        (r"cut\u00", "cut"),
    ],
)
def test_escapes_are_decoded(text: str, decoded: str) -> None:
    assert decode_escapes(text).text == decoded


@given(st.lists(st.sampled_from(["a", "%41", r"\u0041", "&#65;", "\\", "%", "&", "😀"])))
@bounded
def test_every_character_has_its_place(parts: list[str]) -> None:
    text = "".join(parts)
    decoded = decode_escapes(text)
    spans = [decoded.locate(at, at + 1) for at in range(len(decoded.text))]
    assert spans == sorted(spans)
    assert all(0 <= start < end <= len(text) for start, end in spans)
