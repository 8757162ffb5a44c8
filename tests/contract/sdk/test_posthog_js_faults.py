"""posthog-js behind a failing proxy, and with an invalid key.

By its source code, posthog-js resends events with the same uuids after broken connections and 5xx,
and never after 4xx. Flags stay as in the last response.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request

from tests.browser.chromium import Opened, missing
from tests.browser.chromium import opened as opened_page
from tests.browser.pages import PageServer
from tests.contract.sdk.posthog_js import (
    CALLS_V3,
    NEWEST,
    OLDEST,
    Js,
    get_distinct_id,
    reload_flags,
    skip_unless_installed,
    wait_for_flags,
)
from tests.contract.sdk.projects import Project
from tests.support.faulty_proxy import Fault, FaultyProxy
from tests.support.live import PROJECT_KEY, LiveServer, find_free_port, wait_for
from tests.support.receiver import wait_until

VERSIONS = (NEWEST, CALLS_V3, OLDEST)
CAPTURE = {False: "/i/v0/e/", True: "/e/"}
# Browser messages about failed requests, and those of the oldest version.
NETWORK_MESSAGES = (
    "Failed to load resource",
    "blocked by CORS policy",
    "Refused to execute script",
)
OLDEST_VERSION_MESSAGES = ("Bad HTTP status", "Failed to fetch feature flags")


@pytest.fixture(params=VERSIONS, ids=lambda js: js.version)
def js(request: pytest.FixtureRequest) -> Js:
    return skip_unless_installed(request.param)


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    project.create_flag("on")
    return project


def capture(page: Page, n: int) -> None:
    page.evaluate("(n) => posthog.capture('numbered', { n })", n)


def reload_flags_during_fault(page: Page, js: Js, proxy: FaultyProxy, fault: Fault) -> None:
    """Wait until the request of the page fails or is pending."""
    reload_script = "posthog.reloadFeatureFlags()"
    if fault is Fault.DELAYS:
        page.evaluate(reload_script)
        proxy.wait_for_faults(js.flags_path)
    else:
        with page.expect_event("requestfailed", lambda request: js.flags_path in request.url):
            page.evaluate(reload_script)


def test_failed_requests_are_retried_and_flags_stay(
    js: Js, live: LiveServer, project: Project, opened: Opened, pages: PageServer
) -> None:
    """The SDK retries with growing delays, so the test advances the page's clock."""
    page = opened.page
    page.clock.install()
    with FaultyProxy(live.address) as proxy:
        page.goto(pages.put("/faults", js.build_page(proxy.address, project.token)))
        wait_for_flags(page)
        id = get_distinct_id(page)
        for n, fault in enumerate(Fault):
            proxy.fail(fault)
            capture(page, n)
            proxy.wait_for_faults(CAPTURE[js.is_oldest])
            reload_flags_during_fault(page, js, proxy, fault)
            if not js.is_oldest:  # the oldest forgets its flags and reloads only on demand
                assert page.evaluate("posthog.getFeatureFlag('on')") is True, fault
            proxy.heal()

            def is_stored(n: int = n) -> bool:
                page.clock.fast_forward(10_000)
                return n in project.numbers(id)

            wait_for(is_stored, at_most_s=60)
            # The newest version stops after several failures in a row.
            reload_flags(page)
            proxy.wait_until_idle()
        duplicates = len(project.numbers(id)) - len(Fault)
        assert duplicates == 0 or js.is_oldest
        assert page.evaluate("posthog.getFeatureFlag('on')") is True
        if not js.is_oldest:
            # A page opened during the outage has the flags of the last visit.
            proxy.fail(Fault.ANSWERS_502)
            with page.expect_event("requestfailed", lambda request: js.flags_path in request.url):
                page.reload()
            assert page.evaluate("posthog.getFeatureFlag('on')") is True
    assert opened.errors_but(*NETWORK_MESSAGES, *OLDEST_VERSION_MESSAGES) == []


def assert_events_sent(proxy: FaultyProxy, number: int) -> None:
    """Check the number of events, without duplicates."""

    def count_sent() -> int:
        return len([each for each in proxy.requests_to("/e/") if each.method == "POST"])

    wait_until(lambda: count_sent() >= number)
    proxy.wait_until_idle()
    assert count_sent() == number


def test_invalid_key_is_not_retried(
    js: Js, live: LiveServer, opened: Opened, pages: PageServer
) -> None:
    page = opened.page
    page.clock.install()
    with FaultyProxy(live.address) as proxy:
        page.goto(pages.put("/wrong", js.build_page(proxy.address, "phc_no-such-key")))
        assert_events_sent(proxy, 1)
        off = "posthog.getFeatureFlag('on', { send_event: false })"
        assert page.evaluate(off) in (None, False)
        page.clock.fast_forward(60_000)
        page.evaluate("posthog.capture('again')")
        assert_events_sent(proxy, 2)
        assert {
            each_request.status for each_request in proxy.requests if each_request.method == "POST"
        } == {401}
    assert opened.errors_but(*NETWORK_MESSAGES, *OLDEST_VERSION_MESSAGES) == []


def test_kill_loses_and_duplicates_no_events_of_pages(
    tmp_path: Path, chromium: Browser, pages: PageServer
) -> None:
    """Use every installed version; the tests above report the missing ones."""
    installed = [js for js in VERSIONS if not missing(js.package)]
    if not installed:
        pytest.skip("posthog-js is missing: run tests/browser/install")
    port = find_free_port()
    ids: dict[Page, str] = {}
    pending: set[Request] = set()

    def all_responses_received() -> bool:
        """Wait for all responses: the oldest version would resend otherwise."""
        next(iter(ids)).wait_for_timeout(20)  # process browser events
        return not pending

    with ExitStack() as open_:
        with LiveServer(tmp_path, port=port) as server, server.client() as admin:
            project = Project(admin=admin, id=1, token=PROJECT_KEY)
            for js in installed:
                page = open_.enter_context(opened_page(chromium)).page
                page.on("request", lambda request: pending.add(request))
                for outcome in ("requestfinished", "requestfailed"):
                    page.on(outcome, lambda request: pending.discard(request))
                page.clock.install()
                page.goto(pages.put(f"/{js.version}", js.build_page(server.address, PROJECT_KEY)))
                wait_for_flags(page)
                ids[page] = get_distinct_id(page)
                capture(page, 0)
            for id in ids.values():
                wait_for(lambda id=id: project.numbers(id) == [0], at_most_s=60)  # type: ignore[misc]
            wait_for(all_responses_received, at_most_s=60)
            server.kill()
        for page in ids:
            with page.expect_event("requestfailed"):
                capture(page, 1)
        with LiveServer(tmp_path, port=port) as server, server.client() as admin:
            project = Project(admin=admin, id=1, token=PROJECT_KEY)
            for page, id in ids.items():
                capture(page, 2)

                def is_stored(page: Page = page, id: str = id) -> bool:
                    page.clock.fast_forward(10_000)
                    return len(project.numbers(id)) >= 3

                wait_for(is_stored, at_most_s=60)
                assert project.numbers(id) == [0, 1, 2]
