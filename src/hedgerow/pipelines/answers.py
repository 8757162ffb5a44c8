"""What an HTTP answer means for a delivery."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from hedgerow.pipelines.sending import Failed, Outcome, Response, Sent

# Beside 5xx: try again later.
FOR_NOW = frozenset({408, 425, 429})
# The other side works, and cannot use what it was sent.
UNUSABLE = frozenset({400, 413, 422})
SHOWN_BYTES = 200


def outcome_of(response: Response, now: datetime) -> Outcome:
    status = response.status
    if 200 <= status < 300:
        return Sent()
    said = response.body[:SHOWN_BYTES].decode("utf-8", "replace").replace("\0", "\ufffd").strip()
    reason = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    if status >= 500 or status in FOR_NOW:
        return Failed(reason=reason, retry_after_s=retry_after_s(response.headers, now))
    if 300 <= status < 400:
        reason = f"HTTP {status}: redirects are not followed"
    return Failed(reason=reason, is_final=True, is_events_fault=status in UNUSABLE)


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """How long the other side asks us to wait, in seconds or until a date."""
    said = headers.get("retry-after", "").strip()
    if said.isdecimal() and len(said) < 10:
        return float(said)
    try:
        until = parsedate_to_datetime(said)
    except (ValueError, OverflowError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - now).total_seconds())
