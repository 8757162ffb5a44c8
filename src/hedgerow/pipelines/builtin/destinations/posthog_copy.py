"""Another instance: forwards events to a PostHog-compatible service."""

import gzip
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.lib.clock import format_iso
from hedgerow.plugin.component import Component, Family, SettingField, Settings
from hedgerow.plugin.delivery import DeliveryContext
from hedgerow.plugin.http import Request, Response, TransportError
from hedgerow.plugin.outcomes import Delivered, Failed, Outcome, classify_response
from hedgerow.plugin.presets import (
    DELIVERY_SETTINGS,
    FILTER_SETTINGS,
    REPLAY_JOB,
    RETRY_DEAD_LETTERS_JOB,
    TEST_CONNECTION_JOB,
    batch_settings,
    check_url,
)

SEND_TIMEOUT_S = 30.0
# Errors of the settings, not of the events: events wait until the settings are corrected.
SETTINGS_ADVICE = {
    401: "Check the project key.",
    403: "Check the project key.",
    404: "Check the host.",
}


def check(settings: Settings) -> None:
    check_url(settings, "host")
    if "?" in settings["host"] or "#" in settings["host"]:
        raise Invalid("A URL without query and fragment is required.", attr="config__host")


async def deliver(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    outcomes: dict[str, Outcome] = {}
    # `historical_migration` is a flag of the whole request.
    for is_historical in (False, True):
        some = [event for event in events if event.historical_migration is is_historical]
        if some:
            sent = await _send(some, settings, ctx)
            outcomes |= zip((event.uuid for event in some), sent, strict=True)
    return [outcomes[event.uuid] for event in events]


async def _send(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    try:
        request = await ctx.run_in_thread(partial(_build_request, events, settings))
        response = await ctx.http.send(request)
    except TransportError as error:
        return [Failed(reason=str(error))] * len(events)
    outcome = classify_response(response, ctx.now)
    if isinstance(outcome, Delivered):
        rejected = _parse_rejections(response)
        return [rejected.get(number, outcome) for number in range(len(events))]
    if advice := SETTINGS_ADVICE.get(response.status):
        outcome = Failed(reason=f"{outcome.reason} {advice}")
    return [outcome] * len(events)


def _build_request(events: Sequence[Event], settings: Settings) -> Request:
    body: dict[str, Any] = {
        "api_key": settings["project_key"],
        "batch": [_build_message(event) for event in events],
    }
    if events[0].historical_migration:
        body["historical_migration"] = True
    return Request(
        method="POST",
        url=settings["host"].rstrip("/") + "/batch/",
        headers={"content-type": "application/json", "content-encoding": "gzip"},
        body=gzip.compress(jsonio.encode(body), compresslevel=3, mtime=0),
        timeout_s=SEND_TIMEOUT_S,
    )


def _build_message(event: Event) -> Mapping[str, Any]:
    """Return the event as its client would send it. Without `sent_at` the receiver does not correct
    the timestamp for clock skew."""
    properties = jsonio.decode(event.properties) if event.properties else {}
    if event.elements_chain:
        properties["$elements_chain"] = event.elements_chain
    # Without an explicit null the receiver would store the address of this server.
    properties.setdefault("$ip", None)
    return {
        "uuid": event.uuid,
        "event": event.event,
        "distinct_id": event.distinct_id,
        "timestamp": format_iso(event.timestamp),
        "properties": properties,
    }


def _parse_rejections(response: Response) -> Mapping[int, Failed]:
    """Return the rejected events of a batch by index, if the response lists them."""
    try:
        content = jsonio.parse(response.body)
    except jsonio.JsonError:
        return {}
    rejected = content.get("rejected") if isinstance(content, dict) else None
    return {
        each["index"]: Failed(
            reason=f"Rejected: {each.get('detail')}", is_final=True, event_rejected=True
        )
        for each in (rejected if isinstance(rejected, list) else ())
        if isinstance(each, dict) and isinstance(each.get("index"), int)
    }


COMPONENT = Component(
    key="hedgerow/posthog-copy",
    family=Family.DESTINATION,
    name="Another PostHog-compatible instance",
    description="Forwards events to another Hedgerow or PostHog, with their uuid and timestamp.",
    version="1.0.0",
    settings=(
        SettingField(key="host", name="Host", required=True, hint="https://flags.example.com"),
        SettingField(key="project_key", name="Project key", required=True, hint="phc_…"),
        *FILTER_SETTINGS,
        *DELIVERY_SETTINGS,
        *batch_settings(size=100, seconds=2),
    ),
    jobs=(REPLAY_JOB, RETRY_DEAD_LETTERS_JOB, TEST_CONNECTION_JOB),
    check=check,
    deliver=deliver,
)
