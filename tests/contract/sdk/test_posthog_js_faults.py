"""posthog-js behind a proxy that fails, and with a key that is wrong.

What its authors intend, read in their code: events are sent again after cut connections and 5xx,
with the uuids that they had, and never after 4xx. Flags are those of the last answer.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request

from tests.browser.chromium import Opened, missing
from tests.browser.chromium import opened as opened_page
from tests.browser.pages import PageServer
from tests.contract.sdk.posthog_js import (
    NEWEST,
    OF_V3,
    OLDEST,
    Js,
    asks_again,
    has_flags,
    id_of,
    if_installed,
)
from tests.contract.sdk.projects import Project
from tests.faulty_proxy import Fault, FaultyProxy
from tests.live import PROJECT_KEY, LiveServer, free_port, seconds_until
from tests.receiver import wait_until

VERSIONS = (NEWEST, OF_V3, OLDEST)
CAPTURE = {False: "/i/v0/e/", True: "/e/"}
# What the browser says of requests that fail, and what the oldest version does.
OF_THE_NETWORK = ("Failed to load resource", "blocked by CORS policy", "Refused to execute script")
OF_THE_OLDEST = ("Bad HTTP status", "Failed to fetch feature flags")


@pytest.fixture(params=VERSIONS, ids=lambda js: js.version)
def js(request: pytest.FixtureRequest) -> Js:
    return if_installed(request.param)


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    project.makes_flag("on")
    return project


def captures(page: Page, n: int) -> None:
    page.evaluate("(n) => posthog.capture('numbered', { n })", n)


def asks_in_vain(page: Page, js: Js, proxy: FaultyProxy, fault: Fault) -> None:
    """Until the page knows that it failed, or waits."""
    again = "posthog.reloadFeatureFlags()"
    if fault is Fault.DELAYS:
        page.evaluate(again)
        proxy.wait_struck(js.asks)
    else:
        with page.expect_event("requestfailed", lambda asked: js.asks in asked.url):
            page.evaluate(again)


def test_what_failed_is_sent_again_and_flags_stay_as_they_were(
    js: Js, live: LiveServer, project: Project, opened: Opened, pages: PageServer
) -> None:
    """The SDK tries again after some seconds, and longer each time: the page's clock is turned."""
    page = opened.page
    page.clock.install()
    with FaultyProxy(live.address) as proxy:
        page.goto(pages.put("/faults", js.page(proxy.address, project.token)))
        has_flags(page)
        id = id_of(page)
        for n, fault in enumerate(Fault):
            proxy.fail(fault)
            captures(page, n)
            proxy.wait_struck(CAPTURE[js.is_oldest])
            asks_in_vain(page, js, proxy, fault)
            if not js.is_oldest:  # which forgets them, and asks again when it is told to
                assert page.evaluate("posthog.getFeatureFlag('on')") is True, fault
            proxy.heal()

            def is_there(n: int = n) -> bool:
                page.clock.fast_forward(10_000)
                return n in project.numbers(id)

            seconds_until(is_there, at_most_s=60)
            # After some failures in a row the newest would not ask any more.
            asks_again(page)
            proxy.wait_settled()
        repeated = len(project.numbers(id)) - len(Fault)
        assert repeated == 0 or js.is_oldest
        assert page.evaluate("posthog.getFeatureFlag('on')") is True
        if not js.is_oldest:
            # A page that opens meanwhile has the flags of the last visit.
            proxy.fail(Fault.ANSWERS_502)
            with page.expect_event("requestfailed", lambda asked: js.asks in asked.url):
                page.reload()
            assert page.evaluate("posthog.getFeatureFlag('on')") is True
    assert opened.errors_but(*OF_THE_NETWORK, *OF_THE_OLDEST) == []


def has_sent(proxy: FaultyProxy, number: int) -> None:
    """So many events, and none of them twice."""

    def sent() -> int:
        return len([each for each in proxy.seen_at("/e/") if each.method == "POST"])

    wait_until(lambda: sent() >= number)
    proxy.wait_settled()
    assert sent() == number


def test_a_wrong_key_is_final_and_breaks_nothing(
    js: Js, live: LiveServer, opened: Opened, pages: PageServer
) -> None:
    page = opened.page
    page.clock.install()
    with FaultyProxy(live.address) as proxy:
        page.goto(pages.put("/wrong", js.page(proxy.address, "phc_no-such-key")))
        has_sent(proxy, 1)
        off = "posthog.getFeatureFlag('on', { send_event: false })"
        assert page.evaluate(off) in (None, False)
        page.clock.fast_forward(60_000)
        page.evaluate("posthog.capture('again')")
        has_sent(proxy, 2)
        assert {seen.status for seen in proxy.seen if seen.method == "POST"} == {401}
    assert opened.errors_but(*OF_THE_NETWORK, *OF_THE_OLDEST) == []


def test_a_kill_under_pages_loses_and_repeats_nothing(
    tmp_path: Path, chromium: Browser, pages: PageServer
) -> None:
    """Of every version that is here: the tests above say which are not."""
    here = [js for js in VERSIONS if not missing(js.package)]
    if not here:
        pytest.skip("no posthog-js is here: tests/browser/install brings it")
    port = free_port()
    ids: dict[Page, str] = {}
    under_way: set[Request] = set()

    def all_answered() -> bool:
        """By then pages know what the server knows: the oldest would send it again else."""
        next(iter(ids)).wait_for_timeout(20)  # they are heard meanwhile
        return not under_way

    with ExitStack() as open_:
        with LiveServer(tmp_path, port=port) as server, server.client() as admin:
            project = Project(admin=admin, id=1, token=PROJECT_KEY)
            for js in here:
                page = open_.enter_context(opened_page(chromium)).page
                page.on("request", lambda asked: under_way.add(asked))
                for ending in ("requestfinished", "requestfailed"):
                    page.on(ending, lambda asked: under_way.discard(asked))
                page.clock.install()
                page.goto(pages.put(f"/{js.version}", js.page(server.address, PROJECT_KEY)))
                has_flags(page)
                ids[page] = id_of(page)
                captures(page, 0)
            for id in ids.values():
                seconds_until(lambda id=id: project.numbers(id) == [0], at_most_s=60)  # type: ignore[misc]
            seconds_until(all_answered, at_most_s=60)
            server.kill()
        for page in ids:
            with page.expect_event("requestfailed"):
                captures(page, 1)
        with LiveServer(tmp_path, port=port) as server, server.client() as admin:
            project = Project(admin=admin, id=1, token=PROJECT_KEY)
            for page, id in ids.items():
                captures(page, 2)

                def is_there(page: Page = page, id: str = id) -> bool:
                    page.clock.fast_forward(10_000)
                    return len(project.numbers(id)) >= 3

                seconds_until(is_there, at_most_s=60)
                assert project.numbers(id) == [0, 1, 2]
