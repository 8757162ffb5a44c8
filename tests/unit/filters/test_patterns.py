from contextlib import suppress
from time import perf_counter

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.filters.patterns import PATTERN_MAX, BadPattern, searcher
from tests.unit.generated import bounded

# Far above what is meant to pass, far below what would be felt.
SOON_S = 60


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
        (r"^[\w.+-]+@example\.com$", "somebody@example.com", True),
        (r"^[\w.+-]+@example\.com$", "somebody@example.org", False),
        (r"\d{3}", "a12b", False),
        (r"^\pL+$", "Größe", True),
        ("straße", "Hauptstraße 1", True),
        ("(?i)ÀÉ", "xàéx", True),
        ("👩‍🚀", "an 👩‍🚀 flies", True),
        ("a\0b", "xa\0bx", True),
    ],
)
def test_a_pattern_is_found_anywhere_and_case_counts(pattern: str, text: str, found: bool) -> None:
    assert searcher(pattern)(text) is found


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
def test_look_around_and_back_references_work(pattern: str, text: str, found: bool) -> None:
    assert searcher(pattern)(text) is found


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
def test_word_digit_and_space_mean_all_of_unicode(pattern: str, text: str) -> None:
    """As in Rust's regular expressions, which flags are evaluated with elsewhere."""
    assert searcher(pattern)(text)


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[", "[b-a]", "*", "a**", "(?P<n", "(?P<>a)", r"\1", "(?&x)", "a{2,1}"]
)
def test_a_pattern_that_no_engine_reads_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        searcher(pattern)


def test_the_longest_pattern_is_read_and_a_longer_one_refused() -> None:
    assert searcher("x" * PATTERN_MAX)("x") is False
    with pytest.raises(BadPattern):
        searcher("x" * (PATTERN_MAX + 1))


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
def test_a_catastrophic_pattern_gives_up_soon_and_matches_nothing(pattern: str, text: str) -> None:
    search = searcher(pattern)
    started = perf_counter()
    assert not search(text)
    assert perf_counter() - started < SOON_S


@pytest.mark.parametrize(
    "pattern", ["((a{100}){100}){100}(?=b)", "((a{100}){100}){100}", "(?:(?=a)a{1000}){1000}"]
)
def test_a_pattern_that_stands_for_a_million_characters_costs_neither_time_nor_memory(
    pattern: str,
) -> None:
    """Each further level costs a hundred times more; a few of them take all memory there is."""
    started = perf_counter()
    with suppress(BadPattern):
        searcher(pattern)("aaa")
    assert perf_counter() - started < SOON_S


@pytest.mark.parametrize("depth", [100, 1_000, 4_000])
def test_a_deeply_nested_pattern_is_read_or_refused(depth: int) -> None:
    for pattern in ("(" * depth + "a" + ")" * depth, "(?=" * depth + "a" + ")" * depth):
        try:
            assert searcher(pattern)("a")
        except BadPattern:
            continue


@pytest.mark.parametrize("text", ["\ud800", "x\udfffy"])
def test_half_a_character_in_the_text_is_survived(text: str) -> None:
    assert searcher("^nothing$")(text) in (False, None)
    assert searcher("(?=nothing)n")(text) in (False, None)


def test_half_a_character_in_the_pattern_is_survived() -> None:
    search = searcher("a\ud800")
    assert search("plain") is False
    assert search("") is False


@given(st.text(alphabet="ab(|)[]{}*+?^$\\.,12<>=!:PidwbB-&~", max_size=24), st.text(max_size=24))
@bounded
def test_any_pattern_is_refused_or_answers(pattern: str, text: str) -> None:
    try:
        search = searcher(pattern)
    except BadPattern:
        return
    assert search(text) in (True, False)


@given(
    st.text(alphabet="ab.-@_/ \\^$", max_size=6),
    st.text(alphabet="ab.-@_/ \\^$\n", max_size=8),
)
@bounded
def test_plain_text_is_found_as_an_engine_finds_it(pattern: str, text: str) -> None:
    try:
        search = searcher(pattern)
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
def test_text_as_it_stands_needs_no_engine(pattern: str, text: str, found: bool) -> None:
    assert searcher(pattern)(text) is found


def test_the_same_pattern_is_made_once() -> None:
    assert searcher("once") is searcher("once")


@pytest.mark.parametrize(
    "pattern",
    [r"^[\w.]{1,64}@[\w.]{1,253}$", r"^\d{1,50}-\d{1,50}$", r"(?=a)(?:a{1,60}-){1,60}"],
)
def test_repeats_beside_each_other_do_not_multiply(pattern: str) -> None:
    searcher(pattern)


@pytest.mark.parametrize(
    "pattern", ["^" + ".{0,1000}" * 20 + "$", "(?:[ab]{900}c){12}", "(?=a)(?:(?:a{90}){90}){9}"]
)
def test_a_vast_pattern_is_refused_at_once(pattern: str) -> None:
    began = perf_counter()
    with pytest.raises(BadPattern):
        searcher(pattern)
    assert perf_counter() - began < SOON_S


def test_the_larger_a_pattern_the_shorter_the_texts_it_searches() -> None:
    search = searcher("a.{500}c")
    assert search("a" * 10_000) is None
    assert searcher("c$")("a" * 9_999 + "c") is True


def test_an_end_is_the_end_whichever_engine_searches() -> None:
    assert searcher(r"\w$")("e\n") is False
    assert searcher(r"\w$")("é\n") is False
    assert searcher(r"(?m)\w$")("é\nb") is True
    assert searcher(r"(?<=\w)[$]$")("é$") is True
