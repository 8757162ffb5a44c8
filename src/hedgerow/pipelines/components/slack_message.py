"""Slack-compatible message: a line of text to a channel's incoming webhook."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.pipelines.answers import outcome_of
from hedgerow.pipelines.component import Component, Origin, SettingField, Settings, SettingType
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
from hedgerow.pipelines.sending import (
    Failed,
    Outcome,
    Request,
    Response,
    Surroundings,
)
from hedgerow.pipelines.templated import deliver_made
from hedgerow.pipelines.templates import TemplateProblem, compiled

# Slack cuts longer messages off.
TEXT_MAX = 40_000

# What helps, by what Slack answers.
ADVICE = {
    "action_prohibited": "An administrator of the workspace forbids it.",
    "channel_is_archived": "Choose another channel.",
    "channel_not_found": "The channel is gone: make a new incoming webhook.",
    "invalid_token": "The address is not valid any more: make a new incoming webhook.",
    "no_service": "The incoming webhook is disabled or removed: make a new one.",
    "no_service_id": "The address is not whole: copy it again.",
    "no_team": "The address is not whole: copy it again.",
    "no_text": "The message is empty.",
    "posting_to_general_channel_denied": "Choose another channel.",
    "team_disabled": "The workspace is disabled.",
}

_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def adopt(origin: Origin, settings: Settings) -> Settings:
    """A webhook's address may be that of a channel; what it sends is a message from now on."""
    if origin.key == "hedgerow/slack-message":
        return settings
    if origin.key == "hedgerow/webhook":
        return {
            "webhook_url": settings["url"],
            "events": settings["events"],
            "properties": settings["properties"],
        }
    raise ValueError("only a webhook can become a Slack message")


def check(settings: Settings) -> None:
    check_address(settings, "webhook_url")
    try:
        compiled(settings["message"])
    except TemplateProblem as problem:
        raise Invalid(str(problem), attr="config__message") from None


def text_of(event: Event, settings: Settings) -> str:
    """The message; TemplateProblem if there is none."""
    text = compiled(settings["message"])(_escaped(payload_of(event)))
    said = text if isinstance(text, str) else _plain(text)
    if not said.strip():
        raise TemplateProblem("The message is empty.")
    return said


async def deliver(
    events: Sequence[Event], settings: Settings, around: Surroundings
) -> Sequence[Outcome]:
    async def send(texts: Mapping[str, str]) -> Outcome:
        request = Request(
            method="POST",
            url=settings["webhook_url"],
            headers={"content-type": "application/json"},
            body=jsonio.encode({"text": "\n".join(texts.values())[:TEXT_MAX]}),
        )
        return advised(await around.http.send(request), around)

    return await deliver_made(events, lambda event: text_of(event, settings), send)


def advised(response: Response, around: Surroundings) -> Outcome:
    """What the answer means, and what to do about it where Slack's own word says too little."""
    outcome = outcome_of(response, around.now)
    advice = ADVICE.get(response.body[:100].decode("utf-8", "replace").strip())
    if isinstance(outcome, Failed) and advice:
        return replace(outcome, reason=f"{outcome.reason}. {advice}")
    return outcome


def _escaped(value: Any) -> Any:
    """What comes from events is text in a message: it links to nothing and calls nobody."""
    if isinstance(value, str):
        return value.translate(_ESCAPED)
    if isinstance(value, dict):
        return {name: _escaped(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    return value


def _plain(value: Any) -> str:
    return "" if value is None else jsonio.encode(value).decode()


COMPONENT = Component(
    key="hedgerow/slack-message",
    family=Family.DESTINATION,
    name="Slack message",
    description="Posts a message for each event to Slack, Mattermost and their like.",
    version="1.0.0",
    settings=(
        SettingField(
            key="webhook_url",
            name="Incoming webhook address",
            required=True,
            secret=True,
            hint="Whoever knows this address can post to the channel.",
        ),
        SettingField(
            key="message",
            name="Message",
            type=SettingType.TEXT,
            default="{{ event.event }} by {{ event.distinct_id }}",
            hint="A Liquid template over event, person, groups and project.",
        ),
        *FILTERS,
        *DELIVERY,
        *BATCHING,
    ),
    jobs=(REPLAY, TEST_CONNECTION),
    adopt=adopt,
    check=check,
    deliver=deliver,
)
