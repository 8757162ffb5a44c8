"""posthog-js in Chromium, of today and of the times of /decide, and a live server.

Apps on pages are in tests/acceptance/test_site_apps_in_a_browser.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser import chromium as browser
from tests.browser.chromium import Opened
from tests.browser.pages import PageServer
from tests.contract.sdk.posthog_js import (
    NEWEST,
    OF_V3,
    OF_V4,
    OLDEST,
    Js,
    asks_again,
    has_flags,
    id_of,
    if_installed,
)
from tests.contract.sdk.projects import Project
from tests.live import LiveServer, seconds_until

NOBODY = {"properties": [], "rollout_percentage": 0}
PRO = {"key": "plan", "type": "person", "operator": "exact", "value": ["pro"]}
LARGE = {"key": "size", "type": "group", "group_type_index": 0, "operator": "gt", "value": 10}
HALVES = [{"key": key, "rollout_percentage": 50} for key in ("control", "test")]

COUNTS_BEACONS = """
  const send = navigator.sendBeacon.bind(navigator)
  navigator.sendBeacon = (...all) => {
    sessionStorage.beacons = Number(sessionStorage.beacons ?? 0) + 1
    return send(...all)
  }
"""


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
def project(project: Project) -> Project:
    """The project with the flags that pages ask for."""
    project.makes("groups", group_type="company", group_key="acme", group_properties={})
    project.makes_flag("on", payloads={"true": '{"colour": "red"}'})
    project.makes_flag("off", groups=[NOBODY])
    project.makes_flag("pros", groups=[{"properties": [PRO]}])
    payloads = {"control": "1", "test": '["two"]'}
    project.makes_flag("shades", multivariate={"variants": HALVES}, payloads=payloads)
    large = [{"properties": [LARGE]}]
    project.makes_flag("companies", groups=large, aggregation_group_type_index=0)
    project.makes("early_access_feature", name="Dark mode", stage="beta")
    return project


@pytest.fixture(scope="module", params=(NEWEST, OF_V4, OF_V3, OLDEST), ids=lambda js: js.version)
def js(request: pytest.FixtureRequest) -> Js:
    return if_installed(request.param)


@pytest.fixture(scope="module")
def site(
    js: Js, live: LiveServer, project: Project, chromium: Browser, pages: PageServer
) -> Iterator[Site]:
    with browser.opened(chromium) as opened:
        asked: list[str] = []
        opened.page.on("request", lambda request: asked.append(request.url))
        opened.page.goto(pages.put("/", js.page(live.address, project.token)))
        has_flags(opened.page)
        yield Site(opened=opened, asked=asked, first=id_of(opened.page))


@pytest.fixture
def page(site: Site) -> Iterator[Page]:
    """Somebody new on the page. Nothing goes wrong on it."""
    site.page.evaluate("posthog.reset()")
    asks_again(site.page)
    yield site.page
    assert site.opened.errors == []
    assert site.opened.failed == []


def test_a_page_view_and_flags_with_their_payloads(site: Site, js: Js, project: Project) -> None:
    page, id = site.page, site.first
    assert any(js.asks in url for url in site.asked)
    seen = project.event(id, "$pageview")["properties"]
    assert (seen["$current_url"], seen["$lib_version"]) == (page.url, js.version)
    shade = project.decided(id)["shades"]
    keys = ["on", "off", "shades", "pros"]
    told = page.evaluate("(keys) => keys.map((key) => posthog.getFeatureFlag(key))", keys)
    assert told == [True, False, shade, False]
    assert set(page.evaluate("window.told")) >= {"on", "shades"}
    assert page.evaluate("posthog.isFeatureEnabled('on')") is True
    assert page.evaluate("posthog.getFeatureFlagPayload('on')") == {"colour": "red"}
    payload = page.evaluate("posthog.getFeatureFlagPayload('shades')")
    assert payload == {"control": 1, "test": ["two"]}[shade]

    def called() -> set[tuple[str, Any]]:
        found = project.events(distinct_id=id, event="$feature_flag_called")
        return {
            (each["properties"]["$feature_flag"], each["properties"]["$feature_flag_response"])
            for each in found
        }

    expected = {("on", True), ("off", False), ("shades", shade)}
    seconds_until(lambda: called() >= expected, at_most_s=60)


def test_who_visited_before_is_the_person_who_signed_in(
    page: Page, js: Js, project: Project
) -> None:
    visitor, ann = id_of(page), f"ann of {js.version}"
    page.evaluate("posthog.capture('looked', { page: 1 })")
    assert project.event(visitor, "looked")["properties"]["page"] == 1
    page.evaluate("(id) => posthog.identify(id, { plan: 'pro' }, { first: 'spring' })", ann)
    if js.is_oldest:
        project.event(ann, "$identify")
        page.evaluate("posthog.reloadFeatureFlags()")
    page.wait_for_function("posthog.getFeatureFlag('pros') === true")
    page.evaluate("posthog.capture('bought')")
    project.event(ann, "bought")
    person = project.person(ann)
    assert set(person["distinct_ids"]) == {visitor, ann}
    assert (person["properties"]["plan"], person["properties"]["$os"]) == ("pro", "Linux")
    assert js.is_oldest or person["properties"]["first"] == "spring"
    names = {each["event"] for each in project.events(person_id=person["uuid"])}
    assert names >= {"looked", "$identify", "bought"}

    page.evaluate("posthog.reset()")
    stranger = id_of(page)
    page.evaluate("posthog.reloadFeatureFlags()")
    page.wait_for_function("posthog.getFeatureFlag('pros') === false")
    page.evaluate("posthog.capture('came back')")
    project.event(stranger, "came back")
    assert stranger not in project.person(ann)["distinct_ids"]


def test_a_group_brings_its_flags(page: Page, js: Js, project: Project) -> None:
    company = f"company of {js.version}"
    assert page.evaluate("posthog.getFeatureFlag('companies')") is False
    page.evaluate("(key) => posthog.group('company', key, { size: 50 })", company)
    if js.is_oldest:
        project.event(id_of(page), "$groupidentify")
        page.evaluate("posthog.reloadFeatureFlags()")
    page.wait_for_function("posthog.getFeatureFlag('companies') === true")
    page.evaluate("posthog.capture('worked')")
    assert project.event(id_of(page), "worked")["properties"]["$groups"] == {"company": company}
    assert project.group_sizes()[company] == 50


def test_who_enrols_in_a_feature_has_it_until_they_leave(
    page: Page, js: Js, project: Project
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
        seconds_until(lambda chosen=chosen: project.decided(bob)[key] is chosen, at_most_s=60)  # type: ignore[misc]
        assert project.person(bob)["properties"][f"$feature_enrollment/{key}"] is chosen
    updates = project.events(distinct_id=bob, event="$feature_enrollment_update")
    assert sorted(each["properties"]["$feature_enrollment"] for each in updates) == [False, True]


def test_a_click_is_captured_with_the_elements_it_went_to(page: Page, project: Project) -> None:
    page.locator("#buy").click()
    click = project.event(id_of(page), "$autocapture")
    assert click["properties"]["$event_type"] == "click"
    button, body = click["elements"][:2]
    assert (button["tag_name"], button["text"], button["attr_id"]) == ("button", "Buy now", "buy")
    assert button["attr_class"] == ["big", "red"]
    assert button["attributes"]["attr__data-plan"] == "pro"
    assert body["tag_name"] == "body"


def test_what_waits_when_a_page_is_left_is_sent_all_the_same(
    js: Js, live: LiveServer, project: Project, opened: Opened, pages: PageServer
) -> None:
    """In batches, and the last of them by sendBeacon. The page's clock stands still then: else a
    batch might be on its way already, and a request of the usual kind ends with its page."""
    page = opened.page
    page.add_init_script(COUNTS_BEACONS)
    page.clock.install()
    options = {"request_batching": "true"}
    page.goto(pages.put("/last", js.page(live.address, project.token, **options)))
    has_flags(page)
    id = id_of(page)
    page.clock.pause_at(datetime.now(UTC) + timedelta(seconds=10))
    project.event(id, "$pageview")
    page.evaluate("for (let n = 0; n < 5; n++) posthog.capture('numbered', { n })")
    page.goto(pages.put("/next", "<!doctype html><title>Next</title>"))
    assert page.evaluate("Number(sessionStorage.beacons)") >= 1
    project.event(id, "$pageleave")
    seconds_until(lambda: project.numbers(id) == list(range(5)), at_most_s=60)
    assert opened.errors == []
