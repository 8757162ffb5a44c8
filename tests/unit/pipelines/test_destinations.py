"""What the built-in destinations make of settings, events and answers."""

import gzip
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from hedgerow.errors import Invalid
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.components import (
    local_files,
    postgres_table,
    posthog_copy,
    s3_storage,
    slack_message,
)
from hedgerow.pipelines.database_address import database_address
from hedgerow.pipelines.sending import (
    Failed,
    Outcome,
    Request,
    Response,
    Sent,
    Stream,
    Surroundings,
)
from tests.sent_events import AT, sent_event


class Answering:
    """The other side, which always says the same."""

    def __init__(
        self, status: int = 200, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        self.response = Response(status=status, headers=headers or {}, body=body)
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        return self.response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    @property
    def around(self) -> Surroundings:
        return Surroundings(http=self, now=AT)


def settings(component: Component, **given: Any) -> dict[str, Any]:
    known = {field.key: field.default for field in component.settings}
    assert set(given) <= set(known)
    return known | given


SLACK = {"webhook_url": "https://hooks.example.com/T/B/x"}
COPY = {"host": "https://flags.example.com/", "project_key": "phc_other"}
S3 = {"bucket": "events", "access_key_id": "id", "secret_access_key": "secret"}
TABLE = {"url": "postgresql://user:pass@db.example.com/warehouse"}
FILES = {"folder": "archive/web"}


@pytest.mark.parametrize(
    ("component", "given", "attr"),
    [
        (slack_message.COMPONENT, SLACK | {"webhook_url": "hooks"}, "webhook_url"),
        (slack_message.COMPONENT, SLACK | {"message": "{{ event."}, "message"),
        (posthog_copy.COMPONENT, COPY | {"host": "flags.example.com"}, "host"),
        (posthog_copy.COMPONENT, COPY | {"host": "https://x/?a=b"}, "host"),
        (s3_storage.COMPONENT, S3 | {"bucket": "a"}, "bucket"),
        (s3_storage.COMPONENT, S3 | {"bucket": "a/../b"}, "bucket"),
        (s3_storage.COMPONENT, S3 | {"prefix": "/abc"}, "prefix"),
        (s3_storage.COMPONENT, S3 | {"prefix": "a" * 901}, "prefix"),
        (s3_storage.COMPONENT, S3 | {"endpoint": "minio:9000"}, "endpoint"),
        (s3_storage.COMPONENT, S3 | {"endpoint": "http://u:p@x"}, "endpoint"),
        (s3_storage.COMPONENT, S3 | {"region": "eu west"}, "region"),
        (s3_storage.COMPONENT, S3 | {"access_key_id": None}, "access_key_id"),
        (s3_storage.COMPONENT, S3 | {"secret_access_key": ""}, "secret_access_key"),
        (s3_storage.COMPONENT, S3 | {"max_megabytes": 0}, "max_megabytes"),
        (postgres_table.COMPONENT, TABLE | {"url": "mysql://u:p@h/d"}, "url"),
        (postgres_table.COMPONENT, TABLE | {"table": "t" * 64}, "table"),
        (postgres_table.COMPONENT, TABLE | {"schema": "\0"}, "schema"),
        (local_files.COMPONENT, FILES | {"folder": "../up"}, "folder"),
        (local_files.COMPONENT, FILES | {"folder": "a/../../up"}, "folder"),
        (local_files.COMPONENT, FILES | {"folder": "/etc"}, "folder"),
        (local_files.COMPONENT, FILES | {"folder": "a//b"}, "folder"),
        (local_files.COMPONENT, FILES | {"folder": ".hidden"}, "folder"),
        (local_files.COMPONENT, FILES | {"folder": "a\nb"}, "folder"),
        (local_files.COMPONENT, FILES | {"folder": "x" * 101}, "folder"),
        (local_files.COMPONENT, FILES | {"max_minutes": 0}, "max_minutes"),
        (local_files.COMPONENT, FILES | {"max_megabytes": 10_001}, "max_megabytes"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    component: Component, given: dict[str, Any], attr: str
) -> None:
    assert component.check is not None
    with pytest.raises(Invalid) as refused:
        component.check(settings(component, **given))
    assert refused.value.attr == f"config__{attr}"


@pytest.mark.parametrize(
    ("component", "given"),
    [
        (slack_message.COMPONENT, SLACK),
        (posthog_copy.COMPONENT, COPY),
        (s3_storage.COMPONENT, S3),
        (s3_storage.COMPONENT, {"bucket": "my.bucket-1", "endpoint": "http://[::1]:9000/base"}),
        (
            postgres_table.COMPONENT,
            TABLE | {"url": "postgres://u@[2001:db8::1]:5/d?sslmode=require"},
        ),
        (local_files.COMPONENT, FILES),
        (local_files.COMPONENT, {"folder": "a b/c.d-e_f/"}),
    ],
)
def test_good_settings_pass(component: Component, given: dict[str, Any]) -> None:
    assert component.check is not None
    component.check(settings(component, **given))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///db?host=/var/run",
        "postgresql://u@%2Fvar%2Frun/db",
        "postgresql://u@a,b/db",
        "postgresql://u@h/db?host=127.0.0.1",
        "postgresql://u@h/db?hostaddr=127.0.0.1",
        "postgresql://u@h/db?service=mine",
        "postgresql://u@h/db?sslkey=/etc/passwd",
        "postgresql://u@h/db?sslmode=allow",
        "postgresql://h/db",
        "postgresql://u@h",
        "postgresql://u@h:99999/db",
        "host=127.0.0.1 user=u",
        "",
    ],
)
def test_an_address_leads_to_one_host_and_no_file(url: str) -> None:
    with pytest.raises(ValueError, match=r"it|host|nothing|sslmode"):
        database_address(url)


def test_an_address_is_read_and_shown_without_its_secrets() -> None:
    address = database_address("postgresql://us%40er:p%2Fss@Db.example.com:5433/ware%20house")
    assert (address.user, address.password) == ("us@er", "p/ss")
    assert address.shown == "postgresql://db.example.com:5433/ware house"


async def slack(http: Answering, *events: Any, **given: Any) -> list[Outcome]:
    plain = settings(slack_message.COMPONENT, **SLACK, **given)
    return list(await slack_message.deliver(events, plain, http.around))


async def test_a_message_calls_nobody_that_an_event_names() -> None:
    http = Answering()
    message = "<https://x|{{ event.properties.name }}> & {{ event.event }}"
    event = sent_event("a<b>&", name="<!channel>")
    assert await slack(http, event, message=message) == [Sent()]
    (request,) = http.requests
    assert json.loads(request.body) == {"text": "<https://x|&lt;!channel&gt;> & a&lt;b&gt;&amp;"}


async def test_messages_of_a_batch_are_lines_and_an_empty_one_is_dead() -> None:
    http = Answering()
    events = [sent_event(n=1), sent_event(), sent_event(n=[2])]
    one, none, other = await slack(http, *events, message="{{ event.properties.n }}")
    assert (one, other) == (Sent(), Sent())
    assert none == Failed(reason="The message is empty.", is_final=True, is_events_fault=True)
    assert json.loads(http.requests[0].body) == {"text": "1\n[2]"}


@pytest.mark.parametrize(
    ("status", "body", "is_final", "told"),
    [
        (400, b"no_text", True, "The message is empty"),
        (403, b"invalid_token", True, "make a new incoming webhook"),
        (404, b"channel_not_found", True, "make a new incoming webhook"),
        (410, b"channel_is_archived", True, "another channel"),
        (400, b"invalid_payload", True, "HTTP 400: invalid_payload"),
        (500, b"rollup_error", False, "HTTP 500"),
        (429, b"", False, "HTTP 429"),
    ],
)
async def test_what_slack_answers(status: int, body: bytes, is_final: bool, told: str) -> None:
    (outcome,) = await slack(Answering(status, body, {"retry-after": "7"}), sent_event())
    assert isinstance(outcome, Failed)
    assert outcome.is_final is is_final
    assert outcome.retry_after_s == (None if is_final else 7)
    assert told in outcome.reason


async def test_events_are_passed_on_as_they_were() -> None:
    http = Answering()
    past = msgspec.structs.replace(sent_event("old"), historical_migration=True)
    clicked = msgspec.structs.replace(sent_event(price=1), elements_chain='a:href="/"')
    plain = settings(posthog_copy.COMPONENT, **COPY)
    outcomes = await posthog_copy.deliver([past, clicked], plain, http.around)
    assert outcomes == [Sent(), Sent()]
    now, then = [json.loads(gzip.decompress(each.body)) for each in http.requests]
    assert http.requests[0].url == "https://flags.example.com/batch/"
    assert "sent_at" not in now
    assert (now["api_key"], now.get("historical_migration")) == ("phc_other", None)
    assert then["historical_migration"] is True
    assert now["batch"] == [
        {
            "uuid": clicked.uuid,
            "event": "bought",
            "distinct_id": "ann",
            "timestamp": "2026-03-29T01:30:00.123456Z",
            "properties": {"price": 1, "$elements_chain": 'a:href="/"', "$ip": None},
        }
    ]


async def test_the_other_instance_may_refuse_some_all_or_the_key() -> None:
    plain = settings(posthog_copy.COMPONENT, **COPY)
    events = [sent_event(), sent_event()]
    told = b'{"status": 1, "rejected": [{"index": 1, "code": "x", "detail": "too long"}, 3]}'
    some = await posthog_copy.deliver(events, plain, Answering(200, told).around)
    refused = Failed(reason="Refused: too long", is_final=True, is_events_fault=True)
    assert some == [Sent(), refused]
    (key, _) = await posthog_copy.deliver(events, plain, Answering(401, b"no").around)
    assert key == Failed(reason="HTTP 401: no Check the project key.")
    (bad, _) = await posthog_copy.deliver(events, plain, Answering(400, b"no").around)
    assert bad == Failed(reason="HTTP 400: no", is_final=True, is_events_fault=True)


async def test_an_object_is_named_by_its_events_and_always_the_same() -> None:
    http = Answering()
    events = [sent_event() for _ in range(3)]
    plain = settings(s3_storage.COMPONENT, **S3, format="jsonl.gz", endpoint="http://x:1")
    for _ in range(2):
        assert await s3_storage.deliver(events, plain, http.around) == [Sent()] * 3
    first, again = http.requests
    assert (first.url, first.body) == (again.url, again.body)
    assert first.url.startswith("http://x:1/events/hedgerow/2026/03/29/")
    assert first.url.endswith(".jsonl.gz")
    assert len(gzip.decompress(first.body).splitlines()) == 3
    await s3_storage.deliver(events[:2], plain, http.around)
    assert http.requests[-1].url != first.url


async def test_the_bucket_may_be_part_of_the_host() -> None:
    http = Answering()
    plain = settings(s3_storage.COMPONENT, **S3, path_style=False, region="eu-west-1")
    await s3_storage.deliver([sent_event()], plain, http.around)
    (request,) = http.requests
    assert request.url.startswith("https://events.s3.eu-west-1.amazonaws.com/hedgerow/2026/")
    assert request.headers["host"] == "events.s3.eu-west-1.amazonaws.com"
    assert "/20260329/eu-west-1/s3/aws4_request" in request.headers["authorization"]


async def test_objects_are_no_larger_than_asked_for() -> None:
    http = Answering()
    events = [sent_event(text="x" * 400_000) for _ in range(5)]
    plain = settings(s3_storage.COMPONENT, **S3, max_megabytes=1)
    assert await s3_storage.deliver(events, plain, http.around) == [Sent()] * 5
    assert [len(each.body.splitlines()) for each in http.requests] == [2, 2, 1]


async def test_no_answer_of_storage_makes_events_dead() -> None:
    plain = settings(s3_storage.COMPONENT, **S3)
    body = b"<Error><Code>AccessDenied</Code><Message>Denied</Message></Error>"
    for status in (301, 400, 403, 404, 503):
        (outcome,) = await s3_storage.deliver([sent_event()], plain, Answering(status, body).around)
        assert isinstance(outcome, Failed)
        assert not outcome.is_final
        assert "check their policy" in outcome.reason
