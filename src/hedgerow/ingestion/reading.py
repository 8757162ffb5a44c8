"""From the JSON of a request to events that can be stored: each is checked, named, dated and given
an id. What is wrong with one event is no reason to refuse another.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from hedgerow.errors import AppError, Invalid
from hedgerow.flags.model import DISTINCT_ID_MAX
from hedgerow.ingestion.envelope import opened
from hedgerow.ingestion.fields import (
    distinct_id_of,
    event_of,
    json_type,
    name_of,
    properties_of,
    uuid_of,
)
from hedgerow.ingestion.model import Arrived, Batch, IngestionWarning, Rejected
from hedgerow.ingestion.moments import IN_FUTURE, INVALID, OUT_OF_RANGE, Timekeeper, sent_at
from hedgerow.ingestion.storable import MAX_EVENT_BYTES, storable
from hedgerow.lib.ids import uuid7s
from hedgerow.lib.text import cut_short, storable_text

MAX_NAME_CHARS = 200
# One request may be wrong in every event; its owner learns as much from the first of them.
MAX_WARNINGS = 100
CUT_NAME = "event_name_truncated"
CUT_DISTINCT_ID = "distinct_id_truncated"
REPLACED = "replaced_characters"
MORE = "more_warnings"

_MENDED = {
    CUT_NAME: f"The event's name was cut to {MAX_NAME_CHARS} characters.",
    CUT_DISTINCT_ID: f"The distinct_id was cut to {DISTINCT_ID_MAX} characters.",
    REPLACED: "NUL characters and halves of characters were replaced by U+FFFD.",
    INVALID: "The timestamp {} cannot be read and was ignored.",
    IN_FUTURE: "The event is more than 23 hours ahead (timestamp {}); it is dated on arrival.",
    OUT_OF_RANGE: "The event is before the year 1900 (timestamp {}); it is dated 1970-01-01.",
}


class NothingAccepted(AppError):
    """No event of the request is good. What the project's owner should read of it is in `batch`."""

    status, type, code = 400, "validation_error", "nothing_accepted"
    default_detail = "No event of the request could be accepted."

    def __init__(self, first: AppError, batch: Batch, sent: int) -> None:
        where = f"Event {batch.rejected[0].index}: " if sent > 1 else ""
        super().__init__(where + first.detail, attr=first.attr, code=first.code)
        self.batch = batch


class AllTooLarge(NothingAccepted):
    """No event of the request is good, and the first is too large."""

    status, type, code = 413, "invalid_request", "event_too_large"
    default_detail = f"An event may have at most {MAX_EVENT_BYTES} bytes."


def read_batch(
    payload: Any,
    *,
    now: datetime,
    query_sent_at_ms: int | None,
    is_engage: bool,
    ip: str,
    randomness: bytes,
) -> Batch:
    """The events of a request that came `now`. Those without an id of their own get one each,
    which `randomness` makes unique: UUID7_RANDOM_BYTES. Raises NothingAccepted if all are bad, and
    other AppErrors for a request that holds no events or no project's key."""
    envelope = opened(payload)
    reader = _Reader(
        now=now,
        timekeeper=Timekeeper(now, sent_at(envelope.sent_at, query_sent_at_ms)),
        is_engage=is_engage,
        # Who sends what happened elsewhere is not who did it.
        ip="" if envelope.historical_migration else ip,
        is_historical=envelope.historical_migration,
        uuids=uuid7s(now, randomness),
    )
    reader.read_all(envelope.items)
    batch = Batch(
        token=envelope.token,
        events=reader.events,
        rejected=reader.rejected,
        warnings=reader.warnings(),
        spelt=reader.spelt,
    )
    if reader.first_refusal is None or batch.events:
        return batch
    kind = AllTooLarge if reader.first_refusal.code == AllTooLarge.code else NothingAccepted
    raise kind(reader.first_refusal, batch, len(envelope.items))


class _Reader:
    """Reads the events of one request, and keeps what is said about them."""

    def __init__(
        self,
        *,
        now: datetime,
        timekeeper: Timekeeper,
        is_engage: bool,
        ip: str,
        is_historical: bool,
        uuids: Iterator[str],
    ) -> None:
        self._now = now
        self._timekeeper = timekeeper
        self._nameless = "$identify" if is_engage else ""
        self._ip = ip
        self._is_historical = is_historical
        self._uuids = uuids
        self._warnings: list[IngestionWarning] = []
        self._unsaid = 0
        self.events: list[Arrived] = []
        self.rejected: list[Rejected] = []
        self.spelt: dict[str, str] = {}
        self.first_refusal: AppError | None = None

    def read_all(self, items: Sequence[Any]) -> None:
        for index, item in enumerate(items):
            try:
                event = self._event(item)
            except AppError as refusal:
                self._refuse(index, item, refusal)
            else:
                if event is not None:
                    self.events.append(event)

    def warnings(self) -> Sequence[IngestionWarning]:
        if not self._unsaid:
            return self._warnings
        unsaid = f"{self._unsaid} more warnings about the same request were left out."
        return [*self._warnings, IngestionWarning(type=MORE, detail=unsaid)]

    def _event(self, item: Any) -> Arrived | None:
        said = event_of(item)
        # PostHog drops these without a word.
        if said.get("event") == "$performance_event":
            return None
        sent = storable(said)
        mended = [] if sent is said else [REPLACED]
        name = self._name(sent)
        if len(name) > MAX_NAME_CHARS:
            name = name[:MAX_NAME_CHARS]
            mended.append(CUT_NAME)
        properties = properties_of(sent)
        distinct_id = distinct_id_of(sent, properties)
        if len(distinct_id) > DISTINCT_ID_MAX:
            distinct_id = distinct_id[:DISTINCT_ID_MAX]
            mended.append(CUT_DISTINCT_ID)
        timestamp, doubts = self._timekeeper.date(
            sent.get("timestamp"),
            sent.get("offset"),
            is_sent_at_ignored=properties.get("$ignore_sent_at") is True,
        )
        event = Arrived(
            uuid=self._uuid(sent),
            event=name,
            distinct_id=distinct_id,
            properties=properties,
            timestamp=timestamp,
            accepted_at=self._now,
            ip=self._ip,
            historical_migration=self._is_historical,
        )
        if mended or doubts:
            self._tell(event, (*mended, *doubts), sent.get("timestamp"))
        return event

    def _uuid(self, event: dict[str, Any]) -> str:
        uuid = uuid_of(event)
        if uuid and uuid != event["uuid"]:
            self.spelt[uuid] = event["uuid"]
        return uuid or next(self._uuids)

    def _name(self, event: dict[str, Any]) -> str:
        name = name_of(event) or self._nameless
        if not name:
            raise Invalid("An event must have a name.", attr="event", code="missing_event_name")
        return name

    def _refuse(self, index: int, item: Any, refusal: AppError) -> None:
        if self.first_refusal is None:
            # Its traceback would keep the whole request alive until the next sweep.
            self.first_refusal = refusal.with_traceback(None)
        said = item if isinstance(item, dict) else {}
        uuid = _shown(said.get("uuid"))
        self.rejected.append(
            Rejected(index=index, uuid=uuid or None, code=refusal.code, detail=refusal.detail)
        )
        if self._may_warn():
            self._warnings.append(
                IngestionWarning(
                    type=refusal.code,
                    detail=refusal.detail,
                    event=_shown(said.get("event")),
                    uuid=uuid,
                    distinct_id=_shown(said.get("distinct_id")),
                )
            )

    def _tell(self, event: Arrived, mended: Sequence[str], timestamp: Any) -> None:
        said = cut_short(timestamp) if isinstance(timestamp, str | int) else json_type(timestamp)
        for kind in mended:
            if self._may_warn():
                self._warnings.append(
                    IngestionWarning(
                        type=kind,
                        detail=_MENDED[kind].format(said),
                        event=event.event,
                        uuid=event.uuid,
                        distinct_id=event.distinct_id,
                    )
                )

    def _may_warn(self) -> bool:
        is_room = len(self._warnings) < MAX_WARNINGS
        self._unsaid += not is_room
        return is_room


def _shown(value: Any) -> str:
    """What was sent in a field of text, as much of it as can be stored and shown."""
    return storable_text(value[:MAX_NAME_CHARS]) if isinstance(value, str) else ""
