"""A record that nobody can make sense of stops no other, in its project or elsewhere."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.component import Component
from hedgerow.pipelines.destinations import Destinations
from hedgerow.pipelines.filters import check_settings
from hedgerow.pipelines.model import ComponentId, Family, Record, RecordId
from hedgerow.pipelines.transform import Tally
from hedgerow.pipelines.transformations import Transformations
from hedgerow.projects.model import ProjectId
from tests.unit.pipelines.test_transform import event
from tests.unit.pipelines.world import PROJECT, RECORD, SEALER

OTHER = ProjectId(2)
WEBHOOK, MASK_IP = ComponentId(1), ComponentId(65)
# As no door lets it in.
BROKEN: dict[str, Any] = {"url": "https://example.com", "sampling": "much", "events": [], "mode": 7}


class Stored:
    def __init__(self, *records: Record) -> None:
        self._records = list(records)

    async def destinations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        return self._records

    async def transformations(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        return self._records

    async def generations(self) -> Mapping[ProjectId, int]:
        return {PROJECT: 1, OTHER: 1}

    async def generations_of(self, project_ids: Collection[ProjectId]) -> Mapping[ProjectId, int]:
        return {PROJECT: 1, OTHER: 1}


def record(id: int, component: ComponentId, project: ProjectId, config: Any) -> Record:
    return replace(
        RECORD,
        id=RecordId(id),
        component_id=component,
        project_id=project,
        enabled=True,
        config=config,
    )


async def test_a_destination() -> None:
    good = {"url": "https://example.com"}
    store: Any = Stored(
        record(1, WEBHOOK, PROJECT, BROKEN),
        record(2, WEBHOOK, PROJECT, good),
        record(3, WEBHOOK, OTHER, good),
    )
    destinations = Destinations(store, Catalogue(), SEALER)
    await destinations.refresh()
    problems = {id: each.problem for id, each in destinations.enabled.items()}
    assert problems == {1: "The record cannot be used: TypeError", 2: "", 3: ""}
    assert destinations.routers.keys() == {PROJECT, OTHER}


async def test_what_is_meant_for_settings_that_nobody_can_read_waits() -> None:
    class Broken:
        def seal(self, value: Any) -> str:
            raise NotImplementedError

        def unseal(self, sealed: str) -> Any:
            raise ZeroDivisionError

    config = {"url": "https://example.com", "secret": {"$sealed": "what"}}
    store: Any = Stored(record(1, WEBHOOK, PROJECT, config))
    destinations = Destinations(store, Catalogue(), Broken())
    await destinations.refresh()
    assert destinations.enabled[RecordId(1)].problem.endswith("ZeroDivisionError")
    assert destinations.routers.keys() == {PROJECT}


async def test_a_transformation() -> None:
    store: Any = Stored(
        record(1, MASK_IP, PROJECT, {"properties": 7}),
        record(2, MASK_IP, PROJECT, None),
        record(3, MASK_IP, OTHER, {}),
    )
    transformations = Transformations(store, Catalogue(), SEALER)
    await transformations.refresh([PROJECT, OTHER])
    (refused, broken) = tallies = transformations.chains[PROJECT].tallies()
    before = event({"$ip": "192.0.2.77"})
    assert transformations.chains[PROJECT].passed(before, tallies) is before
    assert refused.error.startswith("properties: ")
    assert broken.error.startswith("The record cannot be used: ")
    masked: list[Tally] = transformations.chains[OTHER].tallies()
    after = transformations.chains[OTHER].passed(before, masked)
    assert after is not None
    assert after.properties == {"$ip": "192.0.2.0"}


def test_a_check_that_ends_programs_only_refuses() -> None:
    def check(_: Mapping[str, Any]) -> None:
        raise SystemExit(1)

    component = Component(
        key="acme/exit",
        family=Family.TRANSFORMATION,
        name="Exit",
        description="",
        version="1",
        check=check,
    )
    detail = "Exit cannot judge these settings: SystemExit."
    with pytest.raises(Invalid, match=detail):
        check_settings(component, {}, SEALER)
