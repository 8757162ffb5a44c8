"""Webhook: sends each event, or a batch of events, as an HTTP request."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.lib.text import truncate
from hedgerow.plugin.component import Component, Family, SettingField, Settings, SettingType
from hedgerow.plugin.delivery import DeliveryContext
from hedgerow.plugin.http import Request, sign_webhook
from hedgerow.plugin.outcomes import Outcome, classify_response
from hedgerow.plugin.payload import build_payload
from hedgerow.plugin.presets import (
    DELIVERY_SETTINGS,
    FILTER_SETTINGS,
    REPLAY_JOB,
    RETRY_DEAD_LETTERS_JOB,
    TEST_CONNECTION_JOB,
    batch_settings,
    check_url,
)
from hedgerow.plugin.templates import TemplateError, compile_template, deliver_rendered

# They frame the request or decide where it goes. (RFC 9110, RFC 9112)
RESERVED_HEADERS = frozenset(
    {
        *("connection", "content-length", "expect", "host", "http2-settings", "keep-alive"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
        # The signature.
        *("webhook-id", "webhook-timestamp", "webhook-signature"),
    }
)
RESERVED_PREFIXES = ("proxy-",)
MAX_HEADER_BYTES = 16_000

# `token` and `field-value` of RFC 9110, without bytes beyond ASCII.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"([!-~]([\t -~]*[!-~])?)?")


def check(settings: Settings) -> None:
    """Raise Invalid for a URL, a header or a template that cannot be used."""
    check_url(settings, "url")
    if reason := find_header_problem(settings["headers"]):
        raise Invalid(reason, attr="config__headers")
    try:
        compile_template(settings.get("body"))
    except TemplateError as error:
        raise Invalid(str(error), attr="config__body") from None


def find_header_problem(headers: Any) -> str:
    """Return why headers cannot be sent; empty if they can."""
    if not headers:
        return ""
    if not isinstance(headers, Mapping):
        return 'An object of names and values is required, such as {"X-Source": "hedgerow"}.'
    if len(jsonio.encode(headers)) > MAX_HEADER_BYTES:
        return f"The headers have more than {MAX_HEADER_BYTES:,} bytes. Servers refuse that many."
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            return f'"{truncate(name)}" is not a header name. Use letters, digits and -.'
        # Some servers read `_` in a name as `-`.
        folded = name.lower().replace("_", "-")
        if folded in RESERVED_HEADERS or folded.startswith(RESERVED_PREFIXES):
            return f'The header "{name}" is set by Hedgerow. Remove it.'
        is_scalar = isinstance(value, str | int | float)
        if not is_scalar or not _HEADER_VALUE.fullmatch(str(value)):
            return (
                f'The value of the header "{name}" cannot be sent. '
                "Use one line of printable characters."
            )
    return ""


def render_body(event: Event, settings: Settings) -> Any:
    """Return the body for an event. Raises TemplateError."""
    payload = build_payload(event)
    template = settings.get("body")
    return payload if template is None else compile_template(template)(payload)


async def deliver(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    async def send(bodies: Mapping[str, Any]) -> Outcome:
        request = _build_request(bodies, settings, ctx.now, ctx.traceparent)
        response = await ctx.http.send(request)
        return classify_response(response, ctx.now)

    return await deliver_rendered(events, lambda event: render_body(event, settings), send)


def _build_request(
    bodies: Mapping[str, Any], settings: Settings, now: datetime, traceparent: str = ""
) -> Request:
    is_batch = settings["batch_size"] > 1
    body = jsonio.encode(list(bodies.values()) if is_batch else next(iter(bodies.values())))
    id = (
        "batch_" + sha256(" ".join(bodies).encode()).hexdigest() if is_batch else next(iter(bodies))
    )
    custom = settings["headers"] or {}
    headers = {
        "content-type": "application/json",
        **({"traceparent": traceparent} if traceparent else {}),
        **{str(name).lower(): str(value) for name, value in custom.items()},
        **sign_webhook(id, now, body, settings["secret"]),
    }
    return Request(method=settings["method"], url=settings["url"], headers=headers, body=body)


COMPONENT = Component(
    key="hedgerow/webhook",
    family=Family.DESTINATION,
    name="Webhook",
    description="Sends events to any URL as HTTP requests, optionally signed.",
    version="1.0.0",
    settings=(
        SettingField(key="url", name="URL", required=True, hint="https://example.com/hook"),
        SettingField(
            key="method",
            name="Method",
            type=SettingType.CHOICE,
            choices=("POST", "PUT", "PATCH"),
            default="POST",
        ),
        SettingField(
            key="headers",
            name="Headers",
            type=SettingType.JSON,
            default={},
            secret=True,
            hint="Additional headers, as an object. Secret, because they often hold tokens.",
        ),
        SettingField(
            key="body",
            name="Body",
            type=SettingType.JSON,
            hint="A JSON template over event, person, groups and project. Empty: send all of them.",
        ),
        SettingField(
            key="secret",
            name="Signing secret",
            secret=True,
            hint="Signs each request with HMAC-SHA256, as defined by Standard Webhooks.",
        ),
        *FILTER_SETTINGS,
        *DELIVERY_SETTINGS,
        *batch_settings(),
    ),
    jobs=(REPLAY_JOB, RETRY_DEAD_LETTERS_JOB, TEST_CONNECTION_JOB),
    check=check,
    deliver=deliver,
)
