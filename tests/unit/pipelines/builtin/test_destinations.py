"""The built-in destinations: settings, requests and responses."""

import gzip
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from hedgerow.errors import Invalid
from hedgerow.pipelines.builtin.destinations import (
    local_files,
    postgres_table,
    posthog_copy,
    s3_storage,
    slack_message,
)
from hedgerow.plugin.component import Component
from hedgerow.plugin.database_address import parse_database_address
from hedgerow.plugin.delivery import DeliveryContext
from hedgerow.plugin.http import Request, Response, StreamedResponse
from hedgerow.plugin.outcomes import Delivered, Failed, Outcome
from tests.support.sent_events import AT, build_event


class FakeService:
    """A service that always sends the same response."""

    def __init__(
        self, status: int = 200, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> None:
        self.response = Response(status=status, headers=headers or {}, body=body)
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        return self.response

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamedResponse]:
        raise NotImplementedError

    @property
    def ctx(self) -> DeliveryContext:
        return DeliveryContext(http=self, now=AT)


def settings(component: Component, **overrides: Any) -> dict[str, Any]:
    known = {field.key: field.default for field in component.settings}
    assert set(overrides) <= set(known)
    return known | overrides


SLACK = {"webhook_url": "https://hooks.example.com/T/B/x"}
COPY = {"host": "https://flags.example.com/", "project_key": "phc_other"}
S3 = {"bucket": "events", "access_key_id": "id", "secret_access_key": "secret"}
TABLE = {"url": "postgresql://user:pass@db.example.com/warehouse"}
FILES = {"folder": "archive/web"}


@pytest.mark.parametrize(
    ("component", "overrides", "attr"),
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
def test_unusable_setting_is_refused_by_name(
    component: Component, overrides: dict[str, Any], attr: str
) -> None:
    assert component.check is not None
    with pytest.raises(Invalid) as caught:
        component.check(settings(component, **overrides))
    assert caught.value.attr == f"config__{attr}"


@pytest.mark.parametrize(
    ("component", "overrides"),
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
def test_good_settings_pass(component: Component, overrides: dict[str, Any]) -> None:
    assert component.check is not None
    component.check(settings(component, **overrides))


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
def test_database_url_allows_one_host_and_no_files(url: str) -> None:
    with pytest.raises(ValueError, match=r"it|host|nothing|sslmode"):
        parse_database_address(url)


def test_database_url_is_parsed_and_redacted() -> None:
    address = parse_database_address("postgresql://us%40er:p%2Fss@Db.example.com:5433/ware%20house")
    assert (address.user, address.password) == ("us@er", "p/ss")
    assert address.redacted_url == "postgresql://db.example.com:5433/ware house"


async def slack(http: FakeService, *events: Any, **overrides: Any) -> list[Outcome]:
    plain = settings(slack_message.COMPONENT, **SLACK, **overrides)
    return list(await slack_message.deliver(events, plain, http.ctx))


async def test_message_contains_no_mentions_from_events() -> None:
    http = FakeService()
    message = "<https://x|{{ event.properties.name }}> & {{ event.event }}"
    event = build_event("a<b>&", name="<!channel>")
    assert await slack(http, event, message=message) == [Delivered()]
    (request,) = http.requests
    assert json.loads(request.body) == {"text": "<https://x|&lt;!channel&gt;> & a&lt;b&gt;&amp;"}


async def test_batch_is_one_message_of_lines_and_an_empty_message_fails() -> None:
    http = FakeService()
    events = [build_event(n=1), build_event(), build_event(n=[2])]
    one, none, other = await slack(http, *events, message="{{ event.properties.n }}")
    assert (one, other) == (Delivered(), Delivered())
    assert none == Failed(reason="The message is empty.", is_final=True, event_rejected=True)
    assert json.loads(http.requests[0].body) == {"text": "1\n[2]"}


@pytest.mark.parametrize(
    ("status", "body", "is_final", "expected"),
    [
        (400, b"no_text", True, "The message is empty"),
        (403, b"invalid_token", True, "create a new incoming webhook"),
        (404, b"channel_not_found", True, "create a new incoming webhook"),
        (410, b"channel_is_archived", True, "another channel"),
        (400, b"invalid_payload", True, "HTTP 400: invalid_payload"),
        (500, b"rollup_error", False, "HTTP 500"),
        (429, b"", False, "HTTP 429"),
    ],
)
async def test_responses_of_slack(status: int, body: bytes, is_final: bool, expected: str) -> None:
    (outcome,) = await slack(FakeService(status, body, {"retry-after": "7"}), build_event())
    assert isinstance(outcome, Failed)
    assert outcome.is_final is is_final
    assert outcome.retry_after_s == (None if is_final else 7)
    assert expected in outcome.reason


async def test_events_are_forwarded_unchanged() -> None:
    http = FakeService()
    past = msgspec.structs.replace(build_event("old"), historical_migration=True)
    clicked = msgspec.structs.replace(build_event(price=1), elements_chain='a:href="/"')
    plain = settings(posthog_copy.COMPONENT, **COPY)
    outcomes = await posthog_copy.deliver([past, clicked], plain, http.ctx)
    assert outcomes == [Delivered(), Delivered()]
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


async def test_instance_may_refuse_events_or_the_key() -> None:
    plain = settings(posthog_copy.COMPONENT, **COPY)
    events = [build_event(), build_event()]
    expected = b'{"status": 1, "rejected": [{"index": 1, "code": "x", "detail": "too long"}, 3]}'
    some = await posthog_copy.deliver(events, plain, FakeService(200, expected).ctx)
    refused = Failed(reason="Rejected: too long", is_final=True, event_rejected=True)
    assert some == [Delivered(), refused]
    (key, _) = await posthog_copy.deliver(events, plain, FakeService(401, b"no").ctx)
    assert key == Failed(reason="HTTP 401: no Check the project key.")
    (bad, _) = await posthog_copy.deliver(events, plain, FakeService(400, b"no").ctx)
    assert bad == Failed(reason="HTTP 400: no", is_final=True, event_rejected=True)


async def test_key_of_an_object_depends_only_on_its_events() -> None:
    http = FakeService()
    events = [build_event() for _ in range(3)]
    plain = settings(s3_storage.COMPONENT, **S3, format="jsonl.gz", endpoint="http://x:1")
    for _ in range(2):
        assert await s3_storage.deliver(events, plain, http.ctx) == [Delivered()] * 3
    first, again = http.requests
    assert (first.url, first.body) == (again.url, again.body)
    assert first.url.startswith("http://x:1/events/hedgerow/2026/03/29/")
    assert first.url.endswith(".jsonl.gz")
    assert len(gzip.decompress(first.body).splitlines()) == 3
    await s3_storage.deliver(events[:2], plain, http.ctx)
    assert http.requests[-1].url != first.url


async def test_bucket_may_be_part_of_the_host() -> None:
    http = FakeService()
    plain = settings(s3_storage.COMPONENT, **S3, path_style=False, region="eu-west-1")
    await s3_storage.deliver([build_event()], plain, http.ctx)
    (request,) = http.requests
    assert request.url.startswith("https://events.s3.eu-west-1.amazonaws.com/hedgerow/2026/")
    assert request.headers["host"] == "events.s3.eu-west-1.amazonaws.com"
    assert "/20260329/eu-west-1/s3/aws4_request" in request.headers["authorization"]


async def test_objects_respect_the_maximum_size() -> None:
    http = FakeService()
    events = [build_event(text="x" * 400_000) for _ in range(5)]
    plain = settings(s3_storage.COMPONENT, **S3, max_megabytes=1)
    assert await s3_storage.deliver(events, plain, http.ctx) == [Delivered()] * 5
    assert [len(each.body.splitlines()) for each in http.requests] == [2, 2, 1]


async def test_errors_of_storage_are_retried() -> None:
    plain = settings(s3_storage.COMPONENT, **S3)
    body = b"<Error><Code>AccessDenied</Code><Message>Denied</Message></Error>"
    for status in (301, 400, 403, 404, 503):
        (outcome,) = await s3_storage.deliver([build_event()], plain, FakeService(status, body).ctx)
        assert isinstance(outcome, Failed)
        assert not outcome.is_final
        assert "check their policy" in outcome.reason
