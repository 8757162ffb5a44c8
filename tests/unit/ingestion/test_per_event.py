"""The newer form of events: put into the older one, and answered event by event."""

from typing import Any

import pytest

from hedgerow.ingestion.model import Batch, Rejected
from hedgerow.ingestion.per_event import MOST_TOLD, as_batch, results
from tests.unit.ingestion.requests import TOKEN, UUID, read


def put(*events: Any, **more: Any) -> Any:
    said = {"token": TOKEN, "library": "posthog-go/1.2.3", "sent_at": "", **more}
    return as_batch({"batch": list(events), "created_at": "2026-11-15T12:00:00Z"}, **said)


def test_fields_and_options_become_properties_and_the_library_is_in_each() -> None:
    options = {"process_person_profile": False, "disable_skew_correction": True, "new": 1}
    event = {"event": "e", "distinct_id": "d", "session_id": "s", "options": options}
    (arrived,) = read(put(event)).events
    assert arrived.properties == {
        "$lib": "posthog-go",
        "$lib_version": "1.2.3",
        "$session_id": "s",
        "$process_person_profile": False,
        "$ignore_sent_at": True,
    }


def test_what_an_event_says_of_its_library_goes_before_the_header() -> None:
    said = put({"event": "e", "properties": {"$lib": "own"}}, library="")
    assert said["batch"][0]["properties"] == {"$lib": "own"}


@pytest.mark.parametrize("payload", [None, 3, "x", [], {}, {"batch": 3}])
def test_what_is_no_such_request_is_left_as_it_is(payload: Any) -> None:
    assert as_batch(payload, token=TOKEN, library="a/b", sent_at="x") == payload


@pytest.mark.parametrize("item", [None, 3, "x", [], {"properties": 3}, {"properties": []}])
def test_an_event_that_is_none_is_left_for_its_refusal(item: Any) -> None:
    assert put(item)["batch"] == [item]


def test_an_answer_has_an_end() -> None:
    refused = [
        Rejected(index=number, uuid=str(number), code="c", detail="d")
        for number in range(MOST_TOLD + 10)
    ]
    assert len(results(Batch(token=TOKEN, events=[], rejected=refused))) == MOST_TOLD


def test_an_event_is_answered_by_its_uuid_as_it_was_sent() -> None:
    sent = {"event": "e", "distinct_id": "d"}
    loud, plain = UUID.upper(), UUID.replace("0", "1")
    bare = UUID.replace("0", "2").replace("-", "")
    batch = read(
        put(
            {**sent, "uuid": loud, "timestamp": "soon"},
            {**sent, "uuid": plain},
            {**sent, "uuid": bare},
        )
    )
    assert {uuid: told["result"] for uuid, told in results(batch).items()} == {
        loud: "warning",
        plain: "ok",
        bare: "ok",
    }
    assert batch.events[0].uuid == UUID
