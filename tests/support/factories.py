"""Events as persons see them, for tests."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hedgerow.ingestion.model import CapturedEvent

AT = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)


def captured_event(
    event: str = "seen",
    distinct_id: str = "ann",
    properties: Mapping[str, Any] | None = None,
    *,
    at: datetime = AT,
    uuid: str = "0199aaaa-0000-7000-8000-000000000000",
    ip: str = "",
    **more: Any,
) -> CapturedEvent:
    """`more` are properties too, those whose names Python takes."""
    return CapturedEvent(
        uuid=uuid,
        event=event,
        distinct_id=distinct_id,
        properties={**(properties or {}), **more},
        timestamp=at,
        accepted_at=AT,
        ip=ip,
    )


def setting(distinct_id: str, **to_set: Any) -> CapturedEvent:
    return captured_event("$set", distinct_id, {"$set": to_set})


def identify(distinct_id: str, anonymous_id: Any, **to_set: Any) -> CapturedEvent:
    properties = {"$anon_distinct_id": anonymous_id, "$set": to_set}
    return captured_event("$identify", distinct_id, properties)


def alias(distinct_id: str, other: Any, event: str = "$create_alias") -> CapturedEvent:
    return captured_event(event, distinct_id, {"alias": other})


def group_identify(kind: Any, key: Any, **to_set: Any) -> CapturedEvent:
    properties = {"$group_type": kind, "$group_key": key, "$group_set": to_set}
    return captured_event("$groupidentify", "ann", properties)


def no_location(_: str) -> Mapping[str, Any]:
    return {}
