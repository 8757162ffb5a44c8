"""Where a page ended: the time and the uuid of its last event. No two events share both, so what
follows is neither left out nor repeated, whatever arrives meanwhile.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hedgerow.errors import Invalid
from hedgerow.events.dates import EARLIEST, LATEST
from hedgerow.lib.ids import canonical_uuid

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FORM = re.compile(r"(-?\d{1,17})_([0-9a-f-]{36})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    timestamp: datetime
    uuid: UUID

    def text(self) -> str:
        return f"{(self.timestamp - _EPOCH) // _MICROSECOND}_{self.uuid}"


def read_cursor(text: str) -> Cursor:
    found = _FORM.fullmatch(text)
    uuid = canonical_uuid(found[2]) if found else None
    if found and uuid:
        moment = _EPOCH + int(found[1]) * _MICROSECOND
        if EARLIEST <= moment <= LATEST:
            return Cursor(timestamp=moment, uuid=UUID(uuid))
    detail = "This is no cursor. It comes with `next` and is not for making."
    raise Invalid(detail, attr="cursor")
