"""Insights, dashboards, definitions and actions in the console, as people use them: in Chromium
over a live service."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Opened
from tests.browser.console import find_violations, list_missing, log_in
from tests.support.live import PROJECT_KEY, LiveServer, wait_for

API = "/api/projects/1"
# A name that would run, if it were markup.
HOSTILE = "<img src=x onerror=alert(1)>"
# Generous: the machine may be busy.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    if lacks := list_missing():
        pytest.skip(f"missing: {', '.join(lacks)}")
    with LiveServer(tmp_path_factory.mktemp("console_insights")) as running:
        send_events(running)
        yield running


def send_events(server: LiveServer) -> None:
    """Ten persons visit, six sign up, three pay, on the five days before today. The plan of the
    last is hostile."""
    noon = datetime.now(UTC).replace(hour=12, minute=0)
    batch: list[dict[str, Any]] = []
    for number in range(10):
        names = ["visited", "signed up", "paid"][: 1 + (number < 6) + (number < 3)]
        for step, name in enumerate(names):
            at = noon - timedelta(days=1 + number % 5, minutes=-step)
            plan = HOSTILE if number == 9 else "pro" if number % 2 else "free"
            properties = {"plan": plan, "amount": 10 + number, "$set": {"plan": plan}}
            if name == "paid":
                properties["method"] = "card"
            sent = {"event": name, "distinct_id": f"p{number}", "timestamp": at.isoformat()}
            batch.append({**sent, "properties": properties})
    with server.client() as client:
        assert client.post("/batch", json={"api_key": PROJECT_KEY, "batch": batch}).is_success
        wait_for(lambda: count_definitions(client) == 3, at_most_s=60)
        wait_for(lambda: count_events(client) == 19, at_most_s=60)


def count_definitions(client: httpx.Client) -> int:
    count: int = client.get(f"{API}/event_definitions/").json()["count"]
    return count


def count_events(client: httpx.Client) -> int:
    query = {"kind": "HogQLQuery", "query": "select count() from events"}
    found: int = client.post(f"{API}/query/", json={"query": query, "refresh": True}).json()[
        "results"
    ][0][0]
    return found


def create_insight(client: httpx.Client, name: str, **fields: Any) -> dict[str, Any]:
    series = [{"kind": "EventsNode", "event": "visited", "math": "total"}]
    source = {"kind": "TrendsQuery", "series": series, "dateRange": {"date_from": "-7d"}}
    sent = {"name": name, "query": {"kind": "InsightVizNode", "source": source}, **fields}
    response = client.post(f"{API}/insights/", json=sent)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


@pytest.fixture
def page(server: LiveServer, tab: Opened) -> Iterator[Page]:
    """A page that is logged in. The test fails if it has errors at the end."""
    log_in(tab.page, server, "insights/new")
    yield tab.page
    assert tab.errors == []
    assert [each for each in tab.failed if "ERR_ABORTED" not in each] == []


def test_trend_is_asked_saved_and_put_on_a_new_dashboard(page: Page, server: LiveServer) -> None:
    expect(page.get_by_role("heading", name="New insight")).to_be_visible()
    page.get_by_role("combobox", name="Series A, event").fill("signed")
    page.get_by_role("option", name="signed up").click()
    page.get_by_label("Series A, math").select_option("Unique persons")
    page.get_by_role("button", name="Add a filter").last.click()
    page.get_by_role("combobox", name="Filter 1, property").fill("plan")
    page.get_by_role("option", name="plan event").click()
    values = page.get_by_role("combobox", name="Filter 1, values")
    values.click()
    page.get_by_role("option", name="free").click()
    breakdown = page.get_by_role("combobox", name="Breakdown", exact=True)
    for text, option in (("method", "method other events"), ("plan", "plan event")):
        breakdown.fill(text)
        expect(page.get_by_role("option", name=option)).to_be_visible()
    breakdown.fill("")
    page.get_by_label("Period", exact=True).select_option("Last 7 days")
    table = page.get_by_role("region", name="New insight, as a table")
    expect(table.get_by_role("row")).to_have_count(9)
    chart = page.get_by_role("slider", name="New insight")
    chart.focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    expect(chart).to_have_attribute("aria-valuetext", re.compile("unique persons 1$"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("listitem")).to_have_count(1)
    page.keyboard.press("Escape")
    assert "q=" in page.url
    assert find_violations(page) == []
    page.get_by_role("button", name="Save…").click()
    page.get_by_role("textbox", name="Name", exact=True).fill("Free signups")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Free signups")).to_be_visible()
    page.get_by_role("button", name="Show on dashboards…").click()
    page.get_by_label("Search dashboards").fill("Weekly")
    page.get_by_role("button", name="Create the dashboard “Weekly”").click()
    expect(page.get_by_role("switch", name="Show on Weekly")).to_have_attribute(
        "aria-checked", "true"
    )
    for state in ("false", "true"):
        page.get_by_role("dialog").get_by_text("Weekly", exact=True).click()
        expect(page.get_by_role("switch", name="Show on Weekly")).to_have_attribute(
            "aria-checked", state
        )
    search = page.get_by_role("dialog").locator(".search").bounding_box()
    assert search is not None
    assert search["height"] < 60
    with server.client() as client:
        [saved] = client.get(f"{API}/insights/", params={"search": "Free signups"}).json()[
            "results"
        ]
    source = saved["query"]["source"]
    assert source["series"][0]["math"] == "dau"
    assert source["properties"][0]["value"] == ["free"]
    assert len(saved["dashboards"]) == 1


def test_funnel_shows_who_left(page: Page) -> None:
    page.get_by_role("button", name="Funnel").click()
    for number, name in enumerate(("visited", "signed up", "paid"), start=1):
        step = page.get_by_role("combobox", name=f"Step {number}, event")
        if number > 1:
            page.get_by_role("button", name="Add a step").click()
            expect(step).to_be_focused()
        step.click()
        page.keyboard.type(name)  # replaces "All events"
        page.get_by_role("option", name=name).click()
    steps = page.get_by_role("list", name="Steps")
    expect(steps).to_contain_text("3. paid")
    expect(steps).to_contain_text("30 %")
    left = steps.get_by_role("button", name="4 left")
    assert (left.bounding_box() or {"height": 0})["height"] >= 24  # WCAG 2.5.8
    left.click()
    expect(page.get_by_role("dialog").get_by_role("listitem")).to_have_count(4)
    page.keyboard.press("Escape")
    assert find_violations(page) == []


def test_dashboard_is_arranged_by_keyboard_and_shared(
    page: Page, server: LiveServer, tab: Opened
) -> None:
    with server.client() as client:
        made = [create_insight(client, name)["id"] for name in ("One", HOSTILE)]
        tiles = [{"insight": {"id": id}} for id in made]
        board = client.post(f"{API}/dashboards/", json={"name": "Arranged", "tiles": tiles}).json()
    page.goto(f"{server.address}/project/1/dashboard/{board['id']}")
    expect(page.get_by_role("slider")).to_have_count(2)
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Add a text").click()
    page.get_by_role("textbox", name="Text").fill("What these numbers mean")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("What these numbers mean")).to_be_visible()
    page.get_by_role("button", name="Edit the layout").click()
    page.get_by_role("region", name="Text").focus()
    page.keyboard.press("Alt+ArrowUp")
    page.keyboard.press("Alt+ArrowUp")
    page.keyboard.press("Alt+Shift+ArrowRight")
    expect(page.get_by_text("8 of 12 columns wide")).to_be_attached()
    page.get_by_role("button", name="Save the layout").click()
    expect(page.get_by_text("The layout is saved.")).to_be_visible()
    with server.client() as client:
        stored = client.get(f"{API}/dashboards/{board['id']}/").json()["tiles"]
    [text] = [tile for tile in stored if tile["text"]]
    assert text["layouts"]["sm"] | {"h": 0} == {"x": 0, "y": 0, "w": 8, "h": 0}
    page.get_by_label("One period for all tiles").check()
    page.get_by_label("Period of all tiles").select_option("Last 24 hours")
    expect(page.get_by_role("button", name="Save this period")).to_be_visible()
    assert "date_from=-24h" in page.url
    assert find_violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Share by a link…").click()
    page.get_by_role("switch", name="The link works").click()
    link = page.get_by_label("link", exact=True).inner_text().strip()
    visitor = tab.page.context.browser
    assert visitor is not None
    with visitor.new_context() as anonymous:
        shared = anonymous.new_page()
        shared.goto(link)
        expect(shared.get_by_role("heading", name="Arranged")).to_be_visible()
        expect(shared.get_by_role("region", name="One", exact=True)).to_be_visible()
        assert find_violations(shared) == []
        page.get_by_role("switch", name="The link works").click()
        expect(page.get_by_text("Only people with access to this project")).to_be_visible()
        shared.reload()
        expect(
            shared.get_by_role("heading", name="This link does not work anymore")
        ).to_be_visible()


def test_insights_are_filtered_and_a_note_is_put_on_a_chart(page: Page, server: LiveServer) -> None:
    with server.client() as client:
        made = create_insight(client, "Noted", tags=["growth"], saved=True)
    page.goto(f"{server.address}/project/1/insights")
    page.get_by_role("button", name="growth").click()
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name="Noted is a favorite").click()
    page.get_by_label("Favorites").select_option("Favorites")
    expect(page.get_by_role("row")).to_have_count(2)
    assert find_violations(page) == []
    page.get_by_role("link", name="Noted").click()
    page.get_by_role("button", name="Note", exact=True).click()
    page.get_by_label("What happened").fill("Campaign")
    page.get_by_role("button", name="Save", exact=True).last.click()
    expect(page.get_by_role("button", name=re.compile("Note of .*: Campaign"))).to_be_visible()
    with server.client() as client:
        [note] = client.get(f"{API}/annotations/").json()["results"]
        assert client.get(f"{API}/insights/{made['id']}/").json()["favorited"] is True
    assert (note["content"], note["scope"]) == ("Campaign", "project")


def test_event_gets_a_schema_and_an_action_shows_its_events(page: Page, server: LiveServer) -> None:
    page.goto(f"{server.address}/project/1/data-management/events")
    expect(page.get_by_role("row")).to_have_count(4)
    page.get_by_role("switch", name="paid is verified").click()
    assert find_violations(page) == []
    page.get_by_role("link", name="paid").click()
    schema = page.get_by_label("JSON schema")
    schema.fill('{"type": ')
    expect(page.get_by_text("Not valid JSON")).to_be_visible()
    schema.fill('{"type": "object", "required": ["plan"]}')
    page.get_by_label("An event that breaks it").select_option("is rejected")
    page.get_by_role("button", name="Save the schema").click()
    expect(page.get_by_text("The schema is saved.")).to_be_visible()
    assert find_violations(page) == []
    page.goto(f"{server.address}/project/1/data-management/actions/new")
    page.get_by_role("textbox", name="Name", exact=True).fill("Paid by the free plan")
    page.get_by_role("combobox", name="Event of match 1").fill("paid")
    page.get_by_role("button", name="Add a filter").click()
    page.get_by_role("combobox", name="Filter of match 1 1, property").fill("plan")
    page.get_by_role("option", name="plan event").click()
    page.get_by_role("combobox", name="Filter of match 1 1, values").click()
    page.get_by_role("option", name="free").click()
    page.get_by_role("button", name="Save", exact=True).click()
    matching = page.get_by_role("region", name="Newest matching events")
    expect(matching.get_by_role("row")).to_have_count(3)
    assert find_violations(page) == []
    with server.client() as client:
        [paid] = client.get(f"{API}/event_definitions/", params={"search": "paid"}).json()[
            "results"
        ]
    assert (paid["verified"], paid["schema_mode"]) == (True, "reject")


def test_query_is_saved_and_opened_again(page: Page, server: LiveServer) -> None:
    page.goto(f"{server.address}/project/1/sql?q=select+42+as+answer")
    page.get_by_role("button", name="Save as…").click()
    page.get_by_role("textbox", name="Name", exact=True).fill("The answer")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("“The answer” is saved.")).to_be_visible()
    page.goto(f"{server.address}/project/1/sql")
    page.get_by_role("button", name="Saved queries").click()
    page.get_by_role("button", name="The answer").click()
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("cell", name="42")).to_be_visible()
    assert find_violations(page) == []


def test_query_is_canceled(page: Page, server: LiveServer) -> None:
    page.goto(f"{server.address}/project/1/sql")
    expect(page.get_by_text("Nothing has run yet")).to_be_visible()
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    slow = {"offline": False, "latency": 60_000, "downloadThroughput": -1, "uploadThroughput": -1}
    network.send("Network.emulateNetworkConditions", slow)
    page.get_by_role("button", name="Run").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("The query was canceled")).to_be_visible()
    network.send("Network.emulateNetworkConditions", {**slow, "latency": 0})
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("table")).to_be_visible()


def test_alert_is_made_fires_and_is_deleted(page: Page, server: LiveServer) -> None:
    with server.client() as client:
        made = create_insight(client, "Watched")
        page.goto(f"{server.address}/project/1/insights/{made['short_id']}?tab=alerts")
        page.get_by_role("button", name="New alert").click()
        dialog = page.get_by_role("dialog", name="New alert")
        expect(dialog.get_by_text("There is no destination yet.")).to_be_visible()
        dialog.get_by_label("Below").fill("1000")
        dialog.get_by_role("button", name="Save").click()
        alert = page.get_by_role("region", name="Alert on Watched")
        expect(alert).to_contain_text("below 1,000")
        expect(alert).to_contain_text("Firing")
        assert find_violations(page) == []
        alert.get_by_role("button", name="Actions for Alert on Watched").click()
        page.get_by_role("menuitem", name="Delete…").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete the alert").click()
        expect(page.get_by_role("heading", name="No alerts yet")).to_be_visible()
