"""Frontend apps on a page of another origin, in Chromium, loaded by posthog-js."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.browser.chromium import Opened
from tests.browser.pages import PageServer, with_posthog
from tests.support.live import PROJECT_KEY, LiveServer, wait_for

BASE = "/api/environments/1/pipeline_frontend_apps_configs/"
BAR, SCRIPT = 21, 22
MESSAGE = "Free </script> for \u2028 all"
# posthog-js requests the script of surveys from every server unless it is disabled.
PLAIN = {"disable_surveys": "true"}
OPTED_IN = {**PLAIN, "opt_in_site_apps": "true"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("site-apps")) as running:
        yield running


@pytest.fixture
def owner(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client
        for record in client.get(BASE).json()["results"]:
            client.delete(f"{BASE}{record['id']}/")
        wait_for(lambda: config(server)["siteApps"] == [], at_most_s=60)


def app(owner: httpx.Client, server: LiveServer, plugin: int, **settings: Any) -> int:
    """Create and enable an app, and wait until pages get it."""
    id: int = owner.post(BASE, json={"plugin": plugin}).json()["id"]
    assert owner.put(f"{BASE}{id}/config/", json=settings).status_code == 200
    assert owner.patch(f"{BASE}{id}/", json={"enabled": True}).status_code == 200
    wait_for(lambda: id in [each["id"] for each in config(server)["siteApps"]], at_most_s=60)
    return id


def config(server: LiveServer) -> dict[str, Any]:
    address = f"{server.address}/array/{PROJECT_KEY}/config"
    found: dict[str, Any] = httpx.get(address, timeout=60, verify=False).json()
    return found


def captured(owner: httpx.Client, event: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = owner.get(
        "/api/projects/1/events/", params={"event": event}
    ).json()["results"]
    return found


def served(owner: httpx.Client) -> float:
    """How many scripts of apps the service has sent."""
    lines = owner.get("/metrics").text.splitlines()
    counts = [line for line in lines if line.startswith("hedgerow_http_requests_total")]
    return sum(float(line.split()[-1]) for line in counts if "/site_app/" in line)


def test_a_bar_appears_and_its_click_is_an_event(
    server: LiveServer, owner: httpx.Client, opened: Opened, pages: PageServer
) -> None:
    link = pages.put("/offer", "<!doctype html><title>Offer</title>")
    app(owner, server, BAR, message=MESSAGE, button_text="See", button_url=link)
    opened.page.goto(pages.put("/", with_posthog(server.address, PROJECT_KEY, OPTED_IN)))
    bar = opened.page.locator("div[role=status]")
    bar.wait_for()
    assert bar.locator("span").text_content() == MESSAGE
    bar.get_by_text("See").click()
    opened.page.wait_for_url(link)
    wait_for(lambda: len(captured(owner, "notification bar clicked")) == 1, at_most_s=60)
    [click] = captured(owner, "notification bar clicked")
    assert click["properties"]["$message"] == MESSAGE
    assert click["properties"]["$lib"] == "web"
    assert opened.errors == []
    assert opened.failed == []


def test_an_app_runs_once_per_page_with_the_sdk(
    server: LiveServer, owner: httpx.Client, opened: Opened, pages: PageServer
) -> None:
    """And is loaded from the cache the second time: its address says what is in it."""
    code = "window.runs = (window.runs || 0) + 1; posthog.capture('script ran', { by: 'app' })"
    id = app(owner, server, SCRIPT, code=code)
    before, requested = served(owner), list[str]()
    page = opened.page
    page.on("request", lambda request: requested.append(request.url))
    address = pages.put("/", with_posthog(server.address, PROJECT_KEY, OPTED_IN))
    for _ in range(2):
        page.goto(address)
        page.wait_for_function("window.runs === 1")
    assert len([url for url in requested if f"/site_app/{id}/" in url]) == 2
    wait_for(lambda: served(owner) > before, at_most_s=60)
    assert served(owner) == before + 1
    wait_for(lambda: len(captured(owner, "script ran")) == 2, at_most_s=60)
    assert [each["properties"]["by"] for each in captured(owner, "script ran")] == ["app", "app"]
    assert opened.errors == []


def test_a_page_that_did_not_opt_in_runs_no_app(
    server: LiveServer, owner: httpx.Client, opened: Opened, pages: PageServer
) -> None:
    app(owner, server, BAR, message="never seen")
    requested: list[str] = []
    opened.page.on("request", lambda request: requested.append(request.url))
    opened.page.goto(pages.put("/", with_posthog(server.address, PROJECT_KEY, PLAIN)))
    expected = "PostHog site apps are disabled"
    with opened.page.expect_console_message(lambda message: expected in message.text):
        opened.page.evaluate("posthog.set_config({ debug: true })")
        opened.page.reload()
    assert not any("/site_app/" in url for url in requested)
    assert opened.page.locator("div[role=status]").count() == 0
