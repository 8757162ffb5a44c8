"""User agent: browser, system and device of events that do not say them."""

from collections.abc import Mapping
from typing import Any

from hedgerow.pipelines.component import Component
from hedgerow.pipelines.components.fields import CONCERNED
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.transforming import Incoming, Transform
from hedgerow.pipelines.user_agents import known, user_agent_of


def transform(_: Mapping[str, Any]) -> Transform:
    def tell(event: Incoming) -> Incoming:
        user_agent = user_agent_of(event.properties)
        if not user_agent:
            return event
        told = known(user_agent)
        more = {
            name: value
            for name, value in (
                ("$browser", told.browser),
                ("$os", told.system),
                ("$device_type", told.device),
            )
            if value and name not in event.properties
        }
        return event.having({**event.properties, **more}) if more else event

    return tell


COMPONENT = Component(
    key="hedgerow/user-agent",
    family=Family.TRANSFORMATION,
    name="User agent",
    description="Sets $browser, $os and $device_type from the user agent where they are missing.",
    version="1.0.0",
    settings=CONCERNED,
    transform=transform,
)
