"""Delivery metrics: one series for each destination, up to a limit."""

from dataclasses import dataclass, field
from typing import Any, cast

from hedgerow.app.delivery import DeliverySystem
from hedgerow.app.metrics import MAX_LABELLED, delivery_metrics
from hedgerow.pipelines.deliveries.deliverer import DeliveryTotals
from hedgerow.pipelines.deliveries.destination_health import BacklogMonitor
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import Backlog
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import START

PROJECT = ProjectId(3)
START_MS = int(START.timestamp() * 1000)


class FakeBacklogs:
    def __init__(self, destinations: int) -> None:
        self._destinations = destinations

    async def backlogs(self) -> dict[RecordId, Backlog]:
        return {
            RecordId(id): Backlog(
                project_id=PROJECT, waiting=id, dead=1, oldest_ms=START_MS - id * 1000
            )
            for id in range(1, self._destinations + 1)
        }


@dataclass
class FakeDeliverer:
    totals: dict[RecordId, DeliveryTotals] = field(default_factory=dict)


@dataclass
class FakeDeliverySystem:
    backlogs: BacklogMonitor
    deliverer: Any


async def collect_metrics(destinations: int) -> dict[str, dict[tuple[str, ...], float]]:
    backlogs = BacklogMonitor(FakeBacklogs(destinations), lambda: START)
    await backlogs.refresh()
    deliverer = FakeDeliverer(
        {RecordId(1): DeliveryTotals(project_id=PROJECT, delivered=5, retried=2, dead=1)}
    )
    metrics = delivery_metrics(cast(DeliverySystem, FakeDeliverySystem(backlogs, deliverer)))
    return {each.name.removeprefix("hedgerow_deliveries_"): dict(each.values) for each in metrics}


async def test_each_destination_has_its_series() -> None:
    metrics = await collect_metrics(2)
    assert metrics["waiting"] == {("3", "1"): 1.0, ("3", "2"): 2.0}
    assert metrics["retrying"] == {("3", "1"): 0.0, ("3", "2"): 0.0}
    assert metrics["oldest_seconds"] == {("3", "1"): 1.0, ("3", "2"): 2.0}
    assert metrics["delivered_total"] == {("3", "1"): 5.0}
    assert metrics["retried_total"] == {("3", "1"): 2.0}
    assert metrics["failed_total"] == {("3", "1"): 1.0}


async def test_further_destinations_share_one_series() -> None:
    metrics = await collect_metrics(MAX_LABELLED + 3)
    assert len(metrics["waiting"]) == MAX_LABELLED + 1
    assert metrics["dead"][("other", "other")] == 3.0
    assert metrics["waiting"][("other", "other")] == sum(range(201, 204))
    assert metrics["oldest_seconds"][("other", "other")] == 203.0
