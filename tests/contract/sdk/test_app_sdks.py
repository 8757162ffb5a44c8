"""posthog-js-lite and posthog-react-native in Node, against a live server."""

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.contract.sdk.projects import EVERYBODY, Project, new_project
from tests.contract.sdk.sdk_process import SdkProcess, node_command
from tests.support.live import LiveServer, build_environment, wait_for

PRO = {"key": "plan", "type": "person", "operator": "exact", "value": ["pro"]}
LARGE = {"key": "size", "type": "group", "group_type_index": 0, "operator": "gt", "value": 10}
VARIANTS = [{"key": "dark", "rollout_percentage": 100}]


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    package: str
    version: str
    library: str


APPS = (
    App(package="posthog-js-lite", version="4.12.1", library="js"),
    App(package="posthog-js-lite-3", version="3.6.0", library="js"),
    App(package="posthog-react-native", version="4.78.0", library="posthog-react-native"),
)


@pytest.fixture(params=APPS, ids=lambda app: app.package)
def app(request: pytest.FixtureRequest) -> App:
    found: App = request.param
    return found


@pytest.fixture
def project(live_admin: httpx.Client) -> Project:
    """A project for each client: they all send the same events."""
    project = new_project(live_admin)
    project.create("groups", group_type="company", group_key="acme", group_properties={})
    project.create_flag("everybody", payloads={"true": '{"colour": "red"}'})
    project.create_flag("shades", multivariate={"variants": VARIANTS}, payloads={"dark": "[1, 2]"})
    project.create_flag("pros", groups=[{**EVERYBODY, "properties": [PRO]}])
    company = {"groups": [{**EVERYBODY, "properties": [LARGE]}], "aggregation_group_type_index": 0}
    project.create_flag("companies", **company)
    return project


@pytest.fixture
def client(app: App, live: LiveServer, project: Project) -> Iterator[SdkProcess]:
    with SdkProcess(node_command("app_driver.cjs", app.package), build_environment()) as client:
        assert client.open(host=live.address, token=project.token) == app.version
        yield client


def test_app_sdk_lifecycle(app: App, client: SdkProcess, project: Project) -> None:
    before = client.distinct_id()
    flags = {"everybody": True, "shades": "dark", "pros": False, "companies": False}
    assert client.reload() == flags
    client.register(properties={"shop": "north"})
    client.capture(event="seen", properties={"n": 1})
    client.identify(id="ann", properties={"plan": "pro"})
    assert client.distinct_id() == "ann"
    client.alias(id="ann-too")
    client.group(type="company", key="acme", properties={"size": 50})
    assert client.flush() is None
    # The person and group properties apply from now on. A request may be in flight already, with
    # the previous ones.
    known = flags | {"pros": True, "companies": True}
    wait_for(lambda: client.reload() == known, at_most_s=60)
    assert client.flag(key="shades") == "dark"
    assert client.payload(key="shades") == [1, 2]
    assert client.payload(key="everybody") == {"colour": "red"}
    client.opt_out()
    client.capture(event="secret", properties={})
    client.opt_in()
    client.capture(event="bought", properties={"n": 2})
    assert client.flush() is None
    client.reset()
    after = client.distinct_id()
    assert after not in (before, "ann")
    client.capture(event="later", properties={})
    assert client.close() is None
    assert not [path for path in client.requested_paths() if "/decide" in path]

    bought = project.wait_for_event("ann", "bought")["properties"]
    assert (bought["n"], bought["shop"], bought["$lib"]) == (2, "north", app.library)
    assert (bought["$groups"], bought["$feature/shades"]) == ({"company": "acme"}, "dark")
    called = project.wait_for_event("ann", "$feature_flag_called")["properties"]
    assert (called["$feature_flag"], called["$feature_flag_response"]) == ("shades", "dark")
    assert called["$feature_flag_version"] == 1
    assert project.wait_for_event(before, "seen")["properties"]["n"] == 1
    assert "shop" not in project.wait_for_event(after, "later")["properties"]
    assert project.events(event="secret") == []
    ann = project.person(before)
    assert set(ann["distinct_ids"]) == {before, "ann", "ann-too"}
    assert ann["properties"]["plan"] == "pro"
    assert project.group_sizes() == {"acme": 50}
