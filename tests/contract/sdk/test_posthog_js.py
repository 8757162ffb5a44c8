"""posthog-js in Chromium, the current version and those that call /decide, and a live server.

Site apps are in tests/acceptance/test_site_apps_browser.py.
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
    CALLS_V3,
    CALLS_V4,
    NEWEST,
    OLDEST,
    Js,
    get_distinct_id,
    reload_flags,
    skip_unless_installed,
    wait_for_flags,
)
from tests.contract.sdk.projects import Project
from tests.support.live import LiveServer, wait_for

NO_ROLLOUT = {"properties": [], "rollout_percentage": 0}
PRO = {"key": "plan", "type": "person", "operator": "exact", "value": ["pro"]}
LARGE = {"key": "size", "type": "group", "group_type_index": 0, "operator": "gt", "value": 10}
HALVES = [{"key": key, "rollout_percentage": 50} for key in ("control", "test")]

COUNT_BEACONS = """
  const send = navigator.sendBeacon.bind(navigator)
  navigator.sendBeacon = (...all) => {
    sessionStorage.beacons = Number(sessionStorage.beacons ?? 0) + 1
    return send(...all)
  }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A page with loaded flags, its visitor, and the URLs that it requested."""

    opened: Opened
    urls: list[str]
    first: str

    @property
    def page(self) -> Page:
        return self.opened.page


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    """The project with the flags of the pages."""
    project.create("groups", group_type="company", group_key="acme", group_properties={})
    project.create_flag("on", payloads={"true": '{"colour": "red"}'})
    project.create_flag("off", groups=[NO_ROLLOUT])
    project.create_flag("pros", groups=[{"properties": [PRO]}])
    payloads = {"control": "1", "test": '["two"]'}
    project.create_flag("shades", multivariate={"variants": HALVES}, payloads=payloads)
    large = [{"properties": [LARGE]}]
    project.create_flag("companies", groups=large, aggregation_group_type_index=0)
    project.create("early_access_feature", name="Dark mode", stage="beta")
    return project


@pytest.fixture(
    scope="module", params=(NEWEST, CALLS_V4, CALLS_V3, OLDEST), ids=lambda js: js.version
)
def js(request: pytest.FixtureRequest) -> Js:
    return skip_unless_installed(request.param)


@pytest.fixture(scope="module")
def site(
    js: Js, live: LiveServer, project: Project, chromium: Browser, pages: PageServer
) -> Iterator[Site]:
    with browser.opened(chromium) as opened:
        urls: list[str] = []
        opened.page.on("request", lambda request: urls.append(request.url))
        opened.page.goto(pages.put("/", js.build_page(live.address, project.token)))
        wait_for_flags(opened.page)
        yield Site(opened=opened, urls=urls, first=get_distinct_id(opened.page))


@pytest.fixture
def page(site: Site) -> Iterator[Page]:
    """A new visitor on the page. The page must log no error."""
    site.page.evaluate("posthog.reset()")
    reload_flags(site.page)
    yield site.page
    assert site.opened.errors == []
    assert site.opened.failed == []


def test_page_view_and_flags_with_payloads(site: Site, js: Js, project: Project) -> None:
    page, id = site.page, site.first
    assert any(js.flags_path in url for url in site.urls)
    seen = project.wait_for_event(id, "$pageview")["properties"]
    assert (seen["$current_url"], seen["$lib_version"]) == (page.url, js.version)
    shade = project.evaluate_flags(id)["shades"]
    keys = ["on", "off", "shades", "pros"]
    values = page.evaluate("(keys) => keys.map((key) => posthog.getFeatureFlag(key))", keys)
    assert values == [True, False, shade, False]
    assert set(page.evaluate("window.flagKeys")) >= {"on", "shades"}
    assert page.evaluate("posthog.isFeatureEnabled('on')") is True
    assert page.evaluate("posthog.getFeatureFlagPayload('on')") == {"colour": "red"}
    payload = page.evaluate("posthog.getFeatureFlagPayload('shades')")
    assert payload == {"control": 1, "test": ["two"]}[shade]

    def list_flag_calls() -> set[tuple[str, Any]]:
        found = project.events(distinct_id=id, event="$feature_flag_called")
        return {
            (each["properties"]["$feature_flag"], each["properties"]["$feature_flag_response"])
            for each in found
        }

    expected = {("on", True), ("off", False), ("shades", shade)}
    wait_for(lambda: list_flag_calls() >= expected, at_most_s=60)


def test_identify_merges_the_anonymous_visitor(page: Page, js: Js, project: Project) -> None:
    visitor, ann = get_distinct_id(page), f"ann of {js.version}"
    page.evaluate("posthog.capture('looked', { page: 1 })")
    assert project.wait_for_event(visitor, "looked")["properties"]["page"] == 1
    page.evaluate("(id) => posthog.identify(id, { plan: 'pro' }, { first: 'spring' })", ann)
    if js.is_oldest:
        project.wait_for_event(ann, "$identify")
        page.evaluate("posthog.reloadFeatureFlags()")
    page.wait_for_function("posthog.getFeatureFlag('pros') === true")
    page.evaluate("posthog.capture('bought')")
    project.wait_for_event(ann, "bought")
    person = project.person(ann)
    assert set(person["distinct_ids"]) == {visitor, ann}
    assert (person["properties"]["plan"], person["properties"]["$os"]) == ("pro", "Linux")
    assert js.is_oldest or person["properties"]["first"] == "spring"
    names = {each["event"] for each in project.events(person_id=person["uuid"])}
    assert names >= {"looked", "$identify", "bought"}

    page.evaluate("posthog.reset()")
    visitor = get_distinct_id(page)
    page.evaluate("posthog.reloadFeatureFlags()")
    page.wait_for_function("posthog.getFeatureFlag('pros') === false")
    page.evaluate("posthog.capture('came back')")
    project.wait_for_event(visitor, "came back")
    assert visitor not in project.person(ann)["distinct_ids"]


def test_group_flags_are_evaluated(page: Page, js: Js, project: Project) -> None:
    company = f"company of {js.version}"
    assert page.evaluate("posthog.getFeatureFlag('companies')") is False
    page.evaluate("(key) => posthog.group('company', key, { size: 50 })", company)
    if js.is_oldest:
        project.wait_for_event(get_distinct_id(page), "$groupidentify")
        page.evaluate("posthog.reloadFeatureFlags()")
    page.wait_for_function("posthog.getFeatureFlag('companies') === true")
    page.evaluate("posthog.capture('worked')")
    assert project.wait_for_event(get_distinct_id(page), "worked")["properties"]["$groups"] == {
        "company": company
    }
    assert project.group_sizes()[company] == 50


def test_enrolment_in_an_early_access_feature(page: Page, js: Js, project: Project) -> None:
    if js.is_oldest:
        pytest.skip("this version of the client has no such call")
    bob = f"bob of {js.version}"
    page.evaluate("(id) => posthog.identify(id)", bob)
    [feature] = page.evaluate("new Promise((done) => posthog.getEarlyAccessFeatures(done, true))")
    assert (feature["name"], feature["stage"]) == ("Dark mode", "beta")
    key = feature["flagKey"]
    assert page.evaluate("(key) => posthog.isFeatureEnabled(key)", key) is False
    for chosen in (True, False):
        enrol = "([key, chosen]) => posthog.updateEarlyAccessFeatureEnrollment(key, chosen)"
        page.evaluate(enrol, [key, chosen])
        is_enrolled = "([key, chosen]) => posthog.isFeatureEnabled(key) === chosen"
        page.wait_for_function(is_enrolled, arg=[key, chosen])
        # The enrolment belongs to the person, not to the browser.
        wait_for(lambda chosen=chosen: project.evaluate_flags(bob)[key] is chosen, at_most_s=60)  # type: ignore[misc]
        assert project.person(bob)["properties"][f"$feature_enrollment/{key}"] is chosen
    updates = project.events(distinct_id=bob, event="$feature_enrollment_update")
    assert sorted(each["properties"]["$feature_enrollment"] for each in updates) == [False, True]


def test_autocapture_records_the_clicked_elements(page: Page, project: Project) -> None:
    page.locator("#buy").click()
    click = project.wait_for_event(get_distinct_id(page), "$autocapture")
    assert click["properties"]["$event_type"] == "click"
    button, body = click["elements"][:2]
    assert (button["tag_name"], button["text"], button["attr_id"]) == ("button", "Buy now", "buy")
    assert button["attr_class"] == ["big", "red"]
    assert button["attributes"]["attr__data-plan"] == "pro"
    assert body["tag_name"] == "body"


def test_queued_events_are_sent_on_page_unload(
    js: Js, live: LiveServer, project: Project, opened: Opened, pages: PageServer
) -> None:
    """The page sends the last batch by sendBeacon. Its clock is paused, because a batch that is
    already in flight as a normal request ends with the page."""
    page = opened.page
    page.add_init_script(COUNT_BEACONS)
    page.clock.install()
    options = {"request_batching": "true"}
    page.goto(pages.put("/last", js.build_page(live.address, project.token, **options)))
    wait_for_flags(page)
    id = get_distinct_id(page)
    page.clock.pause_at(datetime.now(UTC) + timedelta(seconds=10))
    project.wait_for_event(id, "$pageview")
    page.evaluate("for (let n = 0; n < 5; n++) posthog.capture('numbered', { n })")
    page.goto(pages.put("/next", "<!doctype html><title>Next</title>"))
    assert page.evaluate("Number(sessionStorage.beacons)") >= 1
    project.wait_for_event(id, "$pageleave")
    wait_for(lambda: project.numbers(id) == list(range(5)), at_most_s=60)
    assert opened.errors == []
