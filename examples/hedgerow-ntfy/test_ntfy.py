"""Tests of the destination, without a server. Run `pytest` in this folder."""

import pytest

from hedgerow.plugin import Delivered, Failed, Invalid, TransportError
from hedgerow.plugin.testing import FakeHttp, deliver, make_event, make_settings
from hedgerow_ntfy import COMPONENT, check

EVENT = make_event("bought", distinct_id="ann", properties={"price": 3})


def test_an_event_becomes_a_message_in_the_topic() -> None:
    http = FakeHttp(200)
    message = "Sold for {{ event.properties.price }}"
    outcomes = deliver(COMPONENT, [EVENT], http=http, topic="orders", token="tk_1", message=message)
    assert outcomes == [Delivered()]
    (request,) = http.requests
    assert (request.url, request.body) == ("https://ntfy.sh/orders", b"Sold for 3")
    assert request.headers["authorization"] == "Bearer tk_1"


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (429, Failed(reason="HTTP 429")),
        (403, Failed(reason="HTTP 403", is_final=True)),
        (TransportError("No route to host."), Failed(reason="No route to host.")),
    ],
)
def test_only_temporary_errors_are_retried(response: int | TransportError, outcome: Failed) -> None:
    assert deliver(COMPONENT, [EVENT], http=FakeHttp(response), topic="orders") == [outcome]


@pytest.mark.parametrize("change", [{"topic": "a/b"}, {"server": "ntfy"}, {"message": "{{ event."}])
def test_settings_that_cannot_work_are_refused(change: dict[str, str]) -> None:
    with pytest.raises(Invalid) as refused:
        check(make_settings(COMPONENT, **{"topic": "orders"} | change))
    assert refused.value.attr == f"config__{next(iter(change))}"
