"""The v1 capture format, `/i/v1/analytics/events`, converted to the legacy batch format.

In v1 the project token is a header, the library is named once per request, some properties are
fields of the event, and the response holds one result per event.
"""

from collections.abc import Mapping
from typing import Any

from hedgerow.ingestion.model import CaptureBatch

# Of accepted and of rejected events each. SDKs send a few hundred events at most.
MAX_RESULTS = 10_000
# Event fields and event options, with the properties that they stand for in the legacy format.
FIELDS = {"session_id": "$session_id", "window_id": "$window_id"}
OPTIONS = {
    "cookieless_mode": "$cookieless_mode",
    "disable_skew_correction": "$ignore_sent_at",
    "process_person_profile": "$process_person_profile",
    "product_tour_id": "$product_tour_id",
}


def to_legacy_batch(payload: Any, *, token: str, library: str, sent_at: str) -> Any:
    """Convert a v1 request. Anything else is returned unchanged, for the parser to reject.
    `library` is `name/version`."""
    if not isinstance(payload, dict) or not isinstance(payload.get("batch"), list):
        return payload
    name, _, version = library.partition("/")
    common = {"$lib": name, "$lib_version": version} if name else {}
    return {
        **payload,
        **({"api_key": token} if token else {}),
        **({"sent_at": sent_at} if sent_at else {}),
        "batch": [_to_legacy_event(item, common) for item in payload["batch"]],
    }


def _to_legacy_event(item: Any, common: Mapping[str, str]) -> Any:
    if not isinstance(item, dict) or not isinstance(item.get("properties", {}), dict):
        return item
    options = item.get("options")
    options = options if isinstance(options, dict) else {}
    extra = {OPTIONS[name]: value for name, value in options.items() if name in OPTIONS}
    extra |= {property: item[name] for name, property in FIELDS.items() if name in item}
    return {**item, "properties": {**common, **item.get("properties", {}), **extra}}


def build_results(batch: CaptureBatch) -> dict[str, dict[str, str]]:
    """Return the result of each event, by its uuid as the client sent it. SDKs count an event
    without a result as accepted."""
    results = {event.uuid: {"result": "ok"} for event in batch.events[:MAX_RESULTS]}
    for warning in batch.warnings:
        if warning.uuid in results:
            results[warning.uuid] = {"result": "warning", "details": warning.detail}
    if batch.original_uuids:
        results = {batch.original_uuids.get(uuid, uuid): each for uuid, each in results.items()}
    for rejected in batch.rejected[:MAX_RESULTS]:
        if rejected.uuid:
            results[rejected.uuid] = {"result": "drop", "details": rejected.detail}
    return results
