from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.ingestion.envelope import TokenRefused, opened
from tests.unit.ingestion.requests import TOKEN, batch, browser_event, event


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
        # A single event may have any other field, also this one.
        ({"api_key": TOKEN, **event(batch="no list")}, 1),
        ({"api_key": TOKEN, **event(batch=None)}, 1),
    ],
)
def test_every_shape_has_its_events_and_its_key(payload: Any, number: int) -> None:
    envelope = opened(payload)
    assert envelope.token == TOKEN
    assert len(envelope.items) == number


def test_only_a_batch_says_when_it_was_sent_and_what_it_is() -> None:
    fields: dict[str, Any] = {"sent_at": "2024-01-02", "historical_migration": True}
    envelope = opened(batch(event(), **fields))
    assert (envelope.sent_at, envelope.historical_migration) == ("2024-01-02", True)
    for payload in ({"api_key": TOKEN, **event(**fields)}, [event(token=TOKEN, **fields)]):
        envelope = opened(payload)
        assert (envelope.sent_at, envelope.historical_migration) == (None, False)


@pytest.mark.parametrize("said", ["true", 1, None, False, [True]])
def test_only_true_makes_a_migration(said: Any) -> None:
    assert not opened(batch(event(), historical_migration=said)).historical_migration


@pytest.mark.parametrize("payload", [None, "", {}, [], 0, False, batch(), {"batch": []}])
def test_a_request_without_an_event_says_so(payload: Any) -> None:
    with pytest.raises(Invalid) as caught:
        opened(payload)
    assert caught.value.code == "no_data"


@pytest.mark.parametrize("payload", [5, 1.5, True, "text", batch() | {"batch": {}}, {"batch": "a"}])
def test_what_is_no_shape_at_all_is_malformed(payload: Any) -> None:
    with pytest.raises(Invalid) as caught:
        opened(payload)
    assert caught.value.code == "malformed_data"


@pytest.mark.parametrize(
    "payload",
    [event(), [event()], {"batch": [event()]}, {"batch": [5]}, [5], {"api_key": None, **event()}],
)
def test_without_a_key_nothing_is_taken(payload: Any) -> None:
    with pytest.raises(TokenRefused) as caught:
        opened(payload)
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
def test_what_cannot_be_a_key_is_refused_by_its_reason(token: Any, reason: str) -> None:
    for payload in (
        event(api_key=token),
        batch(event(), api_key=token),
        [event(token=token)],
        event(properties={"token": token}),
    ):
        with pytest.raises(TokenRefused) as caught:
            opened(payload)
        assert (caught.value.status, caught.value.code) == (401, reason)
        assert caught.value.detail == f"Provided API key is not valid: {reason}"


def test_a_key_of_64_bytes_is_not_too_long() -> None:
    assert opened(event(api_key="a" * 64)).token == "a" * 64


@pytest.mark.parametrize(
    "payload",
    [
        [event(token="phc_a"), event(token="phc_b")],
        [event(token="phc_a"), event(), event(properties={"token": "phc_b"})],
        {"batch": [event(token="phc_a"), event(token="phc_b")]},
    ],
)
def test_events_of_several_projects_are_refused_together(payload: Any) -> None:
    with pytest.raises(TokenRefused) as caught:
        opened(payload)
    assert (caught.value.status, caught.value.code) == (401, "inconsistent_api_keys")


def test_the_key_of_the_batch_goes_before_those_of_its_events() -> None:
    assert opened(batch(event(token="phc_a"), event(token="phc_b"))).token == TOKEN
