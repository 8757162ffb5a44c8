"""The console in Chromium over a live service. Every test ends without errors in the console of the
browser and without refused requests that it did not cause on purpose."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Opened
from tests.browser.console import find_violations, list_missing, log_in
from tests.support.live import PERSONAL_KEY, LiveServer

FLAGS = "/api/projects/1/feature_flags/"
# Generous: the machine may be busy.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    if lacks := list_missing():
        pytest.skip(f"missing: {', '.join(lacks)}")
    with LiveServer(tmp_path_factory.mktemp("console")) as running:
        with running.client() as client:
            for number in range(60):
                create_flag(client, f"flag-{number}", name="Slow lists" if number == 7 else "")
        yield running


def create_flag(client: httpx.Client, key: str, **fields: Any) -> int:
    filters = {"groups": [{"properties": [], "rollout_percentage": 50}]}
    sent = {"key": key, "active": True, "filters": filters, **fields}
    response = client.post(FLAGS, json=sent)
    assert response.status_code == 201, response.text
    id: int = response.json()["id"]
    return id


@pytest.fixture
def page(server: LiveServer, opened: Opened) -> Iterator[Page]:
    """A page that is logged in. The test fails if it has errors at the end."""
    log_in(opened.page, server)
    yield opened.page
    assert opened.errors == []
    # A newer search ends the request of the older one.
    assert [each for each in opened.failed if "ERR_ABORTED" not in each] == []


def test_login_with_a_key(server: LiveServer, opened: Opened) -> None:
    page = opened.page
    page.goto(server.address)
    expect(page.get_by_role("heading", name="Hedgerow")).to_be_visible()
    assert find_violations(page) == []
    assert opened.failed == []
    page.get_by_label("Personal API key").fill("phx_wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("form .error-text")).to_be_visible()
    page.get_by_label("Personal API key").fill(PERSONAL_KEY)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Feature flags")).to_be_visible()
    assert page.url.startswith(f"{server.address}/project/1/feature_flags")
    assert len(opened.failed) == 1
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Personal API key")).to_be_visible()


def test_flags_are_searched_filtered_and_paged_by_the_service(page: Page) -> None:
    expect(page.get_by_text("60 flags")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(51)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("51–60 of 60")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("slow lists")
    expect(page.get_by_role("link", name="flag-7")).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(2)
    assert "search=slow+lists" in page.url
    assert "offset" not in page.url
    assert find_violations(page) == []
    page.get_by_label("State").select_option("Off")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    page.get_by_role("button", name="Clear search and filters").click()
    expect(page.get_by_text("60 flags")).to_be_visible()


def test_toggle_of_a_flag_is_stored_and_undone(page: Page, server: LiveServer) -> None:
    switch = page.get_by_role("switch", name="flag-59 is on")
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "false")
    expect(page.get_by_text("flag-59 is off.")).to_be_visible()
    with server.client() as client:
        assert client.get(f"{FLAGS}flag-59/").json()["active"] is False
    page.get_by_role("button", name="Undo").click()
    expect(switch).to_have_attribute("aria-checked", "true")


def test_keys_go_to_pages_and_the_palette_finds_flags(page: Page) -> None:
    page.get_by_label("Search by key or description").fill("flag-41")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("heading", name="Feature flags").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert find_violations(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.type("flag-41")
    expect(page.get_by_role("option", name="flag-41")).to_be_visible()
    assert find_violations(page) == []
    page.keyboard.press("Enter")
    page.wait_for_url("**/feature_flags/*")
    page.keyboard.press("g")
    page.keyboard.press("f")
    page.wait_for_url("**/feature_flags")


def test_ended_session_asks_for_the_key_over_the_page(server: LiveServer, opened: Opened) -> None:
    page = opened.page
    log_in(page, server)
    expect(page.get_by_text("60 flags")).to_be_visible()
    page.evaluate("sessionStorage.setItem('hedgerow.key', 'phx_ended')")
    page.get_by_label("Search by key or description").fill("flag-3")
    dialog = page.get_by_role("dialog", name="Log in again")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Personal API key").fill(PERSONAL_KEY)
    dialog.get_by_role("button", name="Log in").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("row")).to_have_count(12)
