"""Encoding and parsing of cursors."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.events.listing.cursor import EventCursor, parse_cursor
from tests.unit.generated import bounded

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.integers(-(10**15), 10**16).map(lambda us: EPOCH + timedelta(microseconds=us))


@given(moments, st.uuids())
@bounded
def test_cursor_round_trips_to_the_microsecond(moment: datetime, uuid: UUID) -> None:
    cursor = EventCursor(timestamp=moment, uuid=uuid)
    assert parse_cursor(cursor.encode()) == cursor


@pytest.mark.parametrize(
    "text",
    ["", "1", "1_", "x_0199aaaa-0000-7000-8000-000000000001", "1_" + "-" * 36, "٣_" + "0" * 36],
)
def test_invalid_cursors_are_refused(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_cursor(text)
    assert caught.value.attr == "cursor"


def test_cursor_out_of_range_is_refused() -> None:
    with pytest.raises(Invalid):
        parse_cursor("99999999999999999_0199aaaa-0000-7000-8000-000000000001")
