"""What the destination sends and refuses. `pytest` in this folder runs it."""

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.events.model import Event, PersonMode
from hedgerow.pipelines.sending import Failed, Request, Response, Sent, Stream, Surroundings
from hedgerow.projects.model import ProjectId
from hedgerow_ntfy import COMPONENT, check, deliver

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVENT = Event(
    project_id=ProjectId(1),
    uuid="0199aaaa-0000-7000-8000-000000000000",
    event="bought",
    distinct_id="ann",
    properties='{"price": 3}',
    elements_chain="",
    timestamp=NOW,
    created_at=NOW,
    person_id="",
    person_created_at=NOW,
    person_properties="{}",
    person_mode=PersonMode.FULL,
    historical_migration=False,
)
SETTINGS = {field.key: field.default for field in COMPONENT.settings} | {"topic": "orders"}


class Http:
    """The other side: it notes requests, and always answers with the same status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        return Response(status=self.status, headers={}, body=b"")

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError


def delivered(http: Http, **settings: Any) -> Any:
    around = Surroundings(http=http, now=NOW)
    return asyncio.run(deliver([EVENT], SETTINGS | settings, around))[0]


def test_an_event_is_a_message_in_the_topic() -> None:
    http = Http(200)
    told = delivered(http, token="tk_1", message="Sold for {{ event.properties.price }}")
    assert told == Sent()
    (request,) = http.requests
    assert (request.url, request.body) == ("https://ntfy.sh/orders", b"Sold for 3")
    assert request.headers["authorization"] == "Bearer tk_1"


def test_a_busy_server_is_asked_again_and_one_that_refuses_is_not() -> None:
    assert delivered(Http(429)) == Failed(reason="HTTP 429")
    assert delivered(Http(403)) == Failed(reason="HTTP 403", is_final=True)


@pytest.mark.parametrize("change", [{"topic": "a/b"}, {"server": "ntfy"}, {"message": "{{ event."}])
def test_settings_that_cannot_work_are_refused(change: dict[str, str]) -> None:
    with pytest.raises(Invalid) as refused:
        check(SETTINGS | change)
    assert refused.value.attr == f"config__{next(iter(change))}"
