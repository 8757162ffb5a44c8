"""Webhook: each event, or a batch of them, as an HTTP request."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.pipelines.answers import outcome_of
from hedgerow.pipelines.component import Component, SettingField, Settings, SettingType
from hedgerow.pipelines.components.fields import (
    BATCHING,
    DELIVERY,
    FILTERS,
    REPLAY,
    TEST_CONNECTION,
    check_address,
)
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.payload import payload_of
from hedgerow.pipelines.sending import Outcome, Request, Surroundings
from hedgerow.pipelines.signing import signed_headers
from hedgerow.pipelines.templated import deliver_made
from hedgerow.pipelines.templates import TemplateProblem, compiled


def check(settings: Settings) -> None:
    """Raise Invalid for an address or a template that cannot be used."""
    check_address(settings, "url")
    try:
        compiled(settings.get("body"))
    except TemplateProblem as problem:
        raise Invalid(str(problem), attr="config__body") from None


def body_of(event: Event, settings: Settings) -> Any:
    """What is sent of an event; TemplateProblem if the template does not fit it."""
    payload = payload_of(event)
    template = settings.get("body")
    return payload if template is None else compiled(template)(payload)


async def deliver(
    events: Sequence[Event], settings: Settings, around: Surroundings
) -> Sequence[Outcome]:
    async def send(bodies: Mapping[str, Any]) -> Outcome:
        response = await around.http.send(_request(bodies, settings, around.now))
        return outcome_of(response, around.now)

    return await deliver_made(events, lambda event: body_of(event, settings), send)


def _request(bodies: Mapping[str, Any], settings: Settings, now: datetime) -> Request:
    is_batch = settings["batch_size"] > 1
    body = jsonio.encode(list(bodies.values()) if is_batch else next(iter(bodies.values())))
    id = (
        "batch_" + sha256(" ".join(bodies).encode()).hexdigest() if is_batch else next(iter(bodies))
    )
    own = settings["headers"] if isinstance(settings["headers"], Mapping) else {}
    headers = {
        "content-type": "application/json",
        **{str(name).lower(): str(value) for name, value in own.items()},
        **signed_headers(id, now, body, settings["secret"]),
    }
    return Request(method=settings["method"], url=settings["url"], headers=headers, body=body)


COMPONENT = Component(
    key="hedgerow/webhook",
    family=Family.DESTINATION,
    name="Webhook",
    description="Sends events to any address as HTTP requests, signed if you like.",
    version="1.0.0",
    settings=(
        SettingField(key="url", name="Address", required=True, hint="https://example.com/hook"),
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
            hint="More headers, as an object. Kept secret: they often hold tokens.",
        ),
        SettingField(
            key="body",
            name="Body",
            type=SettingType.JSON,
            hint="A JSON template over event, person, groups and project. Empty: all of these.",
        ),
        SettingField(
            key="secret",
            name="Signing secret",
            secret=True,
            hint="Signs each request with HMAC-SHA256, in the form of Standard Webhooks.",
        ),
        *FILTERS,
        *DELIVERY,
        *BATCHING,
    ),
    jobs=(REPLAY, TEST_CONNECTION),
    check=check,
    deliver=deliver,
)
