"""One attempt of a delivery: secrets that the receiver echoes are masked in the outcome."""

import asyncio
import base64
from typing import Any

import pytest

from hedgerow.lib.clock import utc_now
from hedgerow.lib.workers.sender import current_sender
from hedgerow.lib.workers.sender_places import pause_time_limits
from hedgerow.pipelines.builtin.destinations import webhook
from hedgerow.pipelines.config import MASK
from hedgerow.pipelines.destinations import attempt as attempt_module
from hedgerow.pipelines.destinations.attempt import (
    DeliveryTarget,
    OutboundClients,
    attempt_delivery,
)
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.secret_mask import build_mask
from hedgerow.plugin.http import Response, TransportError
from hedgerow.plugin.outcomes import REASON_BYTES, Failed
from hedgerow.plugin.testing import FakeHttp, make_event, make_settings
from hedgerow.projects.model import ProjectId

TOKEN = "tok-0123456789abcdef"
SETTINGS = make_settings(
    webhook.COMPONENT, url="https://example.com/", headers={"Authorization": f"Bearer {TOKEN}"}
)


async def attempt(deliver: Any, http: FakeHttp) -> Failed:
    target = DeliveryTarget(
        project_id=ProjectId(1),
        record_id=RecordId(1),
        deliver=deliver,
        settings=SETTINGS,
        mask=build_mask(webhook.COMPONENT, SETTINGS),
    )
    (outcome,) = await attempt_delivery(
        target, [make_event()], OutboundClients(http=http), utc_now()
    )
    assert isinstance(outcome, Failed)
    return outcome


@pytest.mark.parametrize(
    "echo",
    [
        f"got Authorization: Bearer {TOKEN}",
        f"wrong token {TOKEN}",
        "wrong: " + base64.b64encode(f"user:{TOKEN}".encode()).decode(),
        # Where the reason is cut.
        *("x" * (REASON_BYTES - cut) + TOKEN for cut in range(1, len(TOKEN))),
    ],
)
async def test_an_echoed_secret_is_masked(echo: str) -> None:
    outcome = await attempt(
        webhook.deliver, FakeHttp(Response(status=400, headers={}, body=echo.encode()))
    )
    assert "tok-" not in outcome.reason
    assert TOKEN[5:12] not in outcome.reason


async def test_a_secret_in_the_text_of_a_component_is_masked() -> None:
    async def deliver(*_: Any) -> list[Failed]:
        return [Failed(reason=f"Cannot log in with {SETTINGS['headers']} at …{TOKEN[:12]}")]

    outcome = await attempt(deliver, FakeHttp(200))
    assert "tok-" not in outcome.reason
    assert MASK in outcome.reason


async def test_a_secret_in_a_transport_error_is_masked() -> None:
    outcome = await attempt(webhook.deliver, FakeHttp(TransportError(f"bad header {TOKEN}")))
    assert outcome.reason == f"bad header {MASK}"


async def test_an_attempt_is_the_work_of_its_project() -> None:
    async def deliver(*_: Any) -> list[Failed]:
        return [Failed(reason=current_sender.get())]

    assert (await attempt(deliver, FakeHttp(200))).reason == "project 1"
    assert current_sender.get() == ""


async def test_an_attempt_does_not_fail_for_having_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_module, "DELIVERY_TIMEOUT_S", 0.01)

    async def deliver(*_: Any) -> list[Failed]:
        with pause_time_limits():
            await asyncio.sleep(0.05)
        return [Failed(reason="it had its turn")]

    assert (await attempt(deliver, FakeHttp(200))).reason == "it had its turn"
