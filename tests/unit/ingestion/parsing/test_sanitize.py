import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid, TooLarge
from hedgerow.ingestion.parsing.event import MAX_EVENT_BYTES, sanitize_event
from hedgerow.lib.jsonio import decode, encode
from hedgerow.lib.text import explain_unstorable, replace_unstorable_characters
from tests.unit.generated import JSON, bounded
from tests.unit.ingestion.parsing.requests import HOSTILE_TEXTS


def nested(pairs: int) -> Any:
    value: Any = 1
    for _ in range(pairs):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_storable_text_is_unchanged(text: str) -> None:
    stored = replace_unstorable_characters(text)
    assert explain_unstorable(stored) is None
    assert len(stored) == len(text)
    assert (stored == text) == (explain_unstorable(text) is None)


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_unstorable_characters_are_replaced_everywhere(text: str) -> None:
    event = {"event": text, text: [{text: text}, [text, 1, None]]}
    sanitized = replace_unstorable_characters(text)
    assert sanitize_event(event) == {
        "event": sanitized,
        sanitized: [{sanitized: sanitized}, [sanitized, 1, None]],
    }


def test_storable_event_is_not_copied() -> None:
    event = {"properties": nested(40)}
    assert sanitize_event(event) is event


def test_input_is_not_mutated() -> None:
    event = {"properties": {"a": ["\x00"]}}
    sanitize_event(event)
    assert event == {"properties": {"a": ["\x00"]}}


@pytest.mark.parametrize("bad", ["", "\ud800"])
def test_event_size_is_limited(bad: str) -> None:
    frame = len(encode({"a": replace_unstorable_characters(bad)}))
    assert sanitize_event({"a": bad + "x" * (MAX_EVENT_BYTES - frame)})
    with pytest.raises(TooLarge) as caught:
        sanitize_event({"a": bad + "x" * (MAX_EVENT_BYTES - frame + 1)})
    assert caught.value.code == "event_too_large"


def test_size_is_measured_in_bytes() -> None:
    with pytest.raises(TooLarge):
        sanitize_event({"a": "ä" * 500_000})


@pytest.mark.parametrize("bad", ["", "\x00", "\ud800"])
def test_nesting_is_limited_to_a_hundred_levels(bad: str) -> None:
    assert sanitize_event({"a": bad, "b": [nested(49)]})["b"] == [nested(49)]
    for pairs in (50, sys.getrecursionlimit()):
        with pytest.raises(Invalid) as caught:
            sanitize_event({"a": bad, "b": nested(pairs)})
        assert caught.value.code == "event_too_deep"


def test_wide_values_are_not_deep() -> None:
    broad = {"a": [[1]] * 200, "b": "[{" * 200}
    assert sanitize_event(broad) is broad


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400, 1e308, 5e-324])
def test_large_and_small_numbers_are_kept(number: Any) -> None:
    assert sanitize_event({"a": number}) == {"a": number}


def test_huge_number_becomes_null() -> None:
    assert sanitize_event({"a": 10**5000, "b": [-(10**5000), 1]}) == {"a": None, "b": [None, 1]}


@bounded
@given(st.dictionaries(st.text(st.characters()), JSON))
def test_any_sanitized_event_round_trips(event: dict[str, Any]) -> None:
    stored = sanitize_event(event)
    written = encode(stored)
    assert b"\\u0000" not in written.replace(b"\\\\", b"")
    assert encode(decode(written)) == written
