import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid, TooLarge
from hedgerow.ingestion.storable import MAX_EVENT_BYTES, storable
from hedgerow.lib.jsonio import decode, encode
from hedgerow.lib.text import storable_text, why_unstorable
from tests.unit.generated import JSON, bounded
from tests.unit.ingestion.requests import HOSTILE_TEXTS


def nested(pairs: int) -> Any:
    value: Any = 1
    for _ in range(pairs):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_text_is_stored_as_it_is_where_that_is_possible(text: str) -> None:
    stored = storable_text(text)
    assert why_unstorable(stored) is None
    assert len(stored) == len(text)
    assert (stored == text) == (why_unstorable(text) is None)


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_an_event_is_mended_wherever_it_needs_to_be(text: str) -> None:
    event = {"event": text, text: [{text: text}, [text, 1, None]]}
    mended = storable_text(text)
    assert storable(event) == {"event": mended, mended: [{mended: mended}, [mended, 1, None]]}


def test_a_good_event_is_not_copied() -> None:
    event = {"properties": nested(40)}
    assert storable(event) is event


def test_what_was_sent_is_left_alone() -> None:
    event = {"properties": {"a": ["\x00"]}}
    storable(event)
    assert event == {"properties": {"a": ["\x00"]}}


@pytest.mark.parametrize("bad", ["", "\ud800"])
def test_an_event_has_at_most_a_million_bytes(bad: str) -> None:
    frame = len(encode({"a": storable_text(bad)}))
    assert storable({"a": bad + "x" * (MAX_EVENT_BYTES - frame)})
    with pytest.raises(TooLarge) as caught:
        storable({"a": bad + "x" * (MAX_EVENT_BYTES - frame + 1)})
    assert caught.value.code == "event_too_large"


def test_a_character_counts_by_its_bytes() -> None:
    with pytest.raises(TooLarge):
        storable({"a": "ä" * 500_000})


@pytest.mark.parametrize("bad", ["", "\x00", "\ud800"])
def test_a_hundred_levels_are_taken(bad: str) -> None:
    assert storable({"a": bad, "b": [nested(49)]})["b"] == [nested(49)]
    for pairs in (50, sys.getrecursionlimit()):
        with pytest.raises(Invalid) as caught:
            storable({"a": bad, "b": nested(pairs)})
        assert caught.value.code == "event_too_deep"


def test_what_is_broad_is_not_deep() -> None:
    broad = {"a": [[1]] * 200, "b": "[{" * 200}
    assert storable(broad) is broad


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400, 1e308, 5e-324])
def test_numbers_of_any_size_are_kept(number: Any) -> None:
    assert storable({"a": number}) == {"a": number}


def test_a_number_that_nobody_writes_down_is_null() -> None:
    assert storable({"a": 10**5000, "b": [-(10**5000), 1]}) == {"a": None, "b": [None, 1]}


@bounded
@given(st.dictionaries(st.text(st.characters()), JSON))
def test_whatever_is_stored_can_be_written_and_read(event: dict[str, Any]) -> None:
    stored = storable(event)
    written = encode(stored)
    assert b"\\u0000" not in written.replace(b"\\\\", b"")
    assert encode(decode(written)) == written
