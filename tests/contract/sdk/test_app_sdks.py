"""The small client for pages and the one for React Native, each in Node, and a live server."""

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.contract.sdk.driven import Driven, in_node
from tests.contract.sdk.projects import EVERYBODY, Project, new_project
from tests.live import LiveServer, environment

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
    """One for each client, for they all send the same."""
    project = new_project(live_admin)
    project.makes("groups", group_type="company", group_key="acme", group_properties={})
    project.makes_flag("everybody", payloads={"true": '{"colour": "red"}'})
    project.makes_flag("shades", multivariate={"variants": VARIANTS}, payloads={"dark": "[1, 2]"})
    project.makes_flag("pros", groups=[{**EVERYBODY, "properties": [PRO]}])
    company = {"groups": [{**EVERYBODY, "properties": [LARGE]}], "aggregation_group_type_index": 0}
    project.makes_flag("companies", **company)
    return project


@pytest.fixture
def client(app: App, live: LiveServer, project: Project) -> Iterator[Driven]:
    with Driven(in_node("driven_app.cjs", app.package), environment()) as client:
        assert client.open(host=live.address, token=project.token) == app.version
        yield client


def test_an_app_from_its_first_start_to_its_last_event(
    app: App, client: Driven, project: Project
) -> None:
    before = client.who()
    flags = {"everybody": True, "shades": "dark", "pros": False, "companies": False}
    assert client.reload() == flags
    client.register(properties={"shop": "north"})
    client.capture(event="seen", properties={"n": 1})
    client.identify(id="ann", properties={"plan": "pro"})
    assert client.who() == "ann"
    client.alias(id="ann-too")
    client.group(type="company", key="acme", properties={"size": 50})
    assert client.flush() is None
    # What it told of the person and the group decides from now on.
    assert client.reload() == flags | {"pros": True, "companies": True}
    assert client.flag(key="shades") == "dark"
    assert client.payload(key="shades") == [1, 2]
    assert client.payload(key="everybody") == {"colour": "red"}
    client.opt_out()
    client.capture(event="secret", properties={})
    client.opt_in()
    client.capture(event="bought", properties={"n": 2})
    assert client.flush() is None
    client.reset()
    after = client.who()
    assert after not in (before, "ann")
    client.capture(event="later", properties={})
    assert client.close() is None
    assert not [path for path in client.asked() if "/decide" in path]

    bought = project.event("ann", "bought")["properties"]
    assert (bought["n"], bought["shop"], bought["$lib"]) == (2, "north", app.library)
    assert (bought["$groups"], bought["$feature/shades"]) == ({"company": "acme"}, "dark")
    called = project.event("ann", "$feature_flag_called")["properties"]
    assert (called["$feature_flag"], called["$feature_flag_response"]) == ("shades", "dark")
    assert called["$feature_flag_version"] == 1
    assert project.event(before, "seen")["properties"]["n"] == 1
    assert "shop" not in project.event(after, "later")["properties"]
    assert project.events(event="secret") == []
    ann = project.person(before)
    assert set(ann["distinct_ids"]) == {before, "ann", "ann-too"}
    assert ann["properties"]["plan"] == "pro"
    assert project.group_sizes() == {"acme": 50}
