"""Drop events: events that match the filters are not stored."""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.plugin.component import Component, Family
from hedgerow.plugin.presets import TRANSFORMATION_FILTER_SETTINGS
from hedgerow.plugin.transform import IncomingEvent, Transform


def transform(_: Mapping[str, Any]) -> Transform:
    def drop(event: IncomingEvent) -> IncomingEvent | None:
        return None

    return drop


def check(config: Mapping[str, Any]) -> None:
    """Require a filter, so that an empty configuration does not drop every event."""
    if not config.get("events") and not config.get("properties"):
        raise Invalid("Event names or property filters are required.", attr="config__events")


COMPONENT = Component(
    key="hedgerow/drop-events",
    family=Family.TRANSFORMATION,
    name="Drop events",
    description="Drops the events that match its filters before they are stored.",
    version="1.0.0",
    settings=TRANSFORMATION_FILTER_SETTINGS,
    check=check,
    transform=transform,
)
