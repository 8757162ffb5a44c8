"""A record with unusable settings stops no other record, in its project or elsewhere."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.lib.optional_packages import MissingPackage
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.destinations.registry import DestinationRegistry
from hedgerow.pipelines.event_filters import check_settings
from hedgerow.pipelines.model import ComponentId, Record, RecordId
from hedgerow.pipelines.transformations.chain import TransformationCounts
from hedgerow.pipelines.transformations.registry import TransformationRegistry
from hedgerow.plugin.component import Component, Family
from hedgerow.projects.model import ProjectId
from tests.unit.pipelines.sample_components import CIPHER, PROJECT, RECORD
from tests.unit.pipelines.transformations.test_chain import event

OTHER = ProjectId(2)
WEBHOOK, MASK_IP = ComponentId(1), ComponentId(65)
# Settings that the API would refuse.
BROKEN: dict[str, Any] = {"url": "https://example.com", "sampling": "much", "events": [], "mode": 7}


class FakeRecordStore:
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


async def test_unusable_destination_does_not_affect_others() -> None:
    good = {"url": "https://example.com"}
    store: Any = FakeRecordStore(
        record(1, WEBHOOK, PROJECT, BROKEN),
        record(2, WEBHOOK, PROJECT, good),
        record(3, WEBHOOK, OTHER, good),
    )
    destinations = DestinationRegistry(store, Catalogue(), CIPHER)
    await destinations.refresh()
    problems = {id: each.problem for id, each in destinations.enabled.items()}
    assert problems == {1: "The record cannot be used: TypeError", 2: "", 3: ""}
    assert destinations.routers.keys() == {PROJECT, OTHER}


async def test_destinations_without_templates_need_no_liquid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load_liquid() -> None:
        raise MissingPackage("liquid")

    for module in ("hedgerow.plugin.templates", "hedgerow.pipelines.destinations.registry"):
        monkeypatch.setattr(f"{module}.load_liquid", load_liquid)
    plain = {"url": "https://example.com"}
    store: Any = FakeRecordStore(
        record(1, WEBHOOK, PROJECT, {**plain, "body": "{{ event.event }}"}),
        record(2, WEBHOOK, PROJECT, plain),
    )
    destinations = DestinationRegistry(store, Catalogue(), CIPHER)
    await destinations.refresh()
    problems = {id: each.problem for id, each in destinations.enabled.items()}
    missing = (
        "Webhook failed to check these settings: The Python package liquid is not installed. "
        "Install it with `pip install 'hedgerow[liquid]'`."
    )
    assert problems == {1: missing, 2: ""}
    assert destinations.routers.keys() == {PROJECT}


async def test_events_wait_for_settings_that_cannot_be_decrypted() -> None:
    class Broken:
        def encrypt(self, value: Any) -> str:
            raise NotImplementedError

        def decrypt(self, encrypted: str) -> Any:
            raise ZeroDivisionError

    config = {"url": "https://example.com", "secret": {"$sealed": "what"}}
    store: Any = FakeRecordStore(record(1, WEBHOOK, PROJECT, config))
    destinations = DestinationRegistry(store, Catalogue(), Broken())
    await destinations.refresh()
    assert destinations.enabled[RecordId(1)].problem.endswith("ZeroDivisionError")
    assert destinations.routers.keys() == {PROJECT}


async def test_unusable_transformation_does_not_affect_others() -> None:
    store: Any = FakeRecordStore(
        record(1, MASK_IP, PROJECT, {"properties": 7}),
        record(2, MASK_IP, PROJECT, None),
        record(3, MASK_IP, OTHER, {}),
    )
    transformations = TransformationRegistry(store, Catalogue(), CIPHER)
    await transformations.refresh([PROJECT, OTHER])
    (refused, broken) = tallies = transformations.chains[PROJECT].new_counts()
    before = event({"$ip": "192.0.2.77"})
    assert transformations.chains[PROJECT].apply(before, tallies, perf_counter) is before
    assert refused.error.startswith("properties: ")
    assert broken.error.startswith("The record cannot be used: ")
    masked: list[TransformationCounts] = transformations.chains[OTHER].new_counts()
    after = transformations.chains[OTHER].apply(before, masked, perf_counter)
    assert after is not None
    assert after.properties == {"$ip": "192.0.2.0"}


def test_check_that_raises_system_exit_is_refused() -> None:
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
    detail = "Exit failed to check these settings: SystemExit."
    with pytest.raises(Invalid, match=detail):
        check_settings(component, {}, CIPHER)
