"""Another instance: events passed on to a PostHog-compatible service."""

import gzip
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.lib.clock import iso
from hedgerow.pipelines.answers import outcome_of
from hedgerow.pipelines.component import Component, SettingField, Settings
from hedgerow.pipelines.components.fields import (
    DELIVERY,
    FILTERS,
    REPLAY,
    TEST_CONNECTION,
    batching,
    check_address,
)
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.sending import (
    CannotSend,
    Failed,
    Outcome,
    Request,
    Response,
    Sent,
    Surroundings,
)

SEND_S = 30.0
# The settings are at fault, not the events: they wait until that is put right.
OF_THE_SETTINGS = {
    401: "Check the project key.",
    403: "Check the project key.",
    404: "Check the host.",
}


def check(settings: Settings) -> None:
    check_address(settings, "host")
    if "?" in settings["host"] or "#" in settings["host"]:
        raise Invalid("The address of a host is required, no more.", attr="config__host")


async def deliver(
    events: Sequence[Event], settings: Settings, around: Surroundings
) -> Sequence[Outcome]:
    outcomes: dict[str, Outcome] = {}
    # The other side is told of a whole request whether it is of the past.
    for is_historical in (False, True):
        some = [event for event in events if event.historical_migration is is_historical]
        if some:
            sent = await _sent(some, settings, around)
            outcomes |= zip((event.uuid for event in some), sent, strict=True)
    return [outcomes[event.uuid] for event in events]


async def _sent(
    events: Sequence[Event], settings: Settings, around: Surroundings
) -> Sequence[Outcome]:
    try:
        request = await around.aside(partial(_request, events, settings))
        response = await around.http.send(request)
    except CannotSend as reason:
        return [Failed(reason=str(reason))] * len(events)
    outcome = outcome_of(response, around.now)
    if isinstance(outcome, Sent):
        refused = _refused(response)
        return [refused.get(number, outcome) for number in range(len(events))]
    if advice := OF_THE_SETTINGS.get(response.status):
        outcome = Failed(reason=f"{outcome.reason} {advice}")
    return [outcome] * len(events)


def _request(events: Sequence[Event], settings: Settings) -> Request:
    body: dict[str, Any] = {
        "api_key": settings["project_key"],
        "batch": [_message(event) for event in events],
    }
    if events[0].historical_migration:
        body["historical_migration"] = True
    return Request(
        method="POST",
        url=settings["host"].rstrip("/") + "/batch/",
        headers={"content-type": "application/json", "content-encoding": "gzip"},
        body=gzip.compress(jsonio.encode(body), compresslevel=3, mtime=0),
        timeout_s=SEND_S,
    )


def _message(event: Event) -> Mapping[str, Any]:
    """The event as its client would send it now. When it happened is said, and no time of sending,
    so nobody corrects it by their own clock."""
    properties = jsonio.decode(event.properties) if event.properties else {}
    if event.elements_chain:
        properties["$elements_chain"] = event.elements_chain
    # Without one it would get ours.
    properties.setdefault("$ip", None)
    return {
        "uuid": event.uuid,
        "event": event.event,
        "distinct_id": event.distinct_id,
        "timestamp": iso(event.timestamp),
        "properties": properties,
    }


def _refused(response: Response) -> Mapping[int, Failed]:
    """What the other side did not take of a batch, by number, if it says so."""
    try:
        told = jsonio.parse(response.body)
    except jsonio.JsonError:
        return {}
    rejected = told.get("rejected") if isinstance(told, dict) else None
    return {
        each["index"]: Failed(
            reason=f"Refused: {each.get('detail')}", is_final=True, is_events_fault=True
        )
        for each in (rejected if isinstance(rejected, list) else ())
        if isinstance(each, dict) and isinstance(each.get("index"), int)
    }


COMPONENT = Component(
    key="hedgerow/posthog-copy",
    family=Family.DESTINATION,
    name="Another PostHog-compatible instance",
    description="Passes events on to another Hedgerow or PostHog, with their uuid and time.",
    version="1.0.0",
    settings=(
        SettingField(key="host", name="Host", required=True, hint="https://flags.example.com"),
        SettingField(key="project_key", name="Project key", required=True, hint="phc_…"),
        *FILTERS,
        *DELIVERY,
        *batching(size=100, seconds=2),
    ),
    jobs=(REPLAY, TEST_CONNECTION),
    check=check,
    deliver=deliver,
)
