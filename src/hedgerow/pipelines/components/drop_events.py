"""Drop events: what matches a filter is never stored."""

from collections.abc import Mapping
from typing import Any

from hedgerow.errors import Invalid
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.components.fields import CONCERNED
from hedgerow.pipelines.model import Family
from hedgerow.pipelines.transforming import Incoming, Transform


def transform(_: Mapping[str, Any]) -> Transform:
    def drop(event: Incoming) -> Incoming | None:
        return None

    return drop


def check(config: Mapping[str, Any]) -> None:
    """Nobody means to drop everything by leaving the filters out."""
    if not config.get("events") and not config.get("properties"):
        raise Invalid("Name events or property filters to drop.", attr="config__events")


COMPONENT = Component(
    key="hedgerow/drop-events",
    family=Family.TRANSFORMATION,
    name="Drop events",
    description="Drops the events that match its filters before they are stored.",
    version="1.0.0",
    settings=CONCERNED,
    check=check,
    transform=transform,
)
