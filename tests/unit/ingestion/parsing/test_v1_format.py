"""The v1 capture format: conversion to the legacy format, and one result per event."""

from typing import Any

import pytest

from hedgerow.ingestion.model import CaptureBatch, EventRejection
from hedgerow.ingestion.parsing.v1_format import MAX_RESULTS, build_results, to_legacy_batch
from tests.unit.ingestion.parsing.requests import TOKEN, UUID, read


def convert(*events: Any, **more: Any) -> Any:
    options = {"token": TOKEN, "library": "posthog-go/1.2.3", "sent_at": "", **more}
    return to_legacy_batch({"batch": list(events), "created_at": "2026-11-15T12:00:00Z"}, **options)


def test_fields_options_and_library_become_properties() -> None:
    options = {"process_person_profile": False, "disable_skew_correction": True, "new": 1}
    event = {"event": "e", "distinct_id": "d", "session_id": "s", "options": options}
    (captured,) = read(convert(event)).events
    assert captured.properties == {
        "$lib": "posthog-go",
        "$lib_version": "1.2.3",
        "$session_id": "s",
        "$process_person_profile": False,
        "$ignore_sent_at": True,
    }


def test_library_of_the_event_overrides_the_header() -> None:
    converted = convert({"event": "e", "properties": {"$lib": "own"}}, library="")
    assert converted["batch"][0]["properties"] == {"$lib": "own"}


@pytest.mark.parametrize("payload", [None, 3, "x", [], {}, {"batch": 3}])
def test_other_payloads_are_returned_unchanged(payload: Any) -> None:
    assert to_legacy_batch(payload, token=TOKEN, library="a/b", sent_at="x") == payload


@pytest.mark.parametrize("item", [None, 3, "x", [], {"properties": 3}, {"properties": []}])
def test_invalid_events_are_returned_unchanged(item: Any) -> None:
    assert convert(item)["batch"] == [item]


def test_results_are_limited() -> None:
    rejected = [
        EventRejection(index=number, uuid=str(number), code="c", detail="d")
        for number in range(MAX_RESULTS + 10)
    ]
    assert (
        len(build_results(CaptureBatch(token=TOKEN, events=[], rejected=rejected))) == MAX_RESULTS
    )


def test_result_has_the_uuid_as_sent() -> None:
    sent = {"event": "e", "distinct_id": "d"}
    upper, plain = UUID.upper(), UUID.replace("0", "1")
    bare = UUID.replace("0", "2").replace("-", "")
    batch = read(
        convert(
            {**sent, "uuid": upper, "timestamp": "soon"},
            {**sent, "uuid": plain},
            {**sent, "uuid": bare},
        )
    )
    assert {uuid: result["result"] for uuid, result in build_results(batch).items()} == {
        upper: "warning",
        plain: "ok",
        bare: "ok",
    }
    assert batch.events[0].uuid == UUID
