"""Slack-compatible message: a line of text to a channel's incoming webhook."""

from hedgerow.pipelines.component import Component, Origin, SettingField, Settings, SettingType
from hedgerow.pipelines.components.fields import FILTERS, REPLAY, TEST_CONNECTION
from hedgerow.pipelines.model import Family


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
            default="{event.event} by {event.distinct_id}",
            hint="A template over event, person, groups and project.",
        ),
        *FILTERS,
    ),
    jobs=(REPLAY, TEST_CONNECTION),
    adopt=adopt,
)
