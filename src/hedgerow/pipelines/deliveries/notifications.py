"""Notifications to the operator: a destination was paused, or works again.

A notification is stored in the same transaction as the change, and sent until it is delivered or
has used up its attempts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hedgerow.lib import jsonio
from hedgerow.lib.clock import Clock, format_iso
from hedgerow.pipelines.model import Record
from hedgerow.pipelines.secret_mask import SecretMask
from hedgerow.pipelines.store import NotificationStore
from hedgerow.plugin.http import HttpClient, Request, TransportError, sign_webhook
from hedgerow.plugin.outcomes import Failed, Outcome, classify_response

BATCH_SIZE = 10
MAX_ATTEMPTS = 10
INITIAL_BACKOFF = timedelta(seconds=5)
# Longer than an attempt takes, so that no other process sends the same notification.
CLAIM_DURATION = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationReceiver:
    url: str
    secret: str


def compute_wait_ms(attempts: int) -> int:
    """Return the longest wait after this many attempts: the backoff, or a claim."""
    return max(_compute_backoff(attempts), CLAIM_DURATION) // timedelta(milliseconds=1)


def _compute_backoff(attempts: int) -> timedelta:
    return INITIAL_BACKOFF * (1 << max(0, attempts - 1))


def build_notification(kind: str, record: Record, name: str, error: str, now: datetime) -> str:
    """Return the JSON body of a notification."""
    body: dict[str, Any] = {
        "type": kind,
        "timestamp": format_iso(now),
        "data": {
            "project_id": record.project_id,
            "destination_id": record.id,
            "name": name,
            "error": error,
        },
    }
    return jsonio.encode(body).decode()


class Notifier:
    """`on_failure` receives the reason when a notification is given up."""

    def __init__(
        self,
        store: NotificationStore,
        receiver: NotificationReceiver,
        http: HttpClient,
        clock: Clock,
        on_failure: Callable[[str], None],
    ) -> None:
        self._store = store
        self._receiver = receiver
        self._http = http
        self._clock = clock
        self._on_failure = on_failure
        # A receiver may echo the request.
        self._mask = SecretMask([receiver.url, receiver.secret])

    async def send_due(self) -> None:
        """Send the notifications that are due."""
        now = self._clock()
        for each in await self._store.claim(now, now + CLAIM_DURATION, BATCH_SIZE):
            outcome = await self._send(f"msg_{each.created_ms}_{each.id}", each.body.encode())
            attempts = each.attempts + 1
            if isinstance(outcome, Failed) and attempts < MAX_ATTEMPTS:
                await self._store.postpone(
                    each.id, attempts, self._clock() + _compute_backoff(attempts)
                )
                continue
            if isinstance(outcome, Failed):
                self._on_failure(outcome.reason)
            await self._store.remove(each.id)

    async def _send(self, id: str, body: bytes) -> Outcome:
        now = self._clock()
        headers = {
            "content-type": "application/json",
            **sign_webhook(id, now, body, self._receiver.secret),
        }
        request = Request(method="POST", url=self._receiver.url, headers=headers, body=body)
        try:
            outcome = classify_response(await self._http.send(request), now)
        except TransportError as error:
            outcome = Failed(reason=str(error))
        if isinstance(outcome, Failed):
            outcome = replace(outcome, reason=self._mask.apply(outcome.reason))
        return outcome
