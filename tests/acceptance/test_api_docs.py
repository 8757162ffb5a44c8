"""The documentation of the API in Chromium: search, groups, aliases, and a request."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Opened
from tests.browser.console import KEY_ITEM, find_violations, list_missing
from tests.support.live import PERSONAL_KEY, LiveServer

# Generous: the machine may be busy.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    if lacks := list_missing():
        pytest.skip(f"missing: {', '.join(lacks)}")
    with LiveServer(tmp_path_factory.mktemp("docs")) as running:
        yield running


def test_operations_are_grouped_searched_and_tried(server: LiveServer, opened: Opened) -> None:
    """One page for all of it, because the viewer takes seconds to start on a busy machine."""
    page = opened.page
    page.add_init_script(f"sessionStorage.setItem('{KEY_ITEM}', {json.dumps(PERSONAL_KEY)})")
    page.goto(f"{server.address}/api/docs/")
    flags = page.get_by_role("heading", name="Feature flags")
    operations = page.locator(".opblock-summary")
    expect(flags).to_be_visible()
    expect(operations).to_have_count(0)
    page.get_by_role("searchbox").fill("launch experiment")
    expect(operations).to_have_count(1)
    expect(flags).to_have_count(0)
    page.get_by_role("checkbox").check()
    expect(operations).to_have_count(2)
    try_operation(page, "get /api/users/@me/ retrieve", "owner@hedgerow.invalid")
    assert find_violations(page) == []
    page.get_by_role("searchbox").fill("")
    expect(flags).to_be_visible()
    assert opened.errors == []
    assert opened.failed == []


def try_operation(page: Page, search: str, answer: str) -> None:
    """Send a request from the page, as the person who is logged in."""
    page.get_by_role("searchbox").fill(search)
    page.locator(".opblock-summary-control").first.click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    response = page.locator(".live-responses-table")
    expect(response).to_contain_text("200")
    expect(response).to_contain_text(answer)
