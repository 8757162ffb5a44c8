"""posthog-js in Chromium, of today and of the times of /decide, and a live server.

Apps on pages are in tests/acceptance/test_site_apps_in_a_browser.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.browser import chromium as browser
from tests.browser.chromium import Opened
from tests.browser.pages import PageServer, with_posthog
from tests.live import PROJECT_KEY, LiveServer, seconds_until

EVERYBODY = {"properties": [], "rollout_percentage": 100}
NOBODY = {"properties": [], "rollout_percentage": 0}
BUTTON = '<h1>A page</h1><button id="buy" class="big red" data-plan="pro">Buy now</button>'
# Events leave at once; one that waits for others is the business of a test below.
AT_ONCE = {"request_batching": "false", "disable_surveys": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Js:
    """A version and what it asks for flags. The oldest knows no early access, keeps `$set_once` of
    `identify` to itself, and sends no properties along when it asks for flags: they follow what is
    stored."""

    package: str
    version: str
    asks: str
    is_oldest: bool = False


VERSIONS = (
    Js(package="posthog-js", version="1.445.5", asks="/flags/?v=2"),
    Js(package="posthog-js-1.249", version="1.249.5", asks="/decide/?v=4"),
    Js(package="posthog-js-1.230", version="1.230.4", asks="/decide/?v=3"),
    Js(package="posthog-js-1.50", version="1.50.9", asks="/decide/?v=3", is_oldest=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A page that has its flags, who opened it, and what it asked for."""

    opened: Opened
    asked: list[str]
    first: str

    @property
    def page(self) -> Page:
        return self.opened.page


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("js"), read_wait_s="30") as server:
        yield server


@pytest.fixture(scope="module")
def admin(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as client:

        def made(path: str, body: dict[str, Any]) -> None:
            answer = client.post(f"/api/projects/1/{path}/", json=body)
            assert answer.status_code == 201, answer.text

        made("groups", {"group_type": "company", "group_key": "acme", "group_properties": {}})
        large = {
            "key": "size",
            "type": "group",
            "group_type_index": 0,
            "operator": "gt",
            "value": 10,
        }
        pro = {"key": "plan", "type": "person", "operator": "exact", "value": ["pro"]}
        halves = [{"key": key, "rollout_percentage": 50} for key in ("control", "test")]
        for key, filters in {
            "on": {"groups": [EVERYBODY], "payloads": {"true": '{"colour": "red"}'}},
            "off": {"groups": [NOBODY]},
            "pros": {"groups": [{"properties": [pro]}]},
            "shades": {
                "groups": [EVERYBODY],
                "multivariate": {"variants": halves},
                "payloads": {"control": "1", "test": '["two"]'},
            },
            "companies": {"groups": [{"properties": [large]}], "aggregation_group_type_index": 0},
        }.items():
            made("feature_flags", {"key": key, "filters": filters})
        made("early_access_feature", {"name": "Dark mode", "stage": "beta"})
        yield client


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda js: js.version)
def js(request: pytest.FixtureRequest) -> Js:
    found: Js = request.param
    if lacks := browser.missing(found.package):
        pytest.skip(f"{' and '.join(lacks)} missing: tests/browser/install brings them")
    return found


@pytest.fixture(scope="module")
def site(
    js: Js, server: LiveServer, admin: httpx.Client, chromium: Browser, pages: PageServer
) -> Iterator[Site]:
    with browser.opened(chromium) as opened:
        asked: list[str] = []
        opened.page.on("request", lambda request: asked.append(request.url))
        opened.page.goto(pages.put("/", page_of(js, server)))
        has_flags(opened.page)
        yield Site(opened=opened, asked=asked, first=id_of(opened.page))


@pytest.fixture
def page(site: Site) -> Iterator[Page]:
    """Somebody new on the page. Nothing goes wrong on it."""
    site.page.evaluate("posthog.reset(); window.told = undefined; posthog.reloadFeatureFlags()")
    has_flags(site.page)
    yield site.page
    assert site.opened.errors == []
    assert site.opened.failed == []


def page_of(js: Js, server: LiveServer, **options: str) -> str:
    told = "(posthog) => posthog.onFeatureFlags((keys) => { window.told = keys })"
    given = {**AT_ONCE, "loaded": told, **options}
    return with_posthog(server.address, PROJECT_KEY, given, package=js.package, body=BUTTON)


def has_flags(page: Page) -> None:
    page.wait_for_function("window.told !== undefined")


def id_of(page: Page) -> str:
    return str(page.evaluate("posthog.get_distinct_id()"))


def events_of(admin: httpx.Client, **asked: str) -> list[dict[str, Any]]:
    answer = admin.get("/api/projects/1/events/", params={**asked, "limit": "500"})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def event(admin: httpx.Client, id: str, name: str) -> dict[str, Any]:
    """The one event of that name, once it is there."""
    seconds_until(lambda: bool(events_of(admin, distinct_id=id, event=name)), at_most_s=30)
    [found] = events_of(admin, distinct_id=id, event=name)
    return found


def person_of(admin: httpx.Client, id: str) -> dict[str, Any]:
    [person] = admin.get("/api/projects/1/persons/", params={"distinct_id": id}).json()["results"]
    found: dict[str, Any] = person
    return found


def decided(admin: httpx.Client, id: str) -> dict[str, Any]:
    body = {"api_key": PROJECT_KEY, "distinct_id": id}
    found: dict[str, Any] = admin.post("/decide?v=3", json=body).json()["featureFlags"]
    return found


def test_a_page_view_and_flags_with_their_payloads(site: Site, js: Js, admin: httpx.Client) -> None:
    page, id = site.page, site.first
    assert any(js.asks in url for url in site.asked)
    seen = event(admin, id, "$pageview")["properties"]
    assert (seen["$current_url"], seen["$lib_version"]) == (page.url, js.version)
    shade = decided(admin, id)["shades"]
    keys = ["on", "off", "shades", "pros"]
    told = page.evaluate("(keys) => keys.map((key) => posthog.getFeatureFlag(key))", keys)
    assert told == [True, False, shade, False]
    assert set(page.evaluate("window.told")) >= {"on", "shades"}
    assert page.evaluate("posthog.isFeatureEnabled('on')") is True
    assert page.evaluate("posthog.getFeatureFlagPayload('on')") == {"colour": "red"}
    payload = page.evaluate("posthog.getFeatureFlagPayload('shades')")
    assert payload == {"control": 1, "test": ["two"]}[shade]

    def called() -> set[tuple[str, Any]]:
        found = events_of(admin, distinct_id=id, event="$feature_flag_called")
        return {
            (each["properties"]["$feature_flag"], each["properties"]["$feature_flag_response"])
            for each in found
        }

    expected = {("on", True), ("off", False), ("shades", shade)}
    seconds_until(lambda: called() >= expected, at_most_s=30)


def test_who_visited_before_is_the_person_who_signed_in(
    page: Page, js: Js, admin: httpx.Client
) -> None:
    visitor, ann = id_of(page), f"ann of {js.version}"
    page.evaluate("posthog.capture('looked', { page: 1 })")
    assert event(admin, visitor, "looked")["properties"]["page"] == 1
    page.evaluate("(id) => posthog.identify(id, { plan: 'pro' }, { first: 'spring' })", ann)
    if js.is_oldest:
        event(admin, ann, "$identify")
        page.evaluate("posthog.reloadFeatureFlags()")
    page.wait_for_function("posthog.getFeatureFlag('pros') === true")
    page.evaluate("posthog.capture('bought')")
    event(admin, ann, "bought")
    person = person_of(admin, ann)
    assert set(person["distinct_ids"]) == {visitor, ann}
    assert person["properties"]["plan"] == "pro"
    assert js.is_oldest or person["properties"]["first"] == "spring"
    names = {each["event"] for each in events_of(admin, person_id=person["uuid"])}
    assert names >= {"looked", "$identify", "bought"}

    page.evaluate("posthog.reset()")
    stranger = id_of(page)
    page.evaluate("posthog.reloadFeatureFlags()")
    page.wait_for_function("posthog.getFeatureFlag('pros') === false")
    page.evaluate("posthog.capture('came back')")
    event(admin, stranger, "came back")
    assert stranger not in person_of(admin, ann)["distinct_ids"]


def test_a_group_brings_its_flags(page: Page, js: Js, admin: httpx.Client) -> None:
    company = f"company of {js.version}"
    assert page.evaluate("posthog.getFeatureFlag('companies')") is False
    page.evaluate("(key) => posthog.group('company', key, { size: 50 })", company)
    if js.is_oldest:
        event(admin, id_of(page), "$groupidentify")
        page.evaluate("posthog.reloadFeatureFlags()")
    page.wait_for_function("posthog.getFeatureFlag('companies') === true")
    page.evaluate("posthog.capture('worked')")
    assert event(admin, id_of(page), "worked")["properties"]["$groups"] == {"company": company}
    groups = admin.get("/api/projects/1/groups/", params={"group_type_index": 0}).json()["results"]
    sizes = {each["group_key"]: each["group_properties"].get("size") for each in groups}
    assert sizes[company] == 50


def test_who_enrols_in_a_feature_has_it_until_they_leave(
    page: Page, js: Js, admin: httpx.Client
) -> None:
    if js.is_oldest:
        pytest.skip("this version of the client has no such call")
    bob = f"bob of {js.version}"
    page.evaluate("(id) => posthog.identify(id)", bob)
    [feature] = page.evaluate("new Promise((done) => posthog.getEarlyAccessFeatures(done, true))")
    assert (feature["name"], feature["stage"]) == ("Dark mode", "beta")
    key = feature["flagKey"]
    assert page.evaluate("(key) => posthog.isFeatureEnabled(key)", key) is False
    for chosen in (True, False):
        chooses = "([key, chosen]) => posthog.updateEarlyAccessFeatureEnrollment(key, chosen)"
        page.evaluate(chooses, [key, chosen])
        has_it = "([key, chosen]) => posthog.isFeatureEnabled(key) === chosen"
        page.wait_for_function(has_it, arg=[key, chosen])
        # It is the person's, wherever they are next.
        seconds_until(lambda chosen=chosen: decided(admin, bob)[key] is chosen, at_most_s=30)  # type: ignore[misc]
        assert person_of(admin, bob)["properties"][f"$feature_enrollment/{key}"] is chosen
    updates = events_of(admin, distinct_id=bob, event="$feature_enrollment_update")
    assert sorted(each["properties"]["$feature_enrollment"] for each in updates) == [False, True]


def test_a_click_is_captured_with_the_elements_it_went_to(page: Page, admin: httpx.Client) -> None:
    page.locator("#buy").click()
    click = event(admin, id_of(page), "$autocapture")
    assert click["properties"]["$event_type"] == "click"
    button, body = click["elements"][:2]
    assert (button["tag_name"], button["text"], button["attr_id"]) == ("button", "Buy now", "buy")
    assert button["attr_class"] == ["big", "red"]
    assert button["attributes"]["attr__data-plan"] == "pro"
    assert body["tag_name"] == "body"


def test_what_waits_when_a_page_is_left_is_sent_all_the_same(
    js: Js, server: LiveServer, admin: httpx.Client, opened: Opened, pages: PageServer
) -> None:
    """In batches, and the last of them by sendBeacon."""
    page = opened.page
    page.goto(pages.put("/last", page_of(js, server, request_batching="true")))
    has_flags(page)
    id = id_of(page)
    page.evaluate("for (let n = 0; n < 5; n++) posthog.capture('numbered', { n })")
    page.goto(pages.put("/next", "<!doctype html><title>Next</title>"))
    for name in ("$pageview", "$pageleave"):
        event(admin, id, name)
    numbered = events_of(admin, distinct_id=id, event="numbered")
    assert sorted(each["properties"]["n"] for each in numbered) == list(range(5))
    assert opened.errors == []
