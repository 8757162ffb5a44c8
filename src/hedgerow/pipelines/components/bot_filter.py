"""Bot filter: events of crawlers and scripts are dropped, or marked."""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.pipelines.component import Component, SettingField, SettingType
from hedgerow.pipelines.components.fields import CONCERNED
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.transforming import Incoming, Transform
from hedgerow.pipelines.user_agents import known, user_agent_of

MARK = "$is_bot"
MAX_WORDS = 100


def transform(settings: Mapping[str, Any]) -> Transform:
    drops = settings["action"] == "drop"
    words = tuple(word.lower() for word in settings["words"])

    def filter(event: Incoming) -> Incoming | None:
        user_agent = user_agent_of(event.properties)
        if not user_agent:
            return event
        text = user_agent.lower()
        if not (known(user_agent).is_bot or any(word in text for word in words)):
            return event
        return None if drops else event.having({**event.properties, MARK: True})

    return filter


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
    description="Drops or marks events whose user agent is that of a bot.",
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
            hint="Texts that tell a bot besides those that are known, in any case.",
        ),
        *CONCERNED,
    ),
    check=check,
    transform=transform,
)
