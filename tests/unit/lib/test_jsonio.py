import contextlib
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.lib import jsonio
from hedgerow.lib.jsonio import MAX_DEPTH, JsonError, encode, parse
from tests.unit.generated import bounded

# Text as far as UTF-8 can carry it.
TEXT = st.text(st.characters(codec="utf-8"))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


def refusal(data: bytes) -> str:
    with pytest.raises(JsonError) as raised:
        parse(data)
    return str(raised.value)


def nested(depth: int) -> bytes:
    """Return alternating lists and objects, nested to `depth`."""
    opening = [b"[" if level % 2 else b'{"a":' for level in range(depth - 1)]
    closing = [b"]" if level % 2 else b"}" for level in range(depth - 1)]
    return b"".join(opening) + b"[]" + b"".join(reversed(closing))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"nul", "Expecting value: line 1 column 1 (char 0)"),
        (b'{"a":', "Expecting value: line 1 column 6 (char 5)"),
        (b"{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"[1]\n2", "Extra data: line 2 column 1 (char 4)"),
        (b'"a\nb"', "Invalid control character at: line 1 column 3 (char 2)"),
        (b"[NaN]", "NaN is not a JSON number"),
        (b"Infinity", "Infinity is not a JSON number"),
        (b'{"a": -Infinity}', "-Infinity is not a JSON number"),
        (b"\xff", "invalid UTF-8 at byte 0"),
        (b'{"a": "\xc3"}', "invalid UTF-8 at byte 7"),
    ],
)
def test_error_names_the_problem_and_its_position(data: bytes, message: str) -> None:
    assert refusal(data) == f"JSON parse error - {message}"


def test_byte_order_mark_is_accepted() -> None:
    assert parse(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


def test_integer_of_5000_digits_is_refused_without_python_details() -> None:
    message = refusal(b"9" * 5000)
    assert message.startswith("JSON parse error - ")
    assert "sys." not in message


def test_number_beyond_float_range_is_refused() -> None:
    """Infinity cannot be sent or stored, in any notation."""
    assert refusal(b'{"a": 1e999}').startswith("JSON parse error - ")


@pytest.mark.parametrize("depth", [1, 2, MAX_DEPTH - 1, MAX_DEPTH])
def test_nesting_up_to_the_limit_is_accepted(depth: int) -> None:
    assert parse(nested(depth)) == json.loads(nested(depth))


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, MAX_DEPTH + 2, 500])
def test_nesting_beyond_the_limit_is_refused(depth: int) -> None:
    assert refusal(nested(depth)) == "JSON parse error - nested deeper than 100 levels"


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 10**5 + b"]" * 10**5])
def test_endless_brackets_are_refused_as_too_deep(data: bytes) -> None:
    assert refusal(data) == "JSON parse error - nested deeper than 100 levels"


@bounded
@given(st.binary() | TEXT.map(str.encode) | VALUES.map(lambda value: json.dumps(value).encode()))
@example(b"\xef\xbb\xbf")
@example(b'"\\ud800"')
@example(b"1e999")
@example(b"-" + b"1" * 4301)
def test_parsing_any_bytes_gives_a_value_or_json_error(data: bytes) -> None:
    with contextlib.suppress(JsonError):
        json.dumps(parse(data))
        return
    assert refusal(data).startswith("JSON parse error - ")


@bounded
@given(VALUES)
def test_parsing_restores_any_json_value(value: Any) -> None:
    assert parse(json.dumps(value).encode()) == value


@pytest.mark.parametrize("value", [{"b": 1, "a": [True, None, "ü", 1.5]}, [], "", 0])
def test_encoding_is_compact_utf8_in_key_order(value: Any) -> None:
    assert encode(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        (1, True, False),
        (1, 1.0, False),
        (0, False, False),
        ({"a": [1]}, {"a": [True]}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("1", 1, False),
        (None, None, True),
    ],
)
def test_equality_follows_json(one: object, other: object, are_same: bool) -> None:
    assert jsonio.is_equal(one, other) is are_same
