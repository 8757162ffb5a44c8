"""Slack message: posts a line of text to the incoming webhook of a channel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.plugin.component import (
    Component,
    Family,
    SettingField,
    Settings,
    SettingsOrigin,
    SettingType,
)
from hedgerow.plugin.delivery import DeliveryContext
from hedgerow.plugin.http import Request, Response
from hedgerow.plugin.outcomes import Failed, Outcome, classify_response
from hedgerow.plugin.payload import build_payload, is_activity, is_message
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

DEFAULT_MESSAGE = "{{ event.event }} by {{ event.distinct_id }}"
# Slack truncates longer messages.
TEXT_MAX = 40_000
# Limits of Slack's blocks.
SECTION_MAX = 3_000
IMAGE_TITLE_MAX = 200
BLOCKS_MAX = 50

# What to do, by the error code in Slack's response.
ADVICE = {
    "action_prohibited": "An administrator of the workspace does not allow it.",
    "channel_is_archived": "Choose another channel.",
    "channel_not_found": "The channel was deleted: create a new incoming webhook.",
    "invalid_token": "The URL is no longer valid: create a new incoming webhook.",
    "no_service": "The incoming webhook is disabled or deleted: create a new one.",
    "no_service_id": "The URL is incomplete: copy it again.",
    "no_team": "The URL is incomplete: copy it again.",
    "no_text": "The message is empty.",
    "posting_to_general_channel_denied": "Choose another channel.",
    "team_disabled": "The workspace is disabled.",
}

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`images` are blocks that show a picture."""

    text: str
    images: Sequence[Mapping[str, Any]] = ()


def migrate_settings(origin: SettingsOrigin, settings: Settings) -> Settings:
    """Keep the URL and the filters of a webhook, which may point to a channel."""
    if origin.key == "hedgerow/slack-message":
        return settings
    if origin.key == "hedgerow/webhook":
        return {
            "webhook_url": settings["url"],
            "event_source": settings.get("event_source"),
            "events": settings["events"],
            "properties": settings["properties"],
        }
    raise ValueError("only the settings of a webhook can be migrated")


def check(settings: Settings) -> None:
    check_url(settings, "webhook_url")
    try:
        compile_template(settings["message"])
    except TemplateError as error:
        raise Invalid(str(error), attr="config__message") from None


def render_message(event: Event, settings: Settings) -> Message:
    """Return the message for an event. A message of the service has its own text, and pictures.
    The text of a message about the activity log can be replaced by a template."""
    has_template = is_activity(event) and settings["message"] != DEFAULT_MESSAGE
    if has_template or not is_message(event):
        return Message(text=render_text(event, settings))
    properties = jsonio.decode(event.properties)
    images = [
        {
            "type": "image",
            "image_url": chart["image_url"],
            "alt_text": _shorten(chart["title"]),
            "title": {"type": "plain_text", "text": _shorten(chart["title"])},
        }
        for chart in properties.get("charts", ())
        if chart.get("image_url")
    ]
    return Message(text=_escape(properties["message"]), images=images)


def render_text(event: Event, settings: Settings) -> str:
    """Return the message. Raises TemplateError if it is empty."""
    rendered = compile_template(settings["message"])(_escape(build_payload(event)))
    text = rendered if isinstance(rendered, str) else _to_text(rendered)
    if not text.strip():
        raise TemplateError("The message is empty.")
    return text


async def deliver(
    events: Sequence[Event], settings: Settings, ctx: DeliveryContext
) -> Sequence[Outcome]:
    async def send(messages: Mapping[str, Message]) -> Outcome:
        request = Request(
            method="POST",
            url=settings["webhook_url"],
            headers={"content-type": "application/json"},
            body=jsonio.encode(_build_body(list(messages.values()))),
        )
        return explain_response(await ctx.http.send(request), ctx)

    return await deliver_rendered(events, lambda event: render_message(event, settings), send)


def _build_body(messages: Sequence[Message]) -> dict[str, Any]:
    """Return the body of a request. Blocks replace the text in the channel, so they contain it."""
    text = "\n".join(message.text for message in messages)[:TEXT_MAX]
    images = [image for message in messages for image in message.images]
    if not images:
        return {"text": text}
    section = {"type": "section", "text": {"type": "mrkdwn", "text": text[:SECTION_MAX]}}
    return {"text": text, "blocks": [section, *images[: BLOCKS_MAX - 1]]}


def _shorten(title: str) -> str:
    return title[:IMAGE_TITLE_MAX] or "Chart"


def explain_response(response: Response, ctx: DeliveryContext) -> Outcome:
    """Classify the response, and add advice if Slack's error code says too little."""
    outcome = classify_response(response, ctx.now)
    advice = ADVICE.get(response.body[:100].decode("utf-8", "replace").strip())
    if isinstance(outcome, Failed) and advice:
        return replace(outcome, reason=f"{outcome.reason}. {advice}")
    return outcome


def _escape(value: Any) -> Any:
    """Escape values of events, so that they cannot add links or mentions to a message."""
    if isinstance(value, str):
        return value.translate(_ESCAPES)
    if isinstance(value, dict):
        return {name: _escape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_escape(each) for each in value]
    return value


def _to_text(value: Any) -> str:
    return "" if value is None else jsonio.encode(value).decode()


COMPONENT = Component(
    key="hedgerow/slack-message",
    family=Family.DESTINATION,
    name="Slack message",
    description="Posts a message for each event to Slack, Mattermost or compatible services.",
    version="1.0.0",
    settings=(
        SettingField(
            key="webhook_url",
            name="Incoming webhook URL",
            required=True,
            secret=True,
            hint="Anyone who knows this URL can post to the channel.",
        ),
        SettingField(
            key="message",
            name="Message",
            type=SettingType.TEXT,
            default=DEFAULT_MESSAGE,
            hint="A Liquid template over event, person, groups and project.",
        ),
        *FILTER_SETTINGS,
        *DELIVERY_SETTINGS,
        *batch_settings(),
    ),
    jobs=(REPLAY_JOB, RETRY_DEAD_LETTERS_JOB, TEST_CONNECTION_JOB),
    migrate_settings=migrate_settings,
    check=check,
    deliver=deliver,
)
