"""The newer form in which SDKs send events, `/i/v1/analytics/events`: the project's key stands in a
header, the library is named once for all events, some properties have fields of their own, and
each event is answered by itself. It is put into the older form, which everything here reads.
"""

from collections.abc import Mapping
from typing import Any

from hedgerow.ingestion.model import Batch

# Of the good and of the bad events of a request. SDKs send some hundred at most.
MOST_TOLD = 10_000
# Fields of an event, and of its options, by the properties that they are elsewhere.
FIELDS = {"session_id": "$session_id", "window_id": "$window_id"}
OPTIONS = {
    "cookieless_mode": "$cookieless_mode",
    "disable_skew_correction": "$ignore_sent_at",
    "process_person_profile": "$process_person_profile",
    "product_tour_id": "$product_tour_id",
}


def as_batch(payload: Any, *, token: str, library: str, sent_at: str) -> Any:
    """The same request in the older form; what is no such request is left for others to refuse.
    `library` is `name/version`."""
    if not isinstance(payload, dict) or not isinstance(payload.get("batch"), list):
        return payload
    name, _, version = library.partition("/")
    common = {"$lib": name, "$lib_version": version} if name else {}
    return {
        **payload,
        **({"api_key": token} if token else {}),
        **({"sent_at": sent_at} if sent_at else {}),
        "batch": [_as_event(item, common) for item in payload["batch"]],
    }


def _as_event(item: Any, common: Mapping[str, str]) -> Any:
    if not isinstance(item, dict) or not isinstance(item.get("properties", {}), dict):
        return item
    options = item.get("options")
    said = options if isinstance(options, dict) else {}
    named = {OPTIONS[name]: value for name, value in said.items() if name in OPTIONS}
    named |= {property: item[name] for name, property in FIELDS.items() if name in item}
    return {**item, "properties": {**common, **item.get("properties", {}), **named}}


def results(batch: Batch) -> dict[str, dict[str, str]]:
    """What became of each event, by its uuid as it was sent. SDKs take one that is not told of for
    a good one."""
    told = {event.uuid: {"result": "ok"} for event in batch.events[:MOST_TOLD]}
    for warning in batch.warnings:
        if warning.uuid in told:
            told[warning.uuid] = {"result": "warning", "details": warning.detail}
    if batch.spelt:
        told = {batch.spelt.get(uuid, uuid): result for uuid, result in told.items()}
    for refused in batch.rejected[:MOST_TOLD]:
        if refused.uuid:
            told[refused.uuid] = {"result": "drop", "details": refused.detail}
    return told
