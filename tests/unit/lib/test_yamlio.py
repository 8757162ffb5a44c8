import contextlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.lib.yamlio import MAX_CHARS, MAX_DEPTH, FromEnv, YamlError, decode, encode
from tests.support.call_counter import count_calls
from tests.unit.generated import bounded

# Text that YAML reads in some way of its own, or writes in a way that is hard to read back.
ODD = st.sampled_from(
    [
        *("yes", "no", "on", "Off", "null", "~", "", " ", "=", "<<", "-", "?", ":", "*a", "&a"),
        *("1", "010", "0x1f", "1e3", "12:30", ".nan", "-.inf", "1_000", "2026-01-02"),
        *("!env X", "${X}", "%YAML", "---", "...", "--- a\n...", "# a", "a # b", "a: b", "'", '"'),
        *("\n", "\n\n", " \n", "\n ", "a\n\n  b \n", "\ta\n", "a\r\nb", "\x85\n", "\u2028\n"),
        *("\ufeff", "a\ufeff\nb", "\x00", "\x07\n", "\x7f", "🪝", "\U0010ffff", "注文", "e\u0301"),
        *("word " * 40, " " * 150, "x" * 150, "x" * 150 + "\n" + "y " * 90),
    ]
)
TEXT = ODD | st.text(st.characters(codec="utf-8"))
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,20}", fullmatch=True)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT | NAMES.map(FromEnv),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


def refusal(text: str) -> str:
    with pytest.raises(YamlError) as raised:
        decode(text)
    return str(raised.value)


@bounded
@given(VALUES)
@example({"a": "${X}", "b": "!env X", "c": FromEnv("X")})
@example({"a": "\x85\n", "\u2028\n": 1})
@example([1e16, 1e-7, -0.0, 1.7976931348623157e308, 5e-324, 2**63 - 1, -(2**63)])
def test_decoding_restores_the_value(value: Any) -> None:
    again = decode(encode(value))
    assert (again, repr(again)) == (value, repr(value))


@bounded
@given(st.text(st.characters(codec="utf-8"), max_size=40) | st.text(":-[]{}!&*<?|>%@`'\"#, \n1a"))
def test_any_text_decodes_or_raises_yaml_error(text: str) -> None:
    why = ""
    try:
        decode(text)
    except YamlError as error:
        why = str(error)
    assert "\n" not in why


def test_multi_line_text_is_a_block() -> None:
    assert encode({"code": "one\n  two\n"}) == "code: |\n  one\n    two\n"


def test_key_order_and_unicode_are_kept() -> None:
    assert encode({"b": "ü🪝", "a": ["注文"]}) == "b: ü🪝\na:\n- 注文\n"


def test_repeated_value_is_written_without_alias() -> None:
    events = ["bought"]
    assert encode({"a": events, "b": events}) == "a:\n- bought\nb:\n- bought\n"


def test_env_reference_round_trips_and_lookalike_text_is_quoted() -> None:
    assert encode({"a": FromEnv("TOKEN")}) in ("a: !env TOKEN\n", "a: !env 'TOKEN'\n")
    assert encode({"a": "!env TOKEN"}) == "a: '!env TOKEN'\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("a: 2026-01-02", {"a": "2026-01-02"}),
        ("a: 2026-01-02T03:04:05Z", {"a": "2026-01-02T03:04:05Z"}),
        ("a: ${X}", {"a": "${X}"}),
        ("a: '!env X'", {"a": "!env X"}),
        ("a: !env X", {"a": FromEnv("X")}),
        *(
            (f"a: {text}", {"a": text})
            for text in ("yes", "off", "017", "0x1f", "1:30", "1_000", ".nan", "-.inf", ".5", "+1")
        ),
        ("a: 1e3", {"a": 1000.0}),
        ("a: 9223372036854775807", {"a": 2**63 - 1}),
        ("a: -9223372036854775808", {"a": -(2**63)}),
        ("a: &one [1]\nb: *one", {"a": [1], "b": [1]}),
        ("a: &one {x: 1}\nb:\n  <<: *one\n  y: 2", {"a": {"x": 1}, "b": {"x": 1, "y": 2}}),
        ('{"a": [1, 2.5, null, true, "\\u00fc"]}', {"a": [1, 2.5, None, True, "ü"]}),
        ("\ufeffa: 1", {"a": 1}),
    ],
)
def test_plain_values_decode_literally(text: str, value: Any) -> None:
    again = decode(text)
    assert (again, repr(again)) == (value, repr(value))


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("a: 1\na: 2", "line 2, column 1", "duplicate key 'a'"),
        ("a:\n  - b: 1\n    b: 1", "line 3, column 5", "duplicate key 'b'"),
        ("1: a", "line 1, column 1", "keys must be strings: put 1 in quotes"),
        ("a: 1\ntrue: b", "line 2, column 1", "keys must be strings: put True in quotes"),
        ('a: !env "X Y"', "line 1, column 4", "!env must be followed by the name"),
        ("~: a", "line 1, column 1", "keys must be strings: put None in quotes"),
        ("? [a]\n: 1", "line 1, column 3", "keys must be strings"),
        ("a: &a [*a]", "line 1, column 4", "recursive"),
        ("a: &a {b: *a}", "line 1, column 4", "recursive"),
        ("a: *nobody", "line 1, column 4", "undefined alias 'nobody'"),
        (
            "a: !env",
            "line 1, column 4",
            "!env must be followed by the name of an environment variable",
        ),
        ("a: !env ''", "line 1, column 4", "!env must be followed by the name"),
        ("a: !env A=B", "line 1, column 4", "!env must be followed by the name"),
        ('a: !env "A\\0"', "line 1, column 4", "!env must be followed by the name"),
        ("a: !env [B]", "line 1, column 4", "!env must be followed by the name"),
        ("a: !env {B: C}", "line 1, column 4", "!env must be followed by the name"),
        ("a: !other B", "line 1, column 4", "'!other'"),
        ("a: !!python/object/apply:os.getpid []", "line 1, column 4", "python/object/apply"),
        ("a: 1\n---\nb: 2", "line 2, column 1", "another document"),
        ("a: [1", "line 1, column 6", ""),
        ("a:\n\t- b", "line 2, column 1", "'\\t'"),
    ],
)
def test_error_names_position_and_reason(text: str, where: str, why: str) -> None:
    message = refusal(text)
    assert message.startswith(f"{where}: ")
    assert why in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: !!float .nan", "nan is not a finite"),
        ("a: [1e999]", "inf is not a finite"),
        ("a: 1.0e+999", "inf is not a finite"),
        (f"a: {2**63}", f"{2**63} is too large for an integer: put it in quotes"),
        (f"a: {-(2**63) - 1}", "too large"),
        ("a: !!binary aGk=", "a bytes is not a plain value"),
        ("a: !!set {b}", "a set is not a plain value"),
        ("a: !!timestamp 2026-01-02", "a date is not a plain value"),
        ("a: \x00", "#x0000"),
        ("a: \ud800", "#xd800"),
    ],
)
def test_non_json_values_are_refused(text: str, why: str) -> None:
    assert why in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "9" * 5000,
        "a: !!int 0x" + "f" * 5000,
        "a: !!int 0x_",
        "a: !!int 0b_",
        "a: !!int foo",
        "a: !!int ''",
        "a: !!float foo",
        "a: !!bool maybe",
        "a: !!timestamp soon",
        'a: "\\UFFFFFFFF"',
    ],
    ids=lambda text: text[:20],
)
def test_scalar_that_does_not_match_its_tag_is_refused(text: str) -> None:
    assert "\n" not in refusal(text)


def test_key_may_override_a_merged_one() -> None:
    text = "a: &one {x: 1, y: 1}\nb:\n  <<: *one\n  x: 2"
    assert decode(text)["b"] == {"x": 2, "y": 1}


def test_nested_aliases_are_bounded() -> None:
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 5)}]" for n in range(1, 10)]

    def read() -> None:
        with contextlib.suppress(YamlError):
            decode("\n".join(lines))

    assert count_calls(read) < 1_000_000  # instead of five million


def test_depth_and_length_are_bounded() -> None:
    assert decode("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
    assert "deep" in refusal("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
    assert "deep" in refusal("[" * 1_000 + "]" * 1_000)
    assert refusal("#" * (MAX_CHARS + 1)) == "more than 10,000,000 characters"
