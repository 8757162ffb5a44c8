"""Site apps in the SDK configuration: cached, and reloaded only for changed records."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.http.sdk.sdk_config import BATCH_SIZE, COMMON_FIELDS, SdkConfigs
from hedgerow.pipelines.catalogue import Catalogue
from hedgerow.pipelines.model import ComponentId, Record, RecordId
from hedgerow.plugin.component import Family
from hedgerow.projects.model import ProjectId
from tests.unit.pipelines.sample_components import BAR, HOOK, PROJECT, build_record

HOOK_ID, BAR_ID = ComponentId(1000), ComponentId(1001)
OTHER = ProjectId(2)
WITH_SURVEYS = OTHER


class Store:
    """Stores enabled apps. `put` simulates a change by another process."""

    def __init__(self) -> None:
        self.apps: list[Record] = []
        self.numbers: dict[ProjectId, int] = {}
        self.reads: list[list[ProjectId]] = []
        self.is_away = False

    def put(self, project_id: ProjectId, *apps: Record) -> None:
        others = [record for record in self.apps if record.project_id != project_id]
        self.apps = [*others, *apps]
        self.numbers[project_id] = self.numbers.get(project_id, 0) + 1

    async def public_record(self, id: RecordId, web_token: str) -> Record | None:
        return None

    async def public_apps(self, project_ids: Sequence[ProjectId]) -> list[Record]:
        self.reads.append(list(project_ids))
        if self.is_away:
            raise Unavailable
        return [record for record in self.apps if record.project_id in project_ids]

    async def generations(self) -> Mapping[ProjectId, int]:
        return dict(self.numbers)


def make_app(id: int = 1, **fields: Any) -> Record:
    return build_record(id, family=Family.FRONTEND_APP, component_id=BAR_ID, **fields)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def configs(store: Store) -> SdkConfigs:
    catalogue = Catalogue()
    catalogue.add({"acme/hook": HOOK_ID, "acme/bar": BAR_ID}, [HOOK, BAR], [])
    return SdkConfigs(store, catalogue, lambda id: id == WITH_SURVEYS)


def read_site_apps(configs: SdkConfigs, project_id: ProjectId = PROJECT) -> list[dict[str, Any]]:
    """Return the site apps in the rendered fields, which must be valid JSON."""
    part = configs.render_fields(project_id)
    fields = json.loads(b'{"first":1%s}' % part)
    same = {**COMMON_FIELDS, "first": 1, "surveys": project_id == WITH_SURVEYS}
    assert {**same, "siteApps": fields["siteApps"]} == fields
    apps: list[dict[str, Any]] = fields["siteApps"]
    return apps


async def test_site_apps_are_listed_for_their_project_with_id_and_url(
    store: Store, configs: SdkConfigs
) -> None:
    store.put(PROJECT, make_app(7, web_token="abc"), make_app(3))
    store.put(OTHER, make_app(9, project_id=OTHER))
    assert read_site_apps(configs) == []
    await configs.refresh()
    first, second = read_site_apps(configs)
    assert (first["id"], second["id"], sorted(first)) == (7, 3, ["id", "url"])
    assert first["url"].startswith("/site_app/7/abc/")
    assert [each["id"] for each in read_site_apps(configs, OTHER)] == [9]
    assert read_site_apps(configs, ProjectId(3)) == []


async def test_component_without_a_script_is_not_listed(store: Store, configs: SdkConfigs) -> None:
    store.put(
        PROJECT,
        build_record(1, component_id=HOOK_ID),
        build_record(2, component_id=ComponentId(404)),
        make_app(3),
    )
    await configs.refresh()
    assert [each["id"] for each in read_site_apps(configs)] == [3]


async def test_url_changes_only_with_the_script(store: Store, configs: SdkConfigs) -> None:
    addresses = []
    for fields in (
        {},
        {"name": "Renamed", "order": 5, "config": {"hidden": "x"}},
        {"config": {"message": "hi"}},
        {"config": {"message": "ho"}},
    ):
        store.put(PROJECT, make_app(**fields))
        await configs.refresh()
        addresses.append(read_site_apps(configs)[0]["url"])
    assert addresses[0] == addresses[1] == addresses[2] != addresses[3]


async def test_only_changed_projects_are_reloaded(store: Store, configs: SdkConfigs) -> None:
    store.put(PROJECT, make_app(1))
    store.put(OTHER, make_app(2, project_id=OTHER))
    await configs.refresh()
    await configs.refresh()
    assert store.reads == [[PROJECT, OTHER]]
    store.put(PROJECT)
    await configs.refresh()
    assert store.reads[1:] == [[PROJECT]]
    assert read_site_apps(configs) == []
    assert [each["id"] for each in read_site_apps(configs, OTHER)] == [2]


async def test_many_projects_are_loaded_in_batches(store: Store, configs: SdkConfigs) -> None:
    for id in range(1, BATCH_SIZE + 2):
        store.put(ProjectId(id), make_app(id, project_id=ProjectId(id)))
    await configs.refresh()
    assert [len(ids) for ids in store.reads] == [BATCH_SIZE, 1]
    assert [each["id"] for each in read_site_apps(configs, ProjectId(BATCH_SIZE + 1))] == [
        BATCH_SIZE + 1
    ]


async def test_last_configuration_stays_while_the_database_is_unavailable(
    store: Store, configs: SdkConfigs
) -> None:
    store.put(PROJECT, make_app(1))
    await configs.refresh()
    store.put(PROJECT, make_app(2))
    store.is_away = True
    with pytest.raises(Unavailable):
        await configs.refresh()
    assert [each["id"] for each in read_site_apps(configs)] == [1]
    store.is_away = False
    await configs.refresh()
    assert [each["id"] for each in read_site_apps(configs)] == [2]
