"""The pipeline pages of the console in Chromium: what people on call and admins do with them."""

import sqlite3
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from hedgerow.storage.ingestion.inbox_packing import pack_single_row
from tests.acceptance.test_console import HOSTILE, refused
from tests.browser.chromium import Opened
from tests.browser.console import find_violations, list_missing, log_in, wait_until_whole
from tests.contract.storage.ingestion.test_inbox import build_captured_event
from tests.support.live import PROJECT_KEY, LiveServer, wait_for
from tests.support.receiver import PlannedResponse, ReceivedRequest, Receiver

API = "/api/projects/1"
DESTINATIONS = f"{API}/pipeline_destination_configs/"
TRANSFORMATIONS = f"{API}/pipeline_transformation_configs/"
WEBHOOK, MASK_IP, BOT_FILTER, USER_AGENT = 1, 65, 67, 66
PHONE = {"width": 390, "height": 844}
expect.set_options(timeout=30_000)
# What a browser does with a tab behind others.
SET_VISIBILITY = """
state => {
  Object.defineProperty(document, 'visibilityState', {value: state, configurable: true})
  document.dispatchEvent(new Event('visibilitychange'))
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    if lacks := list_missing():
        pytest.skip(f"missing: {', '.join(lacks)}")
    data = tmp_path_factory.mktemp("pipelines")
    with LiveServer(data, allow_private_destinations="true") as running:
        yield running


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def page(server: LiveServer, tab: Opened) -> Iterator[Page]:
    log_in(tab.page, server, "pipeline")
    expect(tab.page.get_by_role("heading", name="Pipelines")).to_be_visible()
    yield tab.page
    assert tab.errors == []
    assert refused(tab) == []


def create(
    client: httpx.Client, path: str, plugin: int, name: str, *, enabled: bool = True, **config: Any
) -> str:
    """Return the path of a new record."""
    made = client.post(path, json={"plugin": plugin, "name": name})
    assert made.status_code == 201, made.text
    own = f"{path}{made.json()['id']}/"
    if config:
        configured = client.put(f"{own}config/", json=config)
        assert configured.status_code == 200, configured.text
    assert client.patch(own, json={"enabled": enabled}).status_code == 200
    return own


def capture(client: httpx.Client, name: str, number: int, **properties: Any) -> None:
    batch = [
        {"event": name, "distinct_id": f"p{each}", "properties": {"sku": each, **properties}}
        for each in range(number)
    ]
    sent = client.post("/batch/", json={"api_key": PROJECT_KEY, "batch": batch})
    assert sent.status_code == 200, sent.text


def refuse(request: ReceivedRequest) -> PlannedResponse:
    return PlannedResponse(status=400, body=b"unknown field sku")


def find_id(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[1]


def test_person_on_call_finds_why_a_destination_fails_and_sends_everything_again(
    page: Page, server: LiveServer, receiver: Receiver
) -> None:
    receiver.decide = refuse
    with server.client() as client:
        own = create(client, DESTINATIONS, WEBHOOK, "Orders to CRM", url=receiver.url)
        capture(client, "ordered", 12)
        dead = f"{own}deliveries/?status=dead"
        wait_for(lambda: client.get(dead).json()["count"] == 12, at_most_s=60)
    page.get_by_label("State").select_option("Failing")
    row = page.get_by_role("row", name="Orders to CRM")
    expect(row).to_contain_text("unknown field sku")
    assert find_violations(page) == []
    row.get_by_role("link", name="Orders to CRM").click()
    why = page.get_by_role("region", name="Why events fail")
    expect(why).to_contain_text("400")
    expect(why).to_contain_text("12 events given up")
    assert find_violations(page) == []
    why.get_by_role("link", name="Show events").click()
    page.get_by_role("button", name="Details of ordered").first.click()
    expect(page.get_by_label("Payload", exact=True)).to_contain_text('"sku"')
    assert find_violations(page) == []
    # The receiver works again.
    receiver.decide = lambda _: PlannedResponse()
    receiver.received.clear()
    began = time.monotonic()
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("button", name="Retry 12 dead letters…").click()
    dialog = page.get_by_role("dialog", name="Retry 12 dead letters?")
    expect(dialog).to_contain_text("12 events are sent to Orders to CRM again")
    assert find_violations(page) == []
    dialog.get_by_role("button", name="Retry 12 now").click()
    job = page.get_by_role("group", name="Retry of dead letters")
    expect(job).to_contain_text("12 of 12")
    expect(page.get_by_role("heading", name="Nothing fails")).to_be_visible()
    expect(page.get_by_role("region", name="State")).to_contain_text("Working")
    assert time.monotonic() - began < 60
    assert sorted(each.json["event"]["properties"]["sku"] for each in receiver.received) == [
        *range(12)
    ]


def test_replay_of_a_period_can_be_left_and_found_again(
    page: Page, server: LiveServer, receiver: Receiver
) -> None:
    with server.client() as client:
        capture(client, "replayed", 5)
        own = create(client, DESTINATIONS, WEBHOOK, "Late", url=receiver.url, events=["replayed"])
    page.goto(f"{server.address}/project/1/pipeline/destinations/{find_id(own)}?tab=jobs")
    form = page.get_by_role("region", name="Replay a period")
    form.get_by_label("Period").select_option("The last hour")
    expect(form.get_by_role("status")).to_contain_text("stored event")
    form.get_by_role("button", name="Start the replay").click()
    page.goto(f"{server.address}/project/1/pipeline/destinations")
    page.get_by_role("link", name="Late", exact=True).click()
    job = page.get_by_role("group", name="Replay")
    expect(job).to_contain_text("queued 5")
    expect(job).to_contain_text("done")
    receiver.wait_for(5)
    page.get_by_role("link", name="Logs").click()
    expect(page.get_by_text("5 events queued")).to_be_visible()
    page.get_by_label("Level").select_option("Errors")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    page.get_by_role("link", name="Metrics").click()
    page.get_by_text("As a table").click()
    expect(page.get_by_role("region", name="Counts over time")).to_contain_text("5")
    assert find_violations(page) == []
    page.get_by_role("link", name="History").click()
    expect(page.get_by_role("region", name="History")).to_contain_text("started a job (replay)")
    assert find_violations(page) == []


def test_destination_is_created_from_the_catalogue_previewed_and_tested(
    server: LiveServer, tab: Opened, receiver: Receiver
) -> None:
    page = tab.page
    log_in(page, server, "pipeline")
    with server.client() as client:
        capture(client, "bought", 1, price=3)
        wait_for(lambda: bool(client.get(f"{API}/events/?event=bought").json()["results"]), 60)
    page.get_by_role("link", name="New destination").first.click()
    expect(page.get_by_role("button", name="Use Webhook")).to_be_visible()
    assert find_violations(page) == []
    page.get_by_role("button", name="Use Webhook").click()
    dialog = page.get_by_role("dialog", name="New Webhook")
    dialog.get_by_label("Name").fill("Sales")
    assert find_violations(page) == []
    dialog.get_by_role("button", name="Create and configure").click()
    page.get_by_label("URL (required)").fill("nowhere")
    page.get_by_label("Body").fill('{"price": "{{ event.properties.price }}"}')
    page.get_by_label("Signing secret").fill("a long secret")
    names = page.get_by_role("combobox", name="Events")
    names.fill("bought")
    names.press("Enter")
    preview = page.get_by_role("region", name="Preview with a real event")
    expect(preview).to_contain_text("An http:// or https:// URL is required.")
    page.get_by_label("URL (required)").fill(receiver.url)
    expect(preview.get_by_label("Body of the request", exact=True)).to_contain_text('"price": 3')
    assert find_violations(page) == []
    page.get_by_role("button", name="Review and save").click()
    dialog = page.get_by_role("dialog", name="Review the changes")
    expect(dialog.get_by_role("cell", name="Signing secret")).to_be_visible()
    expect(dialog).to_contain_text("(a new secret)")
    expect(dialog).not_to_contain_text("a long secret")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Replace Signing secret")).to_be_visible()
    page.get_by_role("link", name="Test", exact=True).click()
    page.get_by_role("button", name="Send now").click()
    result = page.get_by_role("region", name="Result")
    expect(result).to_contain_text("The event arrived.")
    assert receiver.received[-1].json == {"price": 3}
    assert find_violations(page) == []
    receiver.decide = lambda _: PlannedResponse(status=503, body=b"come back later")
    page.get_by_role("button", name="Send now").click()
    expect(result).to_contain_text("come back later")
    # The preview of an address that is none.
    assert {each.split()[0] for each in refused(tab)} == {"400"}


def test_settings_that_the_service_refuses_stay_in_the_form(
    server: LiveServer, tab: Opened
) -> None:
    with server.client() as client:
        own = create(client, DESTINATIONS, WEBHOOK, "Strict", enabled=False, url="https://a.test")
    page = tab.page
    log_in(page, server, f"pipeline/destinations/{find_id(own)}?tab=configuration")
    page.get_by_text("Sampling, order and batches").click()
    size = page.get_by_label("Batch size")
    size.fill("5000")
    page.get_by_role("button", name="Review and save").click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_text("A number from 1 to 1000 is required.").first).to_be_visible()
    expect(size).to_have_value("5000")
    size.fill("50")
    page.reload()
    page.get_by_text("Sampling, order and batches").click()
    expect(size).to_have_value("50")
    with server.client() as client:
        theirs = {"url": "https://b.test", "batch_size": 70}
        assert client.patch(f"{own}config/", json=theirs).status_code == 200
    page.get_by_role("button", name="Review and save").click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    dialog = page.get_by_role("dialog", name="Someone else changed this")
    expect(dialog).to_contain_text("config.batch_size")
    assert find_violations(page) == []
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Strict is saved.")).to_be_visible()
    with server.client() as client:
        saved = client.get(f"{own}config/").json()
    assert (saved["url"], saved["batch_size"]) == ("https://b.test", 50)
    assert {each.split()[0] for each in refused(tab)} == {"400", "409"}


def test_transformations_are_ordered_by_keyboard_and_drag(page: Page, server: LiveServer) -> None:
    with server.client() as client:
        capture(client, "viewed", 1)
        stored = f"{API}/events/?event=viewed"
        wait_for(lambda: client.get(stored).json()["results"], at_most_s=120)
        for other in client.get(TRANSFORMATIONS).json()["results"]:
            assert client.delete(f"{TRANSFORMATIONS}{other['id']}/").is_success
        for plugin, name in ((MASK_IP, "Mask"), (BOT_FILTER, "Bots"), (USER_AGENT, "Browser")):
            create(client, TRANSFORMATIONS, plugin, name)

        def list_names() -> list[str]:
            return [each["name"] for each in client.get(TRANSFORMATIONS).json()["results"]]

        page.get_by_role("link", name="Transformations").click()
        page.get_by_role("button", name="Run Browser earlier").focus()
        page.keyboard.press("Alt+ArrowUp")
        wait_for(lambda: list_names() == ["Mask", "Browser", "Bots"], at_most_s=120)
        expect(page.get_by_role("button", name="Run Browser earlier")).to_be_focused()
        page.get_by_role("button", name="Run Mask later").click()
        wait_for(lambda: list_names() == ["Browser", "Mask", "Bots"], at_most_s=120)
        rows = page.get_by_role("row")
        rows.nth(3).locator(".grip").drag_to(rows.nth(1))
        wait_for(lambda: list_names() == ["Bots", "Browser", "Mask"], at_most_s=120)
    assert find_violations(page) == []
    page.get_by_role("link", name="Mask", exact=True).click()
    page.get_by_role("link", name="Test", exact=True).click()
    expect(page.get_by_label("Event to try")).to_be_visible()
    page.get_by_label("Event, as JSON").fill('{"properties": {"$ip": "192.0.2.77"}}')
    page.get_by_role("button", name="Transform").click()
    expect(page.get_by_role("region", name="Result")).to_contain_text("192.0.2.0")


def add_dead_letters(server: LiveServer, number: int) -> None:
    """Store events that could not be processed, as ingestion does."""
    with sqlite3.connect(server.data / "hedgerow.db", timeout=30) as database:
        for each in range(number):
            event = build_captured_event(each, f"p{each}")
            database.execute(
                "INSERT INTO set_aside_events (stage, bucket, project_id, uuid, event, distinct_id,"
                " events, number, reason, set_aside_at)"
                " VALUES ('settle', 0, 1, ?, 'broken', ?, ?, 1, 'KeyError: price', ?)",
                (event.uuid, f"p{each}", pack_single_row([event]), "2026-11-16 20:00:00.000000"),
            )


def test_dead_letters_of_ingestion_are_shown_and_retried(page: Page, server: LiveServer) -> None:
    with server.client() as client:
        client.post("/e/", json={"api_key": PROJECT_KEY, "event": "no one sent this"})
    add_dead_letters(server, 3)
    page.goto(f"{server.address}/project/1/data-management/ingestion-warnings")
    expect(page.get_by_text("An event must have a distinct_id.")).to_be_visible()
    assert find_violations(page) == []
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_role("button", name="Details of broken").first.click()
    expect(page.get_by_label("Events as they were accepted", exact=True)).to_be_visible()
    assert find_violations(page) == []
    page.get_by_role("button", name="Retry broken").first.click()
    page.get_by_role("button", name="Retry 2 dead letters…").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry now").click()
    expect(page.get_by_role("heading", name="No dead letters")).to_be_visible()


def test_hidden_tab_asks_for_nothing(page: Page, server: LiveServer, receiver: Receiver) -> None:
    with server.client() as client:
        own = create(client, DESTINATIONS, WEBHOOK, "Watched", url=receiver.url)
    page.clock.install()
    page.goto(f"{server.address}/project/1/pipeline/destinations/{find_id(own)}")
    expect(page.get_by_role("heading", name="Over time")).to_be_visible()
    page.wait_for_load_state("networkidle")
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url) if "/api/" in sent.url else None)
    page.evaluate(SET_VISIBILITY, "hidden")
    page.clock.run_for(60_000)
    assert asked == []
    page.evaluate(SET_VISIBILITY, "visible")
    page.clock.run_for(60_000)
    assert asked != []


def test_hostile_names_and_a_phone(page: Page, server: LiveServer, receiver: Receiver) -> None:
    receiver.decide = lambda _: PlannedResponse(status=400, body=HOSTILE[1].encode())
    with server.client() as client:
        own = create(
            client, DESTINATIONS, WEBHOOK, HOSTILE[0], url=receiver.url, events=[HOSTILE[1]]
        )
        client.patch(own, json={"description": HOSTILE[1]})
        capture(client, HOSTILE[1], 2, **{HOSTILE[0]: HOSTILE[2], "long": HOSTILE[4]})
        dead = f"{own}deliveries/?status=dead"
        wait_for(lambda: client.get(dead).json()["count"] == 2, at_most_s=60)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    record = f"pipeline/destinations/{find_id(own)}"
    tabs = ("configuration", "test", "dead", "jobs", "metrics", "logs", "history")
    for path in (
        "pipeline/destinations",
        "pipeline/transformations",
        "pipeline/import-apps",
        "pipeline/site-apps/new",
        record,
        *(f"{record}?tab={tab}" for tab in tabs),
    ):
        page.goto(f"{server.address}/project/1/{path}")
        wait_until_whole(page)
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], path
    assert find_violations(page) == []
    assert dialogs == []
