"""What whoever watches over an installation is told: that a destination was paused, or works again.

A notification is stored with what it tells of, and sent until it has arrived or was tried often
enough.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock, iso
from hedgerow.pipelines.answers import outcome_of
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.sending import CannotSend, Failed, Outbound, Outcome, Request
from hedgerow.pipelines.signing import signed_headers
from hedgerow.pipelines.store import NotificationStore

AT_ONCE = 10
MAX_TRIES = 10
FIRST_PAUSE = timedelta(seconds=5)
# Longer than a try takes, so that no other process tries the same meanwhile.
CLAIMED = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    url: str
    secret: str


def notice(kind: str, record: Record, name: str, error: str, now: datetime) -> str:
    """The body of a notification, JSON."""
    told: dict[str, Any] = {
        "type": kind,
        "timestamp": iso(now),
        "data": {
            "project_id": record.project_id,
            "destination_id": record.id,
            "name": name,
            "error": error,
        },
    }
    return jsonio.encode(told).decode()


class Notifier:
    """`note` hears of what could not be told."""

    def __init__(
        self,
        store: NotificationStore,
        receiver: Receiver,
        http: Outbound,
        clock: Clock,
        note: Callable[[str], None],
    ) -> None:
        self._store = store
        self._receiver = receiver
        self._http = http
        self._clock = clock
        self._note = note

    async def send(self) -> None:
        """Send what is due."""
        now = self._clock()
        for each in await self._store.claimed(now, now + CLAIMED, AT_ONCE):
            outcome = await self._sent(f"msg_{each.created_ms}_{each.id}", each.body.encode())
            tries = each.attempts + 1
            if isinstance(outcome, Failed) and tries < MAX_TRIES:
                await self._store.put_off(
                    each.id, tries, self._clock() + FIRST_PAUSE * 2**each.attempts
                )
                continue
            if isinstance(outcome, Failed):
                self._note(outcome.reason)
            await self._store.end(each.id)

    async def _sent(self, id: str, body: bytes) -> Outcome:
        now = self._clock()
        headers = {
            "content-type": "application/json",
            **signed_headers(id, now, body, self._receiver.secret),
        }
        request = Request(method="POST", url=self._receiver.url, headers=headers, body=body)
        try:
            return outcome_of(await self._http.send(request), now)
        except CannotSend as reason:
            return Failed(reason=str(reason))
