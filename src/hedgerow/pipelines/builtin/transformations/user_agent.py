"""User agent: sets browser, operating system and device type where they are missing."""

from collections.abc import Mapping
from typing import Any

from hedgerow.pipelines.transformations.user_agents import find_user_agent, parse_user_agent
from hedgerow.plugin.component import Component, Family
from hedgerow.plugin.presets import TRANSFORMATION_FILTER_SETTINGS
from hedgerow.plugin.transform import IncomingEvent, Transform


def transform(_: Mapping[str, Any]) -> Transform:
    def add_properties(event: IncomingEvent) -> IncomingEvent:
        user_agent = find_user_agent(event.properties)
        if not user_agent:
            return event
        parsed = parse_user_agent(user_agent)
        missing = {
            name: value
            for name, value in (
                ("$browser", parsed.browser),
                ("$os", parsed.system),
                ("$device_type", parsed.device),
            )
            if value and name not in event.properties
        }
        return event.with_properties({**event.properties, **missing}) if missing else event

    return add_properties


COMPONENT = Component(
    key="hedgerow/user-agent",
    family=Family.TRANSFORMATION,
    name="User agent",
    description="Sets $browser, $os and $device_type from the user agent where they are missing.",
    version="1.0.0",
    settings=TRANSFORMATION_FILTER_SETTINGS,
    transform=transform,
)
