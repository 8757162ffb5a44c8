"""What SDKs are told of a project's apps: kept, and read again only where records changed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.http.sdk_config import AT_ONCE, SAME_FOR_ALL, SdkConfigs
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.model import ComponentId, Family, Record, RecordId
from hedgerow.projects.model import ProjectId
from tests.unit.pipelines.world import BAR, HOOK, PROJECT, a_record

HOOK_ID, BAR_ID = ComponentId(1000), ComponentId(1001)
OTHER = ProjectId(2)
WITH_SURVEYS = OTHER


class Store:
    """Keeps enabled apps. `put` is what some process does."""

    def __init__(self) -> None:
        self.apps: list[Record] = []
        self.numbers: dict[ProjectId, int] = {}
        self.reads: list[list[ProjectId]] = []
        self.is_away = False

    def put(self, project_id: ProjectId, *apps: Record) -> None:
        others = [record for record in self.apps if record.project_id != project_id]
        self.apps = [*others, *apps]
        self.numbers[project_id] = self.numbers.get(project_id, 0) + 1

    async def served(self, id: RecordId, web_token: str) -> Record | None:
        return None

    async def served_apps(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        self.reads.append(list(project_ids))
        if self.is_away:
            raise Unavailable
        return [record for record in self.apps if record.project_id in project_ids]

    async def generations(self) -> Mapping[ProjectId, int]:
        return dict(self.numbers)


def an_app(id: int = 1, **fields: Any) -> Record:
    return a_record(id, family=Family.FRONTEND_APP, component_id=BAR_ID, **fields)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def configs(store: Store) -> SdkConfigs:
    catalogue = Catalogue()
    catalogue.add({"acme/hook": HOOK_ID, "acme/bar": BAR_ID}, [HOOK, BAR], [])
    return SdkConfigs(store, catalogue, lambda id: id == WITH_SURVEYS)


def told(configs: SdkConfigs, project_id: ProjectId = PROJECT) -> list[dict[str, Any]]:
    """The apps in the part of an answer, which is one and whole."""
    part = configs.part(project_id)
    fields = json.loads(b'{"first":1%s}' % part)
    same = {**SAME_FOR_ALL, "first": 1, "surveys": project_id == WITH_SURVEYS}
    assert {**same, "siteApps": fields["siteApps"]} == fields
    apps: list[dict[str, Any]] = fields["siteApps"]
    return apps


async def test_apps_are_told_to_their_own_project_by_number_and_address(
    store: Store, configs: SdkConfigs
) -> None:
    store.put(PROJECT, an_app(7, web_token="abc"), an_app(3))
    store.put(OTHER, an_app(9, project_id=OTHER))
    assert told(configs) == []
    await configs.watch()
    first, second = told(configs)
    assert (first["id"], second["id"], sorted(first)) == (7, 3, ["id", "url"])
    assert first["url"].startswith("/site_app/7/abc/")
    assert [each["id"] for each in told(configs, OTHER)] == [9]
    assert told(configs, ProjectId(3)) == []


async def test_what_has_no_script_here_is_not_told(store: Store, configs: SdkConfigs) -> None:
    store.put(
        PROJECT,
        a_record(1, component_id=HOOK_ID),
        a_record(2, component_id=ComponentId(404)),
        an_app(3),
    )
    await configs.watch()
    assert [each["id"] for each in told(configs)] == [3]


async def test_the_address_moves_with_what_a_page_gets_and_with_nothing_else(
    store: Store, configs: SdkConfigs
) -> None:
    addresses = []
    for fields in (
        {},
        {"name": "Renamed", "order": 5, "config": {"hidden": "x"}},
        {"config": {"message": "hi"}},
        {"config": {"message": "ho"}},
    ):
        store.put(PROJECT, an_app(**fields))
        await configs.watch()
        addresses.append(told(configs)[0]["url"])
    assert addresses[0] == addresses[1] == addresses[2] != addresses[3]


async def test_only_projects_that_changed_are_read_again(store: Store, configs: SdkConfigs) -> None:
    store.put(PROJECT, an_app(1))
    store.put(OTHER, an_app(2, project_id=OTHER))
    await configs.watch()
    await configs.watch()
    assert store.reads == [[PROJECT, OTHER]]
    store.put(PROJECT)
    await configs.watch()
    assert store.reads[1:] == [[PROJECT]]
    assert told(configs) == []
    assert [each["id"] for each in told(configs, OTHER)] == [2]


async def test_many_projects_are_read_a_part_at_a_time(store: Store, configs: SdkConfigs) -> None:
    for id in range(1, AT_ONCE + 2):
        store.put(ProjectId(id), an_app(id, project_id=ProjectId(id)))
    await configs.watch()
    assert [len(ids) for ids in store.reads] == [AT_ONCE, 1]
    assert [each["id"] for each in told(configs, ProjectId(AT_ONCE + 1))] == [AT_ONCE + 1]


async def test_with_the_database_away_the_last_that_was_known_is_told(
    store: Store, configs: SdkConfigs
) -> None:
    store.put(PROJECT, an_app(1))
    await configs.watch()
    store.put(PROJECT, an_app(2))
    store.is_away = True
    with pytest.raises(Unavailable):
        await configs.watch()
    assert [each["id"] for each in told(configs)] == [1]
    store.is_away = False
    await configs.watch()
    assert [each["id"] for each in told(configs)] == [2]
