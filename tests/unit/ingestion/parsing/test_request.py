from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.ingestion.parsing.request import InvalidToken, open_envelope
from tests.unit.ingestion.parsing.requests import TOKEN, batch, browser_event, event


@pytest.mark.parametrize(
    ("payload", "number"),
    [
        ({"api_key": TOKEN, **event()}, 1),
        ([event(token=TOKEN), event()], 2),
        (batch(event(), event()), 2),
        (batch(event(), api_key=f" {TOKEN}\n"), 1),
        ({"token": TOKEN, "batch": [event()]}, 1),
        ({"$token": TOKEN, "batch": [event(token="phc_other")]}, 1),
        ({"batch": [event(), event(api_key=TOKEN)]}, 1 + 1),
        ({"batch": [browser_event("a")]}, 1),
        ([browser_event("a"), browser_event("b")], 2),
        ([None, browser_event("a"), "b"], 3),
        (browser_event("a"), 1),
        ({"$token": TOKEN, "$distinct_id": "ann", "$set": {"a": 1}}, 1),
        # A single event may have any other field, including `batch`.
        ({"api_key": TOKEN, **event(batch="no list")}, 1),
        ({"api_key": TOKEN, **event(batch=None)}, 1),
    ],
)
def test_token_and_events_are_read_from_every_format(payload: Any, number: int) -> None:
    envelope = open_envelope(payload)
    assert envelope.token == TOKEN
    assert len(envelope.items) == number


def test_only_a_batch_has_sent_at_and_historical_migration() -> None:
    fields: dict[str, Any] = {"sent_at": "2024-01-02", "historical_migration": True}
    envelope = open_envelope(batch(event(), **fields))
    assert (envelope.sent_at, envelope.historical_migration) == ("2024-01-02", True)
    for payload in ({"api_key": TOKEN, **event(**fields)}, [event(token=TOKEN, **fields)]):
        envelope = open_envelope(payload)
        assert (envelope.sent_at, envelope.historical_migration) == (None, False)


@pytest.mark.parametrize("value", ["true", 1, None, False, [True]])
def test_historical_migration_must_be_true(value: Any) -> None:
    assert not open_envelope(batch(event(), historical_migration=value)).historical_migration


@pytest.mark.parametrize("payload", [None, "", {}, [], 0, False, batch(), {"batch": []}])
def test_request_without_events_is_no_data(payload: Any) -> None:
    with pytest.raises(Invalid) as caught:
        open_envelope(payload)
    assert caught.value.code == "no_data"


@pytest.mark.parametrize("payload", [5, 1.5, True, "text", batch() | {"batch": {}}, {"batch": "a"}])
def test_other_payloads_are_malformed(payload: Any) -> None:
    with pytest.raises(Invalid) as caught:
        open_envelope(payload)
    assert caught.value.code == "malformed_data"


@pytest.mark.parametrize(
    "payload",
    [event(), [event()], {"batch": [event()]}, {"batch": [5]}, [5], {"api_key": None, **event()}],
)
def test_missing_key_is_unauthorized(payload: Any) -> None:
    with pytest.raises(InvalidToken) as caught:
        open_envelope(payload)
    assert (caught.value.status, caught.value.code) == (401, "missing_api_key")


REASONS: list[tuple[Any, str]] = [
    ("", "empty"),
    (" \n", "empty"),
    ("a" * 65, "too_long"),
    ("ä" * 33, "too_long"),
    ("phc_ä", "not_ascii"),
    ("phc_\ud800", "not_ascii"),
    ("phx_abc", "personal_api_key"),
    ("phc_\x00", "null_byte"),
    (5, "not_string"),
    (True, "not_string"),
    (["phc_test"], "not_string"),
    ({"a": "phc_test"}, "not_string"),
]


@pytest.mark.parametrize(("token", "reason"), REASONS)
def test_invalid_key_is_refused_with_the_reason(token: Any, reason: str) -> None:
    for payload in (
        event(api_key=token),
        batch(event(), api_key=token),
        [event(token=token)],
        event(properties={"token": token}),
    ):
        with pytest.raises(InvalidToken) as caught:
            open_envelope(payload)
        assert (caught.value.status, caught.value.code) == (401, reason)
        assert caught.value.detail == f"Provided API key is not valid: {reason}"


def test_key_of_64_bytes_is_accepted() -> None:
    assert open_envelope(event(api_key="a" * 64)).token == "a" * 64


@pytest.mark.parametrize(
    "payload",
    [
        [event(token="phc_a"), event(token="phc_b")],
        [event(token="phc_a"), event(), event(properties={"token": "phc_b"})],
        {"batch": [event(token="phc_a"), event(token="phc_b")]},
    ],
)
def test_events_of_several_projects_are_refused(payload: Any) -> None:
    with pytest.raises(InvalidToken) as caught:
        open_envelope(payload)
    assert (caught.value.status, caught.value.code) == (401, "inconsistent_api_keys")


def test_key_of_the_batch_overrides_keys_of_events() -> None:
    assert open_envelope(batch(event(token="phc_a"), event(token="phc_b"))).token == TOKEN
