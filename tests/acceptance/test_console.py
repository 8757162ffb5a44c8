"""The console in Chromium over a live service. Every test ends without errors in the console of the
browser and without refused requests that it did not cause on purpose."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Opened
from tests.browser.console import find_violations, list_missing, log_in, wait_until_whole
from tests.support.live import PERSONAL_KEY, PROJECT_KEY, LiveServer, wait_for

FLAGS = "/api/projects/1/feature_flags/"
HEADINGS = {
    "home": "Default project",
    "persons": "Persons",
    "activity/live": "Live events",
    "activity/explore": "Explore",
    "sql": "Query",
    "activity_log": "Activity",
    "feature_flags/new": "New feature flag",
}
# Markup, a script in an attribute, a link that runs, text that turns around, and a long value.
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "\"'><script>alert(2)</script>",
    "javascript:alert(3)",
    "\u202egnp.exe",
    "x" * 20_000,
)
SLOW_4G = {
    "offline": False,
    "latency": 150,
    "downloadThroughput": 200_000,
    "uploadThroughput": 90_000,
}
MAX_SHIFT = 0.02
WATCH_SHIFTS = """
window.shifts = 0
new PerformanceObserver(list => {
  for (const each of list.getEntries()) if (!each.hadRecentInput) window.shifts += each.value
}).observe({ type: 'layout-shift', buffered: true })
"""
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
            send_persons(running)
        yield running


def create_flag(client: httpx.Client, key: str, **fields: Any) -> int:
    filters = {"groups": [{"properties": [], "rollout_percentage": 50}]}
    sent = {"key": key, "active": True, "filters": filters, **fields}
    response = client.post(FLAGS, json=sent)
    assert response.status_code == 201, response.text
    id: int = response.json()["id"]
    return id


def send_persons(server: LiveServer) -> None:
    """Ten persons, of whom the first half pays. The properties of one are hostile."""
    plans = ["pro"] * 5 + ["free"] * 5
    batch: list[dict[str, Any]] = [
        {"event": "ordered", "distinct_id": f"p{number}", "properties": {"$set": {"plan": plan}}}
        for number, plan in enumerate(plans)
    ]
    hostile = {f"{text[:40]}{number}": text for number, text in enumerate(HOSTILE)}
    batch[9]["properties"] = {**hostile, "$set": {"plan": "free", "email": HOSTILE[0], **hostile}}
    batch[9]["event"] = HOSTILE[1]
    with server.client() as client:
        sent = client.post("/batch", json={"api_key": PROJECT_KEY, "batch": batch})
        assert sent.status_code == 200
        wait_for(lambda: client.get("/api/projects/1/persons/").json()["count"] == 10, at_most_s=60)


@pytest.fixture
def page(server: LiveServer, tab: Opened) -> Iterator[Page]:
    """A page that is logged in, at the list of flags. The test fails if it has errors at the
    end."""
    log_in(tab.page, server)
    yield tab.page
    assert tab.errors == []
    assert refused(tab) == []


def refused(opened: Opened) -> list[str]:
    """The failed requests, but those that a newer one replaced or a new page ended."""
    return [each for each in opened.failed if "ERR_ABORTED" not in each]


def test_login_with_a_key(server: LiveServer, tab: Opened) -> None:
    page = tab.page
    page.goto(server.address)
    expect(page.get_by_role("heading", name="Hedgerow")).to_be_visible()
    assert find_violations(page) == []
    assert tab.failed == []
    page.get_by_role("button", name="Use a personal API key").click()
    page.get_by_label("Personal API key").fill("phx_wrong")
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.locator("form .error-text")).to_be_visible()
    page.get_by_label("Personal API key").fill(PERSONAL_KEY)
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_role("heading", name="Default project")).to_be_visible()
    assert page.url.startswith(f"{server.address}/project/1/home")
    assert len(tab.failed) == 1
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()


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


def test_activity_is_found_by_who_what_and_when(page: Page) -> None:
    page.get_by_role("link", name="Activity").click()
    page.get_by_label("Search by person or name").fill("flag-41")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_label("Period").select_option("Last 7 days")
    page.get_by_label("Action").select_option("created")
    expect(page.get_by_role("row", name="created feature flag flag-41")).to_be_visible()
    assert "start_date=-7d" in page.url
    page.get_by_label("Action").select_option("deleted")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    assert find_violations(page) == []


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
    expect(page.get_by_role("combobox", name="Search and commands")).to_be_focused()
    page.keyboard.type("flag-41")
    expect(page.get_by_role("option", name="flag-41")).to_be_visible()
    assert find_violations(page) == []
    page.keyboard.press("Enter")
    page.wait_for_url("**/feature_flags/*")
    page.keyboard.press("g")
    page.keyboard.press("f")
    page.wait_for_url("**/feature_flags")


def test_ended_session_asks_for_the_key_over_the_page(server: LiveServer, tab: Opened) -> None:
    page = tab.page
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


def open_new_flag(page: Page, server: LiveServer, key: str) -> None:
    page.goto(f"{server.address}/project/1/feature_flags/new")
    page.get_by_label("Key", exact=True).fill(key)


def test_editor_shows_who_gets_a_draft_and_why(page: Page, server: LiveServer) -> None:
    open_new_flag(page, server, "new-cart")
    page.get_by_role("button", name="Add a filter").click()
    expect(page.get_by_role("combobox", name="Property of filter 1")).to_be_focused()
    page.keyboard.type("plan")
    values = page.get_by_role("combobox", name="Values of filter 1")
    values.click()
    page.get_by_role("option", name="pro").click()
    page.get_by_label("Rollout of condition 1 in percent", exact=True).fill("100")
    condition = page.get_by_role("group", name="Condition 1")
    expect(condition).to_contain_text("matches 5 · in the rollout 5 · decided here 5")
    expect(page.get_by_role("region", name="Who gets it")).to_contain_text("Of all 10 persons.")
    person = page.get_by_role("combobox", name="Person", exact=True)
    tried = page.get_by_role("region", name="Try one person")
    person.fill("p777")
    page.keyboard.press("Enter")
    expect(tried).to_contain_text("No stored person has the distinct id p777.")
    person.blur()
    person.click()
    page.keyboard.type("p7")  # replaces what was there
    page.get_by_role("option", name="p7").click()
    expect(tried).to_contain_text("plan is pro — is free")
    expect(tried).not_to_contain_text("No stored person")
    # A person who was chosen by email stays shown by email, and is found by it again.
    person.fill(HOSTILE[0])
    options = page.get_by_role("listbox", name="Person").get_by_role("option")
    # Those of the search before may still be there.
    options.filter(has_text=HOSTILE[0]).first.click()
    expect(person).to_have_value(HOSTILE[0])
    page.keyboard.press("Enter")
    expect(tried).to_contain_text("plan is pro — is free")
    expect(tried).not_to_contain_text("No stored person")
    assert find_violations(page) == []
    page.get_by_role("button", name="Review and save").click()
    dialog = page.get_by_role("dialog", name="Review the new flag")
    expect(dialog.get_by_role("row", name="Condition 1")).to_contain_text("plan is pro · 100 %")
    dialog.get_by_role("button", name="Create the flag").click()
    expect(page.get_by_role("heading", name="new-cart")).to_be_visible()
    with server.client() as client:
        [group] = client.get(f"{FLAGS}new-cart/").json()["filters"]["groups"]
    assert group["properties"][0]["value"] == ["pro"]
    assert group["rollout_percentage"] == 100


def test_conditions_move_by_keyboard_and_the_review_shows_it(
    page: Page, server: LiveServer
) -> None:
    groups: list[dict[str, Any]] = [
        {"properties": [], "rollout_percentage": share} for share in (10, 20)
    ]
    with server.client() as client:
        id = create_flag(client, "moved", filters={"groups": groups})
    page.goto(f"{server.address}/project/1/feature_flags/{id}")
    page.get_by_role("button", name="Move condition 2 up").focus()
    page.keyboard.press("Alt+ArrowUp")
    share = page.get_by_label("Rollout of condition 1 in percent", exact=True)
    expect(share).to_have_value("20")
    page.reload()
    expect(share).to_have_value("20")  # the draft survives
    page.get_by_role("button", name="Review and save").click()
    dialog = page.get_by_role("dialog", name="Review the changes")
    expect(dialog).to_contain_text("Condition 1 · rollout")
    assert find_violations(page) == []
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Version 2")).to_be_visible()
    page.get_by_role("link", name="History").click()
    page.get_by_role("button", name="Restore what was before").click()
    expect(share).to_have_value("10")
    page.get_by_role("button", name="Review and save").click()
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Version 3")).to_be_visible()
    with server.client() as client:
        stored = client.get(f"{FLAGS}{id}/").json()["filters"]["groups"]
    assert [each["rollout_percentage"] for each in stored] == [10, 20]


def test_edit_of_somebody_else_is_merged(server: LiveServer, tab: Opened) -> None:
    page = tab.page
    with server.client() as client:
        id = create_flag(client, "shared", name="Before")
        log_in(page, server)
        page.goto(f"{server.address}/project/1/feature_flags/{id}")
        page.get_by_label("Description").fill("Mine")
        theirs = {"name": "Theirs", "tags": ["theirs"]}
        assert client.patch(f"{FLAGS}{id}/", json=theirs).status_code == 200
        page.get_by_role("button", name="Review and save").click()
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        dialog = page.get_by_role("dialog", name="Someone else changed this flag")
        expect(dialog).to_contain_text("Theirs")
        assert find_violations(page) == []
        dialog.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Version 3")).to_be_visible()
        saved = client.get(f"{FLAGS}{id}/").json()
    assert (saved["name"], saved["tags"]) == ("Mine", ["theirs"])
    assert [each.split()[0] for each in refused(tab)] == ["409"]


def test_result_of_a_query_is_accessible_with_hostile_data(page: Page, server: LiveServer) -> None:
    page.goto(f"{server.address}/project/1/sql")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_text("2 rows")).to_be_visible()
    assert find_violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def list_routes() -> list[str]:
    """The pages without a parameter, or with an optional one, as the source of the console has
    them: a new page is tested from its first day."""
    source = (Path(__file__).parents[2] / "console" / "src" / "app.tsx").read_text()
    routes = re.findall(r'<Route path="/project/:project/([^"]+)"', source)
    return [
        each
        for each in (re.sub(r"/:\w+\?", "", route) for route in routes)
        if not set(each) & set(":*")
    ]


def test_each_route_is_accessible_on_a_slow_network_and_a_phone(
    page: Page, server: LiveServer
) -> None:
    """A page keeps its place while it loads: nothing moves when the data arrives. Hostile data
    runs nothing."""
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.add_init_script(WATCH_SHIFTS)
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", SLOW_4G)
    found: dict[str, Any] = {}
    routes = [*list_routes(), "feature_flags/new"]
    assert HEADINGS.keys() <= set(routes)
    for route in routes:
        page.goto(f"{server.address}/project/1/{route}")
        if route in HEADINGS:
            expect(page.get_by_role("heading", name=HEADINGS[route], level=1)).to_be_visible()
        wait_until_whole(page)
        shift = page.evaluate("shifts")
        problems = find_violations(page)
        page.set_viewport_size({"width": 390, "height": 844})
        width = page.evaluate("document.documentElement.scrollWidth")
        page.set_viewport_size({"width": 1280, "height": 720})
        if problems or width > 390 or shift > MAX_SHIFT:
            found[route] = (problems, width, shift)
    assert found == {}
    assert dialogs == []
    assert len(routes) > 20


def test_person_with_hostile_properties(page: Page, server: LiveServer) -> None:
    page.goto(f"{server.address}/project/1/persons?search=onerror")
    page.get_by_role("link", name=HOSTILE[0]).click()
    expect(page.get_by_role("heading", name=HOSTILE[0])).to_be_visible()
    expect(page.get_by_text("U+202E").first).to_be_visible()
    expect(page.get_by_role("button", name="Show all 20,000 characters").first).to_be_visible()
    assert find_violations(page) == []
    page.get_by_role("link", name="Flags now").click()
    page.get_by_role("button", name="Why flag-1?").click()
    expect(page.get_by_role("dialog")).to_contain_text("Rollout 50 %")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Events", exact=True).click()
    page.get_by_role("button", name="Details of").click()
    expect(page.get_by_role("region", name="Properties")).to_contain_text("javascript:alert(3)")
    assert find_violations(page) == []


def test_person_is_found_with_its_events_and_deleted(page: Page, server: LiveServer) -> None:
    event = {"event": "left", "distinct_id": "leaving", "properties": {"$set": {"plan": "free"}}}
    with server.client() as client:
        assert client.post("/batch", json={"api_key": PROJECT_KEY, "batch": [event]}).is_success
        wait_for(lambda: count_persons(client, "leaving") == 1, at_most_s=60)
        page.goto(f"{server.address}/project/1/persons")
        page.get_by_role("searchbox").fill("leaving")
        page.get_by_role("link", name="leaving").click()
        parts = page.get_by_role("navigation", name="Parts of the person")
        parts.get_by_role("link", name="Events").click()
        expect(page.get_by_role("cell", name="left", exact=True)).to_be_visible()
        page.get_by_role("button", name="Actions for this person").click()
        page.get_by_role("menuitem", name="Delete…").click()
        dialog = page.get_by_role("dialog", name="Delete this person?")
        expect(dialog).to_contain_text("1 distinct id")
        expect(dialog).to_contain_text("Their 1 event stays.")
        dialog.get_by_label("Delete their events, too").check()
        expect(dialog).to_contain_text("Their 1 event is deleted, too.")
        dialog.get_by_role("button", name="Delete the person").click()
        expect(page.get_by_text("leaving is deleted.")).to_be_visible()
        assert count_persons(client, "leaving") == 0
        stored = "/api/projects/1/events/?event=left"
        wait_for(lambda: client.get(stored).json()["results"] == [], at_most_s=120)


def count_persons(client: httpx.Client, distinct_id: str) -> int:
    found = client.get("/api/projects/1/persons/", params={"distinct_id": distinct_id}).json()
    return len(found["results"])
