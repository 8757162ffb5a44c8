"""Outcomes of a delivery, and how an HTTP response becomes one."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from hedgerow.plugin.deprecated import warn_renamed
from hedgerow.plugin.http import Response

# Retried like any 5xx.
RETRYABLE_STATUSES = frozenset({408, 425, 429})
# The destination works, but rejects the content of this request.
EVENT_REJECTED_STATUSES = frozenset({400, 413, 422})
REASON_BYTES = 200

# Masks the secrets of the record, and the bytes of the longest one. Hedgerow sets it for each call
# of `deliver`, and masks all reasons again.
mask_secrets: ContextVar[tuple[Callable[[str], str], int]] = ContextVar(
    "mask_secrets", default=(lambda text: text, 0)
)


@dataclass(frozen=True, slots=True)
class Delivered:
    """The destination has the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The destination does not have the event.

    - `reason` is shown to the operator: say what to do.
    - `is_final`: a retry would fail as well, so the event becomes a dead letter.
    - `event_rejected`: the destination works and rejects this event, so it is not paused. If every
      event of a batch is rejected, Hedgerow sends the batch again in halves to find the bad ones.
    - `retry_after_s`: the destination asked for no request before this many seconds.
    """

    reason: str
    is_final: bool = False
    event_rejected: bool = False
    retry_after_s: float | None = None

    @property
    def is_events_fault(self) -> bool:
        """Deprecated name of `event_rejected`."""
        warn_renamed("Failed.is_events_fault", "Failed.event_rejected")
        return self.event_rejected


Outcome = Delivered | Failed


def classify_response(response: Response, now: datetime) -> Outcome:
    """Return the outcome that an HTTP response means for a delivery.

    2xx is delivered. 5xx, 408, 425 and 429 are retried, not before `Retry-After`. Any other status
    is final; 400, 413 and 422 reject the event rather than accuse the destination.
    """
    status = response.status
    if 200 <= status < 300:
        return Delivered()
    body = _cut_body(response.body)
    reason = f"HTTP {status}: {body}" if body else f"HTTP {status}"
    if status >= 500 or status in RETRYABLE_STATUSES:
        return Failed(reason=reason, retry_after_s=parse_retry_after(response.headers, now))
    if 300 <= status < 400:
        reason = f"HTTP {status}: redirects are not followed"
    return Failed(reason=reason, is_final=True, event_rejected=status in EVENT_REJECTED_STATUSES)


def _cut_body(body: bytes) -> str:
    """Return the beginning of a body. Secrets are masked before it is cut: the beginning of one
    could no longer be recognized."""
    mask, margin = mask_secrets.get()
    text = mask(body[: REASON_BYTES + margin].decode("utf-8", "replace"))
    return text[:REASON_BYTES].replace("\0", "\ufffd").strip()


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds of a `Retry-After` header, which holds seconds or a date."""
    value = headers.get("retry-after", "").strip()
    if value.isdecimal() and len(value) < 10:
        return float(value)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - now).total_seconds())
