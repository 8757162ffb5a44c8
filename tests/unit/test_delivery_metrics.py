"""Deliveries for Prometheus: one series for each destination, up to a bound."""

from dataclasses import dataclass, field
from typing import Any, cast

from hedgerow.app.delivery import Delivery
from hedgerow.app.delivery_metrics import MAX_LABELLED, delivery_metrics
from hedgerow.pipelines.backlogs import Backlogs
from hedgerow.pipelines.deliver import Totals
from hedgerow.pipelines.model import RecordId
from hedgerow.pipelines.store import Backlog
from hedgerow.projects.model import ProjectId
from tests.unit.fake_time import START

PROJECT = ProjectId(3)
START_MS = int(START.timestamp() * 1000)


class Counted:
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
class Done:
    totals: dict[RecordId, Totals] = field(default_factory=dict)


@dataclass
class Joined:
    backlogs: Backlogs
    deliverer: Any


async def shown(destinations: int) -> dict[str, dict[tuple[str, ...], float]]:
    backlogs = Backlogs(Counted(destinations), lambda: START)
    await backlogs.look()
    done = Done({RecordId(1): Totals(project_id=PROJECT, delivered=5, retried=2, dead=1)})
    told = delivery_metrics(cast(Delivery, Joined(backlogs, done)))
    return {each.name.removeprefix("hedgerow_deliveries_"): dict(each.values) for each in told}


async def test_each_destination_is_told_of() -> None:
    told = await shown(2)
    assert told["waiting"] == {("3", "1"): 1.0, ("3", "2"): 2.0}
    assert told["retrying"] == {("3", "1"): 0.0, ("3", "2"): 0.0}
    assert told["oldest_seconds"] == {("3", "1"): 1.0, ("3", "2"): 2.0}
    assert told["delivered_total"] == {("3", "1"): 5.0}
    assert told["retried_total"] == {("3", "1"): 2.0}
    assert told["failed_total"] == {("3", "1"): 1.0}


async def test_the_rest_is_told_as_one() -> None:
    told = await shown(MAX_LABELLED + 3)
    assert len(told["waiting"]) == MAX_LABELLED + 1
    assert told["dead"][("other", "other")] == 3.0
    assert told["waiting"][("other", "other")] == sum(range(201, 204))
    assert told["oldest_seconds"][("other", "other")] == 203.0
