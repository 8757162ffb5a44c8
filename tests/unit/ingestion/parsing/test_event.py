import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import AppError
from hedgerow.ingestion.model import CaptureBatch, CapturedEvent, EventRejection, IngestionWarning
from hedgerow.ingestion.parsing.request import MAX_WARNINGS, AllEventsRejected, AllEventsTooLarge
from hedgerow.lib.jsonio import decode, encode
from tests.unit.generated import JSON, bounded
from tests.unit.ingestion.parsing.requests import (
    HOSTILE_TEXTS,
    NOW,
    TOKEN,
    UUID,
    batch,
    event,
    read,
    read_one,
)


def rejection_of(**fields: Any) -> tuple[str, str]:
    """Return code and detail of the rejection of a valid event with these fields changed."""
    result = read(batch(event(), event(**fields), event()))
    (rejected,) = result.rejected
    (warning,) = result.warnings
    assert len(result.events) == 2
    assert rejected.index == 1
    assert (warning.type, warning.detail) == (rejected.code, rejected.detail)
    return rejected.code, rejected.detail


def test_event_is_captured() -> None:
    properties = {"price": 9.5, "$feature/beta": "test"}
    sent = event(uuid=UUID, timestamp="2026-11-15T11:00:00Z", properties=properties)
    result = read({"api_key": TOKEN, **sent})
    assert result.token == TOKEN
    assert result.events == [
        CapturedEvent(
            uuid=UUID,
            event="bought",
            distinct_id="ann",
            properties=properties,
            timestamp=NOW - timedelta(hours=1),
            accepted_at=NOW,
            ip="203.0.113.7",
            historical_migration=False,
        )
    ]
    assert (list(result.rejected), list(result.warnings)) == ([], [])


def test_events_keep_their_order() -> None:
    result = read(batch(*(event(event=str(n)) for n in range(50))))
    assert [each.event for each in result.events] == [str(n) for n in range(50)]
    assert [each.uuid for each in result.events] == sorted(each.uuid for each in result.events)


def test_flag_call_events_are_unchanged() -> None:
    properties = {"$feature_flag": "beta", "$feature_flag_response": "test", "$feature/beta": True}
    captured = read_one(event="$feature_flag_called", properties=properties)
    assert captured.event == "$feature_flag_called"
    assert captured.properties == properties


def test_migration_events_have_no_ip() -> None:
    (captured,) = read(batch(event(), historical_migration=True)).events
    assert captured.historical_migration
    # The sender of a migration is not the user.
    assert captured.ip == ""


DISTINCT_IDS: list[tuple[dict[str, Any], str]] = [
    ({"distinct_id": "a"}, "a"),
    ({"$distinct_id": "a"}, "a"),
    ({"distinct_id": "a", "$distinct_id": "b", "properties": {"distinct_id": "c"}}, "a"),
    ({"$distinct_id": "b", "properties": {"distinct_id": "c"}}, "b"),
    ({"properties": {"distinct_id": "c"}}, "c"),
    ({"distinct_id": None, "properties": {"distinct_id": "c"}}, "c"),
    ({"distinct_id": 12}, "12"),
    ({"distinct_id": 0}, "0"),
    ({"distinct_id": 1.0}, "1.0"),
    ({"distinct_id": True}, "true"),
    ({"distinct_id": False}, "false"),
    ({"distinct_id": ["a", 1]}, '["a",1]'),
    ({"distinct_id": {"a": 1}}, '{"a":1}'),
    ({"distinct_id": []}, "[]"),
    ({"properties": {"distinct_id": 12}}, "12"),
    ({"distinct_id": " a "}, " a "),
    ({"distinct_id": "a\x00b"}, "a\ufffdb"),
    ({"distinct_id": "a\ud800b"}, "a\ufffdb"),
    ({"distinct_id": "\x00"}, "\ufffd"),
    ({"distinct_id": "null"}, "null"),
    ({"distinct_id": "💩" * 200}, "💩" * 200),
    ({"distinct_id": "💩" * 201}, "💩" * 200),
    ({"distinct_id": ["a" * 300]}, '["' + "a" * 198),
]


@pytest.mark.parametrize(("fields", "distinct_id"), DISTINCT_IDS)
def test_distinct_id_is_read_from_any_field(fields: dict[str, Any], distinct_id: str) -> None:
    (captured,) = read({"api_key": TOKEN, "event": "bought", **fields}).events
    assert captured.distinct_id == distinct_id


def test_truncated_distinct_id_causes_a_warning() -> None:
    (warning,) = read({"api_key": TOKEN, **event(distinct_id="a" * 201, uuid=UUID)}).warnings
    assert warning == IngestionWarning(
        type="distinct_id_truncated",
        detail="The distinct_id was cut to 200 characters.",
        event="bought",
        uuid=UUID,
        distinct_id="a" * 200,
    )


@pytest.mark.parametrize("distinct_id", [None, "", " ", "\t\n\u2028\u00a0"])
def test_blank_distinct_id_is_rejected(distinct_id: Any) -> None:
    code, _ = rejection_of(distinct_id=distinct_id)
    assert code == "missing_distinct_id"


@pytest.mark.parametrize("name", [None, ""])
def test_event_without_a_name_is_rejected(name: Any) -> None:
    assert rejection_of(event=name) == ("missing_event_name", "An event must have a name.")


@pytest.mark.parametrize("fields", [{}, {"event": None}, {"event": ""}])
def test_engage_sets_the_default_name(fields: dict[str, Any]) -> None:
    sent = {"$token": TOKEN, "$distinct_id": "ann", "$set": {"plan": "pro"}, **fields}
    (captured,) = read(sent, is_engage=True).events
    assert captured.event == "$identify"
    assert captured.properties == {"$set": {"plan": "pro"}}


def test_engage_keeps_other_names() -> None:
    (captured,) = read(batch(event()), is_engage=True).events
    assert captured.event == "bought"


@pytest.mark.parametrize(
    ("name", "kind"),
    [(5, "number"), (1.5, "number"), (True, "boolean"), (["a"], "array"), ({"a": 1}, "object")],
)
def test_name_must_be_text(name: Any, kind: str) -> None:
    detail = f"The event's name must be a string, received {kind}."
    assert rejection_of(event=name) == ("invalid_event_name", detail)


def test_truncated_name_causes_a_warning() -> None:
    result = read(batch(event(event="💩" * 200), event(event="💩" * 201)))
    assert [each.event for each in result.events] == ["💩" * 200] * 2
    assert [warning.type for warning in result.warnings] == ["event_name_truncated"]


@pytest.mark.parametrize("written", [UUID, UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}"])
def test_uuid_of_the_client_is_kept(written: str) -> None:
    assert read_one(uuid=written).uuid == UUID


@pytest.mark.parametrize("fields", [{}, {"uuid": None}, {"uuid": ""}])
def test_event_without_a_uuid_gets_one(fields: dict[str, Any]) -> None:
    assert read_one(**fields).uuid.startswith("01a1df14-1e00-7")


@pytest.mark.parametrize("uuid", ["nonsense", "0", 5, True, False, 0, [], {}, [UUID], UUID[:-1]])
def test_invalid_uuid_is_rejected(uuid: Any) -> None:
    assert rejection_of(uuid=uuid) == ("invalid_uuid", 'Event field "uuid" is not a valid UUID!')


@pytest.mark.parametrize("fields", [{}, {"properties": None}, {"properties": {}}])
def test_properties_are_optional(fields: dict[str, Any]) -> None:
    assert read_one(**fields).properties == {}


@pytest.mark.parametrize("name", ["properties", "$set", "$set_once"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [("text", "string"), ("", "string"), (0, "number"), ([], "array"), (False, "boolean")],
)
def test_properties_must_be_an_object(name: str, value: Any, kind: str) -> None:
    detail = f"{name} must be a JSON object, received {kind}."
    assert rejection_of(**{name: value}) == ("invalid_properties", detail)


SETS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"$set": {"a": 1}}, {"$set": {"a": 1}}),
    ({"$set": {}}, {}),
    ({"$set": None, "properties": {"$set": {"a": 1}}}, {"$set": {"a": 1}}),
    (
        {"$set": {"a": 1}, "properties": {"$set": {"a": 2, "b": 2}, "c": 3}},
        {"$set": {"a": 1, "b": 2}, "c": 3},
    ),
    ({"$set": {"a": 1}, "properties": {"$set": "text"}}, {"$set": {"a": 1}}),
    ({"properties": {"$set": "text"}}, {"$set": "text"}),
    (
        {"$set": {"a": 1}, "$set_once": {"b": 2}, "properties": {"$set_once": {"b": 1, "c": 3}}},
        {"$set": {"a": 1}, "$set_once": {"b": 2, "c": 3}},
    ),
    ({"$unset": ["a"], "properties": {"$unset": ["b"]}}, {"$unset": ["b"]}),
]


@pytest.mark.parametrize(("fields", "properties"), SETS)
def test_top_level_set_overrides_set_in_properties(
    fields: dict[str, Any], properties: dict[str, Any]
) -> None:
    assert read_one(**fields).properties == properties


def test_input_is_not_mutated() -> None:
    sent = batch(event(**{"$set": {"a": 1}, "properties": {"$set": {"b": 2}}}))
    before = encode(sent)
    read(sent)
    assert encode(sent) == before


@pytest.mark.parametrize("item", [None, 5, True, "bought", [], [event()]])
def test_event_must_be_an_object(item: Any) -> None:
    result = read(batch(event(), item))
    assert len(result.events) == 1
    assert [(each.index, each.uuid, each.code) for each in result.rejected] == [
        (1, None, "invalid_event")
    ]


@pytest.mark.parametrize(
    "item",
    [
        event(event="$performance_event"),
        {"event": "$performance_event"},
        {"event": "$performance_event", "uuid": "nonsense", "properties": {"a": "x" * 2_000_000}},
    ],
)
def test_performance_events_are_dropped_without_a_warning(item: dict[str, Any]) -> None:
    for result in (read(batch(item)), read({"api_key": TOKEN, **item})):
        assert result.events == []
        assert (list(result.rejected), list(result.warnings)) == ([], [])
    assert len(read(batch(item, event())).events) == 1


def test_sent_time_corrects_the_timestamp() -> None:
    sent = event(timestamp="2026-11-15T16:59:00Z")
    happened = [NOW - timedelta(minutes=1)]
    in_body = read(batch(sent, sent_at="2026-11-15T17:00:00.000Z"))
    in_query = read(batch(sent), query_sent_at_ms=1794762000000)
    assert [each.timestamp for each in in_body.events] == happened
    assert [each.timestamp for each in in_query.events] == happened


@pytest.mark.parametrize(
    ("ignore", "hours"), [(True, 0), (False, -5), ("true", -5), (1, -5), (None, -5)]
)
def test_sent_time_is_ignored_on_request(ignore: Any, hours: int) -> None:
    sent = event(timestamp=NOW.isoformat(), properties={"$ignore_sent_at": ignore})
    (captured,) = read(batch(sent, sent_at="2026-11-15T17:00:00Z")).events
    assert captured.timestamp == NOW + timedelta(hours=hours)


@pytest.mark.parametrize(
    ("fields", "timestamp", "kind", "detail"),
    [
        (
            {"timestamp": "soon {}"},
            NOW,
            "ignored_invalid_timestamp",
            "The timestamp soon {} is not a valid date and was ignored.",
        ),
        (
            {"timestamp": {"a": 1}},
            NOW,
            "ignored_invalid_timestamp",
            "The timestamp object is not a valid date and was ignored.",
        ),
        (
            {"timestamp": "2027-01-01"},
            NOW,
            "event_timestamp_in_future",
            "The event is dated more than 23 hours in the future (timestamp 2027-01-01). "
            "The time of arrival is used instead.",
        ),
        (
            {"offset": 10**15},
            datetime(1970, 1, 1, tzinfo=UTC),
            "event_timestamp_out_of_range",
            "The event is dated before the year 1900 (timestamp null). 1970-01-01 is used instead.",
        ),
    ],
)
def test_replaced_timestamp_causes_a_warning(
    fields: dict[str, Any], timestamp: datetime, kind: str, detail: str
) -> None:
    result = read({"api_key": TOKEN, **event(**fields)})
    assert [each.timestamp for each in result.events] == [timestamp]
    assert [(warning.type, warning.detail) for warning in result.warnings] == [(kind, detail)]


def test_replaced_characters_cause_a_warning() -> None:
    result = read(batch(event(properties={"a\x00": ["\ud800"], "b": "\\u0000"})))
    assert [each.properties for each in result.events] == [{"a\ufffd": ["\ufffd"], "b": "\\u0000"}]
    assert [warning.type for warning in result.warnings] == ["replaced_characters"]


def test_escaped_null_character_causes_no_warning() -> None:
    result = read(batch(event(properties={"b": "\\u0000"})))
    assert (len(result.events), list(result.warnings)) == (1, [])


def test_captured_event_may_have_several_warnings() -> None:
    sent = event(event="a" * 300, distinct_id="b\x00" * 300, timestamp="soon")
    assert [warning.type for warning in read(batch(sent)).warnings] == [
        "replaced_characters",
        "event_name_truncated",
        "distinct_id_truncated",
        "ignored_invalid_timestamp",
    ]


def test_bad_events_are_rejected_individually() -> None:
    result = read(
        batch(
            event(),
            {"event": "lost", "uuid": UUID},
            event(uuid="mine\x00"),
            event(properties={"a": "x" * 1_000_000}),
            event(),
        )
    )
    assert len(result.events) == 2
    assert [(each.index, each.uuid, each.code) for each in result.rejected] == [
        (1, UUID, "missing_distinct_id"),
        (2, "mine\ufffd", "invalid_uuid"),
        (3, None, "event_too_large"),
    ]
    assert result.warnings[0] == IngestionWarning(
        type="missing_distinct_id",
        detail="An event must have a distinct_id.",
        event="lost",
        uuid=UUID,
    )


def test_error_has_the_first_rejection_if_all_events_are_rejected() -> None:
    with pytest.raises(AllEventsRejected) as caught:
        read(batch({"event": "$performance_event"}, {"event": "a"}, {"distinct_id": "b"}))
    error = caught.value
    assert (error.status, error.type, error.code, error.attr) == (
        400,
        "validation_error",
        "missing_distinct_id",
        "distinct_id",
    )
    assert error.detail == "Event 1: An event must have a distinct_id."
    assert error.batch.token == TOKEN
    assert [each.index for each in error.batch.rejected] == [1, 2]
    assert [each.type for each in error.batch.warnings] == [
        "missing_distinct_id",
        "missing_event_name",
    ]


def test_error_of_a_single_event_has_no_index() -> None:
    with pytest.raises(AllEventsRejected) as caught:
        read({"api_key": TOKEN, "event": "a"})
    assert caught.value.detail == "An event must have a distinct_id."
    assert caught.value.batch.rejected == [
        EventRejection(
            index=0,
            uuid=None,
            code="missing_distinct_id",
            detail="An event must have a distinct_id.",
        )
    ]


def test_single_event_that_is_too_large_is_413() -> None:
    with pytest.raises(AllEventsTooLarge) as caught:
        read({"api_key": TOKEN, **event(properties={"a": "x" * 1_000_000})})
    error = caught.value
    assert (error.status, error.type, error.code) == (413, "invalid_request", "event_too_large")


def test_warnings_are_limited_and_rejections_are_not() -> None:
    result = read(batch(event(), *({} for _ in range(1000)), event(timestamp="soon")))
    assert len(result.rejected) == 1000
    assert len(result.warnings) == MAX_WARNINGS + 1
    assert result.warnings[-1] == IngestionWarning(
        type="more_warnings", detail="901 more warnings about the same request were left out."
    )


@pytest.mark.parametrize("tiny", [event(), {}, event(timestamp="soon"), event(uuid="x"), None])
def test_many_tiny_events_take_bounded_time(tiny: Any) -> None:
    started = time.process_time()
    result = read(batch(event(), *[tiny] * 10_000))
    assert len(result.events) + len(result.rejected) == 10_001
    assert time.process_time() - started < 10  # about 0.1 s on an idle machine


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
@pytest.mark.parametrize("field", ["event", "distinct_id", "uuid", "timestamp", "offset", "$set"])
def test_hostile_text_in_any_field_is_captured_or_rejected(field: str, text: str) -> None:
    result = read(batch(event(), event(**{field: text})))
    assert len(result.events) + len(result.rejected) == 2
    assert decode(encode(result))


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_text_in_properties_is_captured(text: str) -> None:
    (captured,) = read(batch(event(properties={text: {text: [text]}}))).events
    (key,) = captured.properties
    assert captured.properties == {key: {key: [key]}}
    assert decode(encode(captured))


FIELDS = st.sampled_from(
    ["event", "distinct_id", "$distinct_id", "uuid", "timestamp", "offset", "properties", "$set"]
)
EVENTS = st.dictionaries(FIELDS, JSON) | st.builds(
    lambda changes: event(**changes), st.dictionaries(FIELDS, JSON)
)
REQUESTS = (
    JSON
    | EVENTS
    | st.lists(EVENTS)
    | st.fixed_dictionaries(
        {"batch": st.lists(EVENTS | JSON)},
        optional={"api_key": JSON | st.just(TOKEN), "sent_at": JSON, "historical_migration": JSON},
    )
)


@bounded
@given(REQUESTS, st.none() | st.integers(0, 10**15 - 1), st.booleans())
def test_any_payload_is_captured_or_rejected(
    payload: Any, query_sent_at_ms: int | None, is_engage: bool
) -> None:
    result = CaptureBatch(token="", events=())
    with suppress(AppError):
        result = read(payload, query_sent_at_ms=query_sent_at_ms, is_engage=is_engage)
    assert decode(encode(result))
    for each in result.events:
        assert 0 < len(each.event) <= 200
        assert 0 < len(each.distinct_id) <= 200
        assert each.timestamp <= NOW + timedelta(hours=23)
