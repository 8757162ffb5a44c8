"""The pages about safe changes: requests and their approval, policies, environments, rollouts."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Opened
from tests.browser.console import find_violations, list_missing, log_in, wait_until_whole
from tests.support.live import LiveServer, wait_for

API = "/api/projects/1"
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    if lacks := list_missing():
        pytest.skip(f"missing: {', '.join(lacks)}")
    with LiveServer(tmp_path_factory.mktemp("changes")) as running:
        yield running


def join(server: LiveServer, client: httpx.Client) -> str:
    """Let Rita join as an editor, and return a key of hers."""
    body: dict[str, Any] = {"target_email": "rita@example.com", "project_roles": {"1": "editor"}}
    invite = client.post("/api/organizations/@current/invites/", json=body).json()["link"]
    headers = {"Sec-Fetch-Site": "same-origin"}
    with httpx.Client(base_url=server.address, headers=headers, timeout=120) as browser:
        signup = {"token": invite, "first_name": "Rita", "password": "battery horse correct"}
        assert browser.post("/api/signup/", json=signup).status_code == 201
        made = browser.post("/api/personal_api_keys/", json={"label": "k", "scopes": ["*"]})
    key: str = made.json()["value"]
    return key


def test_a_change_waits_and_is_approved(server: LiveServer, opened: Opened) -> None:
    groups = [{"properties": [], "rollout_percentage": 20}]
    with server.client() as client:
        flag = client.post(
            f"{API}/feature_flags/", json={"key": "pricing", "filters": {"groups": groups}}
        ).json()["id"]
        policy = {"action_key": "feature_flag.*", "approver_config": {"quorum": 1}}
        assert client.post(f"{API}/approval_policies/", json=policy).status_code == 201
        with server.client(join(server, client)) as rita:
            wider = {"filters": {"groups": [{"properties": [], "rollout_percentage": 60}]}}
            asked = rita.patch(f"{API}/feature_flags/{flag}/", json=wider)
            assert asked.status_code == 409, asked.text
        log_in(opened.page, server, "changes")
        approve(opened.page)
        saved = client.get(f"{API}/feature_flags/{flag}/").json()
        assert saved["filters"]["groups"][0]["rollout_percentage"] == 60
    assert opened.errors_but("409") == []


def approve(page: Page) -> None:
    expect(page.get_by_role("heading", name="Changes", level=1)).to_be_visible()
    assert find_violations(page) == []
    page.get_by_role("link", name="pricing").click()
    expect(page.get_by_role("heading", name="pricing", level=1)).to_be_visible()
    expect(page.get_by_text("Condition 1 · rollout")).to_be_visible()
    page.get_by_label("Comment", exact=True).fill("Looks right.")
    page.get_by_role("button", name="Add the comment").click()
    expect(page.get_by_text("Looks right.")).to_be_visible()
    assert find_violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text(re.compile("The change is applied"))).to_be_visible()
    # The owner's own change waits for someone else, and says so where it was made.
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_role("link", name="Show the flag").click()
    page.get_by_role("switch").first.click()
    page.get_by_role("button", name=re.compile("Review")).first.click()
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("link", name="Show the change request").click()
    expect(page.get_by_text("This is your own change.")).to_be_visible()


@pytest.fixture(scope="module")
def staging(server: LiveServer) -> int:
    """The staging project of a product, with a flag that its production lacks."""
    with server.client() as client:
        environments: list[dict[str, Any]] = [
            {"name": name, "project_id": client.post("/api/projects/", json={}).json()["id"]}
            for name in ("staging", "production")
        ]
        id: int = environments[0]["project_id"]
        body: dict[str, Any] = {"name": "Shop", "environments": environments}
        made = client.post("/api/organizations/@current/products/", json=body)
        assert made.status_code == 201, made.text
        filters = {"groups": [{"properties": [], "rollout_percentage": 40}]}
        body = {"key": "gift-cards", "filters": filters}
        made = client.post(f"/api/projects/{id}/feature_flags/", json=body)
        assert made.status_code == 201, made.text
    return id


def check_page(page: Page) -> None:
    """A page is accessible, and as wide as a phone."""
    wait_until_whole(page)
    assert find_violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 1280, "height": 800})


def test_flag_is_promoted_and_then_needs_approval(
    server: LiveServer, opened: Opened, staging: int
) -> None:
    page = opened.page
    log_in(page, server)
    page.goto(f"{server.address}/project/{staging}/environments")
    expect(page.get_by_role("heading", name="Environments of Shop")).to_be_visible()
    expect(page.get_by_role("row", name="gift-cards")).to_contain_text("Not here")
    check_page(page)
    page.get_by_role("checkbox", name="Choose gift-cards").check()
    page.get_by_role("button", name="Promote…").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 new, 0 changed")
    assert find_violations(page) == []
    page.get_by_role("button", name="Promote to production").click()
    expect(page.get_by_text(re.compile("1 new, 0 changed"))).to_be_visible()
    expect(page.get_by_role("row", name="gift-cards")).not_to_contain_text("Not here")
    # Every change of production needs approval now.
    page.get_by_role("button", name="Change the environments").click()
    page.get_by_role("group", name="Environment 2").get_by_label("Protected").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("production (protected)")).to_be_visible()
    with server.client() as client:
        path = f"/api/projects/{staging}/feature_flags/"
        flag = client.get(path).json()["results"][0]["id"]
        wider = {"groups": [{"properties": [], "rollout_percentage": 70}]}
        assert client.patch(f"{path}{flag}/", json={"filters": wider}).is_success
    page.goto(f"{server.address}/project/{staging}/feature_flags/{flag}?tab=environments")
    page.get_by_role("button", name="Promote…").click()
    expect(page.get_by_role("dialog")).to_contain_text("waits until another person has approved")
    page.get_by_role("button", name="Request the promotion").click()
    page.get_by_role("link", name="Show the change request").click()
    expect(page.get_by_role("row", name="gift-cards: filters.groups[0]")).to_contain_text("70")
    assert opened.errors_but("409") == []


def test_policy_is_created_and_deleted(server: LiveServer, opened: Opened) -> None:
    page = opened.page
    log_in(page, server, "changes/policies")
    page.get_by_role("button", name="New policy").first.click()
    page.get_by_label("Only flags with one of these tags").fill("checkout")
    page.get_by_label("Only if more than so many percent").fill("2.5")
    page.get_by_label("Admin", exact=True).check()
    assert find_violations(page) == []
    page.get_by_role("button", name="Create the policy").click()
    row = page.get_by_role("row", name=re.compile("with the tag checkout, if more than 2.5 %"))
    expect(row).to_contain_text("1 approval: role admin")
    search = page.get_by_label("Search by action, tag, role or person")
    search.fill("nothing has this")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    search.fill("CHECKOUT")
    check_page(page)
    # A policy in force protects itself.
    row.get_by_role("button", name="Actions for the policy").click()
    page.get_by_role("menuitem", name="Delete…").click()
    page.get_by_role("button", name="Delete the policy").click()
    expect(page.get_by_text(re.compile("the change itself waits for approval"))).to_be_visible()
    assert opened.errors_but("409") == []


def test_rollout_is_planned_started_and_rolled_back(
    server: LiveServer, opened: Opened, staging: int
) -> None:
    page = opened.page
    log_in(page, server)
    page.goto(f"{server.address}/project/{staging}/feature_flags")
    page.get_by_role("link", name="gift-cards").click()
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("menuitem", name="Plan a rollout in steps").click()
    expect(page.get_by_label("Flag", exact=True)).to_have_value("gift-cards")
    page.get_by_label("Event of metric 1").fill("paid")
    for number, percentage in enumerate((75, 80, 90, 100), start=1):
        page.get_by_label(f"Percentage of step {number}").fill(str(percentage))
    check_page(page)
    page.get_by_role("button", name="Create the draft").click()
    page.get_by_role("button", name="Start").click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    expect(page.get_by_text("Running", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Steps")).to_contain_text("until")
    check_page(page)
    page.get_by_role("button", name="Roll back").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(page.get_by_text("Rolled back", exact=True).first).to_be_visible()
    with server.client() as client:
        flag = client.get(f"/api/projects/{staging}/feature_flags/").json()["results"][0]
        assert flag["filters"]["groups"][0]["rollout_percentage"] in (40, 70)
    assert opened.errors == []


def test_bandit_is_created_started_and_moves_the_split(
    server: LiveServer, opened: Opened, staging: int
) -> None:
    variants = [{"key": key, "rollout_percentage": 50} for key in ("control", "short")]
    filters = {"groups": [{"rollout_percentage": 100}], "multivariate": {"variants": variants}}
    api = f"/api/projects/{staging}"
    with server.client() as client:
        made = client.post(f"{api}/feature_flags/", json={"key": "headline", "filters": filters})
        flag = made.json()["id"]
        token = client.get(f"{api}/").json()["api_token"]
    page = opened.page
    log_in(page, server)
    page.goto(f"{server.address}/project/{staging}/feature_flags/{flag}?tab=rollout")
    page.get_by_role("button", name="New bandit").click()
    page.get_by_label("Event 1 of Metric").fill("read")
    page.get_by_label("Name of the bandit (optional)").fill("Headlines")
    page.get_by_label("Each variant keeps at least, in percent").fill("60")
    expect(page.get_by_text("2 variants can keep 1 to 50 % each.")).to_be_visible()
    page.get_by_label("Each variant keeps at least, in percent").fill("10")
    check_page(page)
    page.get_by_role("button", name="Create the draft").click()
    bandit = page.get_by_role("region", name="Headlines")
    expect(bandit.get_by_text("Draft", exact=True)).to_be_visible()
    bandit.get_by_role("button", name="Edit").click()
    # A second: people who do not convert count soon.
    page.get_by_label("Within days after exposure").fill("0.00001")
    page.get_by_label("People of each variant before it moves").fill("20")
    bandit.get_by_role("button", name="Save").click()
    expect(bandit.get_by_text("1 hour", exact=True)).to_be_visible()
    bandit.get_by_role("button", name="Start").click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    expect(bandit.get_by_text("Running", exact=True)).to_be_visible()
    begins = "It begins with control 50 %, short 50 %"
    expect(bandit.get_by_role("cell", name=begins)).to_be_visible()
    expect(bandit.get_by_role("row", name="Started")).to_be_visible()
    with server.client() as client:
        [found] = client.get(f"{api}/bandits/?flag={flag}").json()["results"]
        assert (found["floor_percent"], found["min_persons"]) == (10, 20)
        read_headlines(client, token)

    def is_moved() -> bool:
        """Whether the split has moved. A resumed bandit is computed at once."""
        with server.client() as client:
            path = f"{api}/bandits/{found['id']}/allocations/"
            newest = client.get(path).json()["results"][0]["kind"]
        if newest in ("started", "checked"):
            bandit.get_by_role("button", name="Pause").click()
            bandit.get_by_role("button", name="Resume").click()
            expect(bandit.get_by_role("button", name="Pause")).to_be_visible()
        return bool(newest == "reallocated")

    wait_for(is_moved, at_most_s=120)
    expect(bandit.get_by_role("row", name="New split")).to_be_visible()
    row = bandit.get_by_role("row", name=re.compile("^short 90 %"))
    expect(row).to_contain_text("60")
    check_page(page)
    bandit.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    expect(bandit.get_by_text("Stopped", exact=True).first).to_be_visible()
    with server.client() as client:
        [found] = client.get(f"{api}/bandits/?flag={flag}").json()["results"]
        assert (found["state"], found["split"]) == ("stopped", {"control": 10, "short": 90})
    bandit.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No bandit yet")).to_be_visible()
    assert opened.errors == []


def read_headlines(client: httpx.Client, token: str) -> None:
    """Capture 60 people of each variant. All with the short headline read on."""
    batch = []
    for number in range(120):
        variant, person = ("control", "short")[number % 2], f"reader {number}"
        seen = {"$feature_flag": "headline", "$feature_flag_response": variant}
        event = {"event": "$feature_flag_called", "distinct_id": person, "properties": seen}
        batch.append(event)
        if variant == "short":
            batch.append({"event": "read", "distinct_id": person})
    sent = client.post("/batch/", json={"api_key": token, "batch": batch})
    assert sent.status_code == 200, sent.text


def test_cohort_asks_what_people_did(server: LiveServer, opened: Opened) -> None:
    page = opened.page
    log_in(page, server, "cohorts/new")
    page.get_by_role("textbox", name="Name").fill("Buyers")
    page.get_by_role("button", name="Remove filter 1").click()
    page.get_by_role("button", name="Add what people did").click()
    expect(page.get_by_label("Filter 1, event or action")).to_be_focused()
    page.keyboard.type("paid")
    page.get_by_label("Filter 1, how often", exact=True).select_option(label="at least")
    page.get_by_label("Filter 1, times").fill("2")
    check_page(page)
    page.get_by_role("button", name="Create the cohort").click()
    expect(page.get_by_role("heading", name="Buyers", level=1)).to_be_visible()
    with server.client() as client:
        [made] = client.get(f"{API}/cohorts/").json()["results"]
    [group] = made["filters"]["properties"]["values"]
    assert group["values"] == [
        {
            "type": "behavioral",
            "value": "performed_event_multiple",
            "event_type": "events",
            "key": "paid",
            "operator": "gte",
            "operator_value": 2,
            "time_value": 30,
            "time_interval": "day",
        }
    ]
    use_cohort(page, server)
    assert opened.errors == []


def use_cohort(page: Page, server: LiveServer) -> None:
    """Draft a flag for the cohort, with keys alone after the first button."""
    page.goto(f"{server.address}/project/1/feature_flags/new")
    page.get_by_label("Key", exact=True).fill("for-buyers")
    page.get_by_role("button", name="Add a filter").click()
    page.keyboard.type("Buyers")
    expect(page.get_by_role("option", name="Cohort: Buyers")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Review and save").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row", name="Condition 1")).to_contain_text("in the cohort Buyers")
