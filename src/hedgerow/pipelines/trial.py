"""Trying a destination out: what it would send of a sample event, and what the answer is. Nothing
is stored. Secrets are masked in what is shown.
"""

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from hedgerow.errors import Invalid
from hedgerow.events.model import Event, PersonMode
from hedgerow.lib import jsonio
from hedgerow.pipelines.attempt import attempted
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.config import MASK
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.noting import Notes, noting
from hedgerow.pipelines.records import Records
from hedgerow.pipelines.sending import Failed, Outcome, Request, Response, WaysOut

SHOWN_BYTES = 20_000
GZIP = b"\x1f\x8b"
# A shorter text is in others by chance.
TELLING = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What may be said of the sample event."""

    event: str = "sample event"
    distinct_id: str = "sample-person"
    properties: Mapping[str, Any] = field(default_factory=dict)
    person_properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request as it may be shown, and its answer if it was sent and there was one."""

    request: Request
    response: Response | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    exchanges: list[Exchange]
    outcome: Outcome


class Trials:
    def __init__(self, records: Records, ways_out: WaysOut) -> None:
        self._records = records
        self._ways_out = ways_out

    async def test(self, record: Record, sample: Sample, now: datetime) -> Trial:
        return await self._try(record, sample, now, self._ways_out)

    async def preview(self, record: Record, sample: Sample, now: datetime) -> Trial:
        return await self._try(record, sample, now, None)

    async def _try(
        self, record: Record, sample: Sample, now: datetime, ways_out: WaysOut | None
    ) -> Trial:
        component = self._records.component(record)
        if component is None or component.deliver is None:
            raise Invalid("The component of this record delivers nothing.", attr="plugin")
        settings = self._records.usable_settings(record)
        notes: Notes = []
        around = noting(ways_out, notes).at(now)
        events = [_event(record, sample, now)]
        (outcome,) = await attempted(component.deliver, events, settings, around)
        secrets = sorted(_secrets(component, settings), key=len, reverse=True)
        return Trial(
            exchanges=[
                Exchange(
                    request=_shown(request, secrets),
                    response=response and _shown_answer(response, secrets),
                )
                for request, response in notes
            ],
            outcome=outcome,
        )


def _event(record: Record, sample: Sample, now: datetime) -> Event:
    return Event(
        project_id=record.project_id,
        uuid=str(uuid4()),
        event=sample.event,
        distinct_id=sample.distinct_id,
        properties=jsonio.encode(sample.properties).decode(),
        elements_chain="",
        timestamp=now,
        created_at=now,
        person_id=str(uuid4()),
        person_created_at=now,
        person_properties=jsonio.encode(sample.person_properties).decode(),
        person_mode=PersonMode.FULL,
        historical_migration=False,
    )


def _shown(request: Request, secrets: list[str]) -> Request:
    return Request(
        method=request.method,
        url=_masked(request.url, secrets),
        headers={name: _masked(value, secrets) for name, value in request.headers.items()},
        body=_masked(_readable(request.body), secrets).encode()[:SHOWN_BYTES],
    )


def _shown_answer(response: Response, secrets: list[str]) -> Response:
    """Some answer with what they were sent."""
    return Response(
        status=response.status,
        headers={name: _masked(value, secrets) for name, value in response.headers.items()},
        body=_masked(response.body.decode("utf-8", "replace"), secrets).encode()[:SHOWN_BYTES],
    )


def _readable(body: bytes) -> str:
    """A body as text: unpacked, or how long it is if it is no text at all."""
    if body.startswith(GZIP):
        body = gzip.decompress(body)  # made of one sample event, by us
    try:
        return body.decode()
    except UnicodeDecodeError:
        return f"({len(body)} bytes)"


def _masked(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _secrets(component: Component, settings: Mapping[str, Any]) -> set[str]:
    """Every text that is kept secret."""
    return {
        text
        for key in component.secret_keys
        for text in _texts(settings.get(key))
        if len(text) >= TELLING
    }


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif value is not None:
        yield str(value)


def reason_of(outcome: Outcome) -> str:
    return outcome.reason if isinstance(outcome, Failed) else ""
