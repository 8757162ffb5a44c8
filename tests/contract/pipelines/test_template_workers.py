"""Templates in worker processes: rendered, killed after their time or memory, and tried again if a
process ended for another reason."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hedgerow.events.model import Event
from hedgerow.lib import jsonio
from hedgerow.lib.clock import utc_now
from hedgerow.lib.workers.sender import work_for
from hedgerow.pipelines.builtin.destinations import webhook
from hedgerow.pipelines.destinations.attempt import (
    DeliveryTarget,
    OutboundClients,
    attempt_delivery,
)
from hedgerow.pipelines.destinations.template_workers import LIMITS, TemplateWorkers
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.secret_mask import SecretMask
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.outcomes import Delivered, Failed, Outcome
from hedgerow.plugin.templates import TemplateError
from hedgerow.plugin.testing import FakeHttp, make_event, make_settings
from hedgerow.projects.model import ProjectId

RECORD: Any = {"project_id": ProjectId(1), "record_id": RecordId(7)}
PAYLOAD = {"event": {"event": "bought", "properties": {"tags": ["a", "b"]}}}
LOOP = "{% for tag in event.properties.tags %}<{{ tag }}>{% endfor %}"
# Within the budget of steps, but `uniq` compares each item with all others.
SLOW = "{{ (1..100000) | join: ',' | split: ',' | uniq | size }}"
LARGE = "{% for i in (1..100000000) reversed %}{% endfor %}"


@pytest.fixture
def workers() -> Iterator[TemplateWorkers]:
    workers = TemplateWorkers(replace(LIMITS, timeout_s=20))
    yield workers
    workers.close()


async def render(workers: TemplateWorkers, template: Any) -> Any:
    return await workers.render(jsonio.encode(template), PAYLOAD, **RECORD)


async def test_a_template_is_rendered(workers: TemplateWorkers) -> None:
    assert await render(workers, {"text": LOOP, "n": 1}) == {"text": "<a><b>", "n": 1}


async def test_an_error_names_its_reason(workers: TemplateWorkers) -> None:
    with pytest.raises(TemplateError, match="4,000,000 characters"):
        await render(workers, "{{ (1..10000000) | join: '' | size }}")
    assert await render(workers, LOOP) == "<a><b>"


async def test_a_template_that_takes_long_is_ended(workers: TemplateWorkers) -> None:
    with pytest.raises(TemplateError, match=r"longer than 0\.3 s"):
        await render(workers, SLOW)
    assert await render(workers, LOOP) == "<a><b>"


async def test_slow_templates_delay_only_projects_with_slow_templates(
    workers: TemplateWorkers,
) -> None:
    await render(workers, LOOP)
    assert not workers.is_slow(ProjectId(1))
    with pytest.raises(TemplateError):
        await render(workers, SLOW)
    assert workers.is_slow(ProjectId(1))
    assert not workers.is_slow(ProjectId(2))


async def test_a_process_that_does_not_answer_is_killed() -> None:
    workers = TemplateWorkers(replace(LIMITS, timeout_s=0.001))
    try:
        with pytest.raises(TemplateError, match=r"longer than 0\.001 s"):
            await render(workers, SLOW)
    finally:
        workers.close()


async def test_a_template_that_needs_much_memory_is_ended(workers: TemplateWorkers) -> None:
    with pytest.raises(TemplateError, match=r"MiB|longer than"):
        await render(workers, LARGE)
    assert await render(workers, LOOP) == "<a><b>"


async def test_a_closed_pool_is_tried_again_later(workers: TemplateWorkers) -> None:
    workers.close()
    with pytest.raises(TransportError):
        await render(workers, LOOP)


async def test_a_payload_that_is_not_json_is_refused(workers: TemplateWorkers) -> None:
    with pytest.raises(TemplateError, match="not JSON"):
        await workers.render(b'"{{ a }}"', {"a": object()}, **RECORD)


async def deliver(
    workers: TemplateWorkers, events: Sequence[Event], body: Any, http: FakeHttp
) -> Sequence[Outcome]:
    target = DeliveryTarget(
        **RECORD,
        deliver=webhook.deliver,
        settings=make_settings(
            webhook.COMPONENT, url="https://example.com/", batch_size=9, body=body
        ),
        mask=SecretMask(),
    )
    clients = OutboundClients(http=http, templates=workers)
    return await attempt_delivery(target, events, clients, utc_now())


async def test_a_template_over_budget_fails_its_event_alone(workers: TemplateWorkers) -> None:
    http = FakeHttp(200)
    events = [make_event("few", properties={"n": 3}), make_event("many", properties={"n": 10**9})]
    body = "{{ (1..event.properties.n) | join: '' }}"
    delivered, failed = await deliver(workers, events, body, http)
    assert delivered == Delivered()
    assert isinstance(failed, Failed)
    assert failed.is_final
    assert failed.event_rejected
    assert "characters" in failed.reason
    assert [request.body for request in http.requests] == [b'["123"]']


async def test_templates_of_a_project_that_wait_do_not_fail(workers: TemplateWorkers) -> None:
    number = 3 * LIMITS.max_waiting_per_sender
    with work_for("project 1"):
        waiting = [asyncio.create_task(render(workers, LOOP)) for _ in range(number)]
    await asyncio.sleep(0)
    with work_for("project 2"):
        assert await render(workers, LOOP) == "<a><b>"
    assert not all(each.done() for each in waiting)
    assert set(await asyncio.gather(*waiting)) == {"<a><b>"}
