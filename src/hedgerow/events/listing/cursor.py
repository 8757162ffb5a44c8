"""The cursor of a page: the time and the uuid of its last event, which is a unique position. Events
that arrive later are neither skipped nor repeated.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hedgerow.errors import Invalid
from hedgerow.lib.dates import EARLIEST, LATEST
from hedgerow.lib.ids import normalize_uuid

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# datetime itself raises an error outside of the years 1 to 9999.
_EARLIEST, _LATEST = ((limit - _EPOCH) // _MICROSECOND for limit in (EARLIEST, LATEST))
_PATTERN = re.compile(r"(-?\d{1,17})_([0-9a-f-]{36})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCursor:
    timestamp: datetime
    uuid: UUID

    def encode(self) -> str:
        return f"{(self.timestamp - _EPOCH) // _MICROSECOND}_{self.uuid}"


def parse_cursor(text: str) -> EventCursor:
    found = _PATTERN.fullmatch(text)
    uuid = normalize_uuid(found[2]) if found else None
    if found and uuid:
        microseconds = int(found[1])
        if _EARLIEST <= microseconds <= _LATEST:
            moment = _EPOCH + microseconds * _MICROSECOND
            return EventCursor(timestamp=moment, uuid=UUID(uuid))
    detail = "Invalid cursor. Use the value from the `next` link of a response."
    raise Invalid(detail, attr="cursor")
