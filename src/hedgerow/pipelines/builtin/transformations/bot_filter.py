"""Bot filter: is_dropping or marks events of crawlers and scripts."""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.pipelines.transformations.user_agents import find_user_agent, parse_user_agent
from hedgerow.plugin.component import Component, Family, SettingField, SettingType
from hedgerow.plugin.presets import TRANSFORMATION_FILTER_SETTINGS
from hedgerow.plugin.transform import IncomingEvent, Transform

MARK = "$is_bot"
MAX_WORDS = 100


def transform(settings: Mapping[str, Any]) -> Transform:
    is_dropping = settings["action"] == "drop"
    words = tuple(word.lower() for word in settings["words"])

    def filter_bots(event: IncomingEvent) -> IncomingEvent | None:
        user_agent = find_user_agent(event.properties)
        if not user_agent:
            return event
        text = user_agent.lower()
        if not (parse_user_agent(user_agent).is_bot or any(word in text for word in words)):
            return event
        return None if is_dropping else event.with_properties({**event.properties, MARK: True})

    return filter_bots


def check(config: Mapping[str, Any]) -> None:
    words = config.get("words", [])
    if (
        not isinstance(words, list)
        or len(words) > MAX_WORDS
        or not all(isinstance(word, str) and word.strip() for word in words)
    ):
        detail = f"A list of no more than {MAX_WORDS} texts is required."
        raise Invalid(detail, attr="config__words")


COMPONENT = Component(
    key="hedgerow/bot-filter",
    family=Family.TRANSFORMATION,
    name="Bot filter",
    description="Drops or marks events with the user agent of a bot.",
    version="1.0.0",
    settings=(
        SettingField(
            key="action",
            name="Action",
            type=SettingType.CHOICE,
            choices=("drop", "mark"),
            default="drop",
            hint=f"mark keeps the event and sets {MARK} to true.",
        ),
        SettingField(
            key="words",
            name="More words",
            type=SettingType.JSON,
            default=[],
            hint="Additional texts that identify a bot, case-insensitive.",
        ),
        *TRANSFORMATION_FILTER_SETTINGS,
    ),
    check=check,
    transform=transform,
)
