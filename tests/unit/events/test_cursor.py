"""Cursors are read as they are written, and nothing else is."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import Invalid
from hedgerow.events.cursor import Cursor, read_cursor
from tests.unit.generated import bounded

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.integers(-(10**15), 10**16).map(lambda us: EPOCH + timedelta(microseconds=us))


@given(moments, st.uuids())
@bounded
def test_a_cursor_comes_back_to_the_microsecond(moment: datetime, uuid: UUID) -> None:
    cursor = Cursor(timestamp=moment, uuid=uuid)
    assert read_cursor(cursor.text()) == cursor


@pytest.mark.parametrize(
    "text",
    ["", "1", "1_", "x_0199aaaa-0000-7000-8000-000000000001", "1_" + "-" * 36, "٣_" + "0" * 36],
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_cursor(text)
    assert refused.value.attr == "cursor"


def test_a_cursor_beyond_time_is_refused() -> None:
    with pytest.raises(Invalid):
        read_cursor("99999999999999999_0199aaaa-0000-7000-8000-000000000001")
