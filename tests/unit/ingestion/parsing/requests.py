"""Capture requests for tests: small, hostile, and those of PostHog's SDKs."""

from datetime import UTC, datetime
from typing import Any

from hedgerow.ingestion.model import CaptureBatch, CapturedEvent
from hedgerow.ingestion.parsing.request import parse_batch

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
TOKEN = "phc_test"
UUID = "01a1dc84-37c5-7927-ac02-855ee6f528bc"

HOSTILE_TEXTS = [
    "",
    " ",
    "\t\n\u2028\u00a0\u3000",
    "\x00",
    "a\x00b",
    "\ud800",
    "\udfff tail",
    "\ufeff",
    "\ufffe",
    "\u202eright to left",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞",
    "👩‍👩‍👧‍👦🏳️‍🌈",
    "田中さん",
    "null",
    "undefined",
    "NaN",
    "-Infinity",
    "[object Object]",
    "0",
    "1e400",
    "1/0",
    "true",
    "'; DROP TABLE events; --",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "${jndi:ldap://127.0.0.1/a}",
    "%s%s%n{0}",
    "../../../etc/passwd\x00",
    "\\u0000",
    "a" * 1000,
    "💩" * 300,
]


def read(
    payload: Any,
    *,
    now: datetime = NOW,
    query_sent_at_ms: int | None = None,
    is_engage: bool = False,
    ip: str = "203.0.113.7",
    randomness: bytes = b"0123456789",
) -> CaptureBatch:
    return parse_batch(
        payload,
        now=now,
        query_sent_at_ms=query_sent_at_ms,
        is_engage=is_engage,
        ip=ip,
        randomness=randomness,
    )


def event(**fields: Any) -> dict[str, Any]:
    """Return a valid event with these fields changed."""
    return {"event": "bought", "distinct_id": "ann", **fields}


def batch(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"api_key": TOKEN, "batch": list(items), **fields}


def read_one(**fields: Any) -> CapturedEvent:
    """Parse a valid event with these fields changed."""
    (event_read,) = read({"api_key": TOKEN, **event(**fields)}).events
    return event_read


def server_event(name: str, **fields: Any) -> dict[str, Any]:
    """Return an event of a server SDK: distinct id and uuid are outside the properties."""
    return {
        "event": name,
        "distinct_id": "ann",
        "properties": {"$lib": "posthog-python", "$lib_version": "7.79.0", "$geoip_disable": True},
        "timestamp": "2026-11-15T11:59:50.732316+00:00",
        "uuid": UUID,
        **fields,
    }


def browser_event(name: str, **fields: Any) -> dict[str, Any]:
    """Return an event of posthog-js: distinct id and token are in the properties."""
    return {
        "event": name,
        "uuid": UUID,
        "timestamp": "2026-11-15T11:59:50.981Z",
        "properties": {
            "distinct_id": "ann",
            "token": TOKEN,
            "$lib": "web",
            "$current_url": "https://example.com/page",
        },
        **fields,
    }
