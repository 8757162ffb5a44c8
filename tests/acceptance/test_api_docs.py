"""The documentation of the API in Chromium: search, groups, aliases, and a request."""

import json
from collections.abc import Iterator, Sequence

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Opened
from tests.browser.console import KEY_ITEM, find_violations, list_missing
from tests.support.live import PERSONAL_KEY, LiveServer

# Generous: the machine may be busy.
expect.set_options(timeout=30_000)
# What the viewer has of its own and we cannot change.
VIEWER_RULES: Sequence[str] = ()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    if lacks := list_missing():
        pytest.skip(f"missing: {', '.join(lacks)}")
    with LiveServer(tmp_path_factory.mktemp("docs")) as running:
        yield running


def open_docs(page: Page, server: LiveServer) -> None:
    page.goto(f"{server.address}/api/docs/")
    expect(page.get_by_role("heading", name="Feature flags")).to_be_visible()


def test_operations_are_grouped_and_searched(server: LiveServer, opened: Opened) -> None:
    page = opened.page
    open_docs(page, server)
    expect(page.get_by_text("/api/projects/{project_id}/experiments/")).to_have_count(0)
    page.get_by_role("searchbox").fill("launch experiment")
    expect(page.get_by_role("heading", name="Experiments")).to_be_visible()
    expect(page.get_by_role("heading", name="Feature flags")).to_have_count(0)
    expect(page.locator(".opblock-summary")).to_have_count(1)
    page.get_by_role("checkbox").check()
    expect(page.locator(".opblock-summary")).to_have_count(2)
    page.get_by_role("checkbox").uncheck()
    expect(page.locator(".opblock-summary")).to_have_count(1)
    found = find_violations(page)
    assert [each for each in found if not any(rule in each for rule in VIEWER_RULES)] == []
    page.get_by_role("searchbox").fill("")
    expect(page.get_by_role("heading", name="Feature flags")).to_be_visible()
    assert opened.errors == []
    assert opened.failed == []


def test_request_is_sent_with_the_login_of_the_console(server: LiveServer, opened: Opened) -> None:
    page = opened.page
    page.add_init_script(f"sessionStorage.setItem('{KEY_ITEM}', {json.dumps(PERSONAL_KEY)})")
    open_docs(page, server)
    page.get_by_role("searchbox").fill("get /api/users/@me/ retrieve")
    page.locator(".opblock-summary-control").first.click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    response = page.locator(".live-responses-table")
    expect(response).to_contain_text("200")
    expect(response).to_contain_text("owner@hedgerow.invalid")
    assert opened.errors == []
    assert opened.failed == []
