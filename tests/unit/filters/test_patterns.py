from contextlib import suppress
from time import perf_counter

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.filters.patterns import PATTERN_MAX, BadPattern, compile_search
from tests.unit.generated import bounded

# Far above the expected time, far below that of a catastrophic pattern.
TIME_LIMIT_S = 60


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("B", "abc", False),
        ("(?i)B", "abc", True),
        ("a.c", "a\nc", False),
        ("(?s)a.c", "a\nc", True),
        ("c$", "abc\n", False),
        ("(?m)^c$", "ab\nc\nd", True),
        ("", "", True),
        ("^$", "", True),
        ("", "abc", True),
        (r"^[\w.+-]+@example\.com$", "ann@example.com", True),
        (r"^[\w.+-]+@example\.com$", "ann@example.org", False),
        (r"\d{3}", "a12b", False),
        (r"^\pL+$", "Größe", True),
        ("straße", "Hauptstraße 1", True),
        ("(?i)ÀÉ", "xàéx", True),
        ("👩‍🚀", "an 👩‍🚀 flies", True),
        ("a\0b", "xa\0bx", True),
    ],
)
def test_pattern_is_searched_anywhere_case_sensitively(
    pattern: str, text: str, found: bool
) -> None:
    assert compile_search(pattern)(text) is found


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"foo(?=bar)", "foobar", True),
        (r"foo(?=bar)", "foobaz", False),
        (r"foo(?!bar)", "foobaz", True),
        (r"foo(?!bar)", "foobar", False),
        (r"(?<=\$)\d+", "cost $5", True),
        (r"(?<=\$)\d+", "cost 5", False),
        (r"(?<!a)b", "cb", True),
        (r"(?<!a)b", "ab", False),
        (r"^(?!.*@example\.com$).*$", "a@example.org", True),
        (r"^(?!.*@example\.com$).*$", "a@example.com", False),
        (r"(ab)\1", "abab", True),
        (r"(ab)\1", "abba", False),
        (r"(?>a+)b", "aab", True),
        (r"(?=B)b", "b", False),
    ],
)
def test_lookaround_and_back_references_are_supported(pattern: str, text: str, found: bool) -> None:
    assert compile_search(pattern)(text) is found


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^\w+$", "Größe"),
        (r"^\w+$", "имя"),
        (r"^\d+$", "٣٤"),
        (r"\s", "a\u00a0b"),
        (r"\bé", "un é"),
        (r"^\w+(?=!)", "Größe!"),
    ],
)
def test_character_classes_include_unicode(pattern: str, text: str) -> None:
    """As in Rust's regular expressions, which PostHog evaluates flags with."""
    assert compile_search(pattern)(text)


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[", "[b-a]", "*", "a**", "(?P<n", "(?P<>a)", r"\1", "(?&x)", "a{2,1}"]
)
def test_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compile_search(pattern)


def test_pattern_length_is_limited() -> None:
    assert compile_search("x" * PATTERN_MAX)("x") is False
    with pytest.raises(BadPattern):
        compile_search("x" * (PATTERN_MAX + 1))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 100_000 + "b"),
        ("(a|aa)+$", "a" * 100_000 + "b"),
        ("(x+x+)+y", "x" * 100_000),
        ("(.*)*(.*)*=", "a" * 50_000),
        (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 100_000),
        (r"(a+)+(?!c)$", "a" * 5_000 + "b"),
        (r"(?=a)(a|a)+(?!a)$", "a" * 5_000 + "b"),
        (r"(a*)*\1$", "a" * 5_000 + "b"),
        (r"(?<!x)(.+)+(.+)+\1y", "a" * 5_000),
        ("(?R)", "a"),
    ],
)
def test_catastrophic_pattern_times_out_without_a_match(pattern: str, text: str) -> None:
    search = compile_search(pattern)
    started = perf_counter()
    assert not search(text)
    assert perf_counter() - started < TIME_LIMIT_S


@pytest.mark.parametrize(
    "pattern", ["((a{100}){100}){100}(?=b)", "((a{100}){100}){100}", "(?:(?=a)a{1000}){1000}"]
)
def test_pattern_with_huge_repetitions_uses_bounded_time_and_memory(
    pattern: str,
) -> None:
    """Each further level costs a hundred times more; a few exhaust the memory."""
    started = perf_counter()
    with suppress(BadPattern):
        compile_search(pattern)("aaa")
    assert perf_counter() - started < TIME_LIMIT_S


@pytest.mark.parametrize("depth", [100, 1_000, 4_000])
def test_deeply_nested_pattern_is_compiled_or_refused(depth: int) -> None:
    for pattern in ("(" * depth + "a" + ")" * depth, "(?=" * depth + "a" + ")" * depth):
        try:
            assert compile_search(pattern)("a")
        except BadPattern:
            continue


@pytest.mark.parametrize("text", ["\ud800", "x\udfffy"])
def test_lone_surrogate_in_the_text_does_not_raise(text: str) -> None:
    assert compile_search("^nothing$")(text) in (False, None)
    assert compile_search("(?=nothing)n")(text) in (False, None)


def test_lone_surrogate_in_the_pattern_does_not_raise() -> None:
    search = compile_search("a\ud800")
    assert search("plain") is False
    assert search("") is False


@given(st.text(alphabet="ab(|)[]{}*+?^$\\.,12<>=!:PidwbB-&~", max_size=24), st.text(max_size=24))
@bounded
def test_any_pattern_is_refused_or_searched(pattern: str, text: str) -> None:
    try:
        search = compile_search(pattern)
    except BadPattern:
        return
    assert search(text) in (True, False)


@given(
    st.text(alphabet="ab.-@_/ \\^$", max_size=6),
    st.text(alphabet="ab.-@_/ \\^$\n", max_size=8),
)
@bounded
def test_plain_text_search_agrees_with_the_engine(pattern: str, text: str) -> None:
    try:
        search = compile_search(pattern)
    except BadPattern:
        return
    found = re2.Set.SearchSet()
    found.Add(pattern)
    found.Compile()
    assert search(text) == bool(found.Match(text))


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"@example\.com$", "ann@example.com", True),
        (r"@example\.com$", "ann@example.com\n", False),
        (r"@example\.com$", "ann@exampleXcom", False),
        (r"^ann", "ann@example.com", True),
        (r"^ann", "joann", False),
        (r"^ann$", "ann", True),
        (r"a\\b", "a\\b", True),
        (r"a\$", "a$", True),
        ("", "anything", True),
        ("^$", "", True),
        ("Ann", "ann", False),
    ],
)
def test_plain_text_is_searched_without_an_engine(pattern: str, text: str, found: bool) -> None:
    assert compile_search(pattern)(text) is found


def test_compiled_patterns_are_cached() -> None:
    assert compile_search("once") is compile_search("once")


@pytest.mark.parametrize(
    "pattern",
    [r"^[\w.]{1,64}@[\w.]{1,253}$", r"^\d{1,50}-\d{1,50}$", r"(?=a)(?:a{1,60}-){1,60}"],
)
def test_consecutive_repetitions_are_added(pattern: str) -> None:
    compile_search(pattern)


@pytest.mark.parametrize(
    "pattern", ["^" + ".{0,1000}" * 20 + "$", "(?:[ab]{900}c){12}", "(?=a)(?:(?:a{90}){90}){9}"]
)
def test_vast_pattern_is_refused_immediately(pattern: str) -> None:
    began = perf_counter()
    with pytest.raises(BadPattern):
        compile_search(pattern)
    assert perf_counter() - began < TIME_LIMIT_S


def test_large_pattern_limits_the_text_length() -> None:
    search = compile_search("a.{500}c")
    assert search("a" * 10_000) is None
    assert compile_search("c$")("a" * 9_999 + "c") is True


def test_end_anchor_is_the_same_in_both_engines() -> None:
    assert compile_search(r"\w$")("e\n") is False
    assert compile_search(r"\w$")("é\n") is False
    assert compile_search(r"(?m)\w$")("é\nb") is True
    assert compile_search(r"(?<=\w)[$]$")("é$") is True
