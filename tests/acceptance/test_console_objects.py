"""Cohorts, groups, experiments, surveys, early access features and changes of several flags in the
console, as a product manager does them, over a live service."""

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
HOSTILE = "\"'><img src=x onerror=alert(1)>\u202e"
# Generous: the machine may be busy.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    if lacks := list_missing():
        pytest.skip(f"missing: {', '.join(lacks)}")
    with LiveServer(tmp_path_factory.mktemp("objects")) as running:
        with running.client() as client:
            send(client, persons())
            wait_for(lambda: client.get(f"{API}/persons/").json()["count"] == 12, at_most_s=60)
        yield running


def persons() -> list[dict[str, Any]]:
    """Eight persons who pay and four who do not, of two companies with hostile names."""
    return [
        {
            "event": "ordered",
            "distinct_id": f"p{number}",
            "properties": {
                "$groups": {"company": f"acme-{number % 2}"},
                "$set": {"plan": "pro" if number < 8 else "free"},
            },
        }
        for number in range(12)
    ] + [
        {
            "event": "$groupidentify",
            "distinct_id": "p0",
            "properties": {
                "$group_type": "company",
                "$group_key": "acme-0",
                "$group_set": {"name": HOSTILE, "seats": 5},
            },
        }
    ]


def send(client: httpx.Client, batch: list[dict[str, Any]]) -> None:
    sent = client.post("/batch", json={"api_key": PROJECT_KEY, "batch": batch})
    assert sent.status_code == 200


def create(client: httpx.Client, path: str, **fields: Any) -> Any:
    response = client.post(f"{API}/{path}/", json=fields)
    assert response.status_code == 201, response.text
    return response.json()


@pytest.fixture
def page(server: LiveServer, tab: Opened) -> Iterator[Page]:
    """A page that is logged in. The test fails if it has errors at the end, or if something hostile
    ran."""
    dialogs: list[str] = []
    tab.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    log_in(tab.page, server)
    yield tab.page
    assert tab.errors == []
    assert [each for each in tab.failed if "ERR_ABORTED" not in each] == []
    assert dialogs == []


def fill_name(page: Page, name: str) -> None:
    page.get_by_role("textbox", name="Name", exact=True).first.fill(name)


def check_page(page: Page) -> None:
    """No violation of axe in both themes, and nothing wider than a phone."""
    # At the end of the page, where the bar that saves covers nothing.
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    assert find_violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 1280, "height": 800})


def test_cohort_by_filters_is_counted_before_and_used_after(page: Page, server: LiveServer) -> None:
    page.goto(f"{server.address}/project/1/cohorts/new")
    fill_name(page, HOSTILE)
    page.get_by_role("combobox", name="Property of filter 1").fill("plan")
    page.get_by_role("combobox", name="Values of filter 1").click()
    page.get_by_role("option", name="pro").click()
    counted = page.get_by_role("region", name="Who is in it now")
    expect(counted).to_contain_text("8 of 12 persons")
    page.get_by_role("button", name="Add what people did").click()
    event = page.get_by_role("combobox", name="Filter 2, event or action")
    event.fill("never")
    event.press("Tab")
    expect(counted).to_contain_text("0 of 12 persons")
    event.fill("ordered")
    event.press("Tab")
    expect(counted).to_contain_text("8 of 12 persons")
    check_page(page)
    page.get_by_role("button", name="Remove filter 2").click()
    page.get_by_role("button", name="Create the cohort").click()
    expect(page.get_by_role("link", name="Used by 0")).to_be_visible()
    id = int(page.url.rsplit("/", 1)[1])
    with server.client() as client:
        condition = {"key": "id", "type": "cohort", "value": id}
        create(
            client, "feature_flags", key="asks", filters={"groups": [{"properties": [condition]}]}
        )
    page.reload()
    page.get_by_role("link", name="Members").click()
    expect(page.get_by_text("8 persons", exact=True)).to_be_visible()
    check_page(page)
    page.get_by_role("link", name="Used by 1").click()
    expect(page.get_by_role("link", name="asks")).to_be_visible()
    page.get_by_role("button", name="Actions for this cohort").click()
    page.get_by_role("menuitem", name="Delete…").click()
    expect(page.get_by_role("dialog")).to_contain_text("1 flag and 0 cohorts use it")
    expect(page.get_by_role("button", name="Delete the cohort")).to_be_disabled()


def test_list_of_persons_is_uploaded_and_a_refusal_keeps_what_was_typed(
    page: Page, server: LiveServer, tab: Opened
) -> None:
    page.goto(f"{server.address}/project/1/cohorts/new")
    page.get_by_role("button", name="By a list").click()
    fill_name(page, "x" * 401)
    testers = {"name": "t.csv", "mimeType": "text/csv", "buffer": b"distinct_id\np1\np2\nnobody\n"}
    page.get_by_label("CSV file").set_input_files(testers)  # type: ignore[arg-type]
    expect(page.get_by_text("3 distinct ids in the list.")).to_be_visible()
    page.get_by_role("button", name="Create the cohort").click()
    expect(page.get_by_text("no more than 400 characters")).to_be_visible()
    assert [each.split()[0] for each in tab.failed if "ERR_ABORTED" not in each] == ["400"]
    tab.failed.clear()
    tab.errors.clear()
    fill_name(page, "Testers")
    page.get_by_role("button", name="Create the cohort").click()
    expect(page.get_by_role("region", name="Size")).to_contain_text("2 persons are in it")
    page.goto(f"{server.address}/project/1/cohorts?search=TEST")
    expect(page.get_by_role("row")).to_have_count(2)
    check_page(page)


def test_flags_are_changed_together_and_back(page: Page, server: LiveServer) -> None:
    with server.client() as client:
        for number in range(4):
            fields = {"key": f"bulk-{number}", "active": number > 0, "tags": ["shop"]}
            create(client, "feature_flags", **fields, filters={"groups": [{}]})
        page.goto(f"{server.address}/project/1/feature_flags?search=bulk")
        page.get_by_role("checkbox", name="Select all flags of this page").check()
        page.get_by_role("button", name="Turn off…").click()
        dialog = page.get_by_role("dialog", name="Turn off: 4 flags")
        expect(dialog).to_contain_text("3 flags are turned off: everyone gets false.")
        expect(dialog).to_contain_text("1 is so already and stays.")
        assert find_violations(page) == []
        dialog.get_by_role("button", name="Change 3 flags").click()
        expect(page.get_by_text("3 flags are changed.")).to_be_visible()
        assert count_active(client) == 0
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("Undone.")).to_be_visible()
        assert count_active(client) == 3
    page.goto(f"{server.address}/project/1/feature_flags")
    page.get_by_role("button", name="Only those with the tag shop").first.click()
    expect(page.get_by_text("4 flags", exact=True)).to_be_visible()
    assert "tag=shop" in page.url
    check_page(page)


def count_active(client: httpx.Client) -> int:
    found = client.get(f"{API}/feature_flags/", params={"search": "bulk", "active": "true"})
    count: int = found.json()["count"]
    return count


def test_change_of_a_flag_is_scheduled_seen_and_cancelled(page: Page, server: LiveServer) -> None:
    with server.client() as client:
        flag = create(client, "feature_flags", key="later", filters={"groups": [{}]})["id"]
        change = {"operation": "update_status", "value": False}
        soon = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
        scheduled = {"record_id": flag, "model_name": "FeatureFlag", "scheduled_at": soon}
        create(client, "scheduled_changes", **scheduled, payload=change)
    page.goto(f"{server.address}/project/1/feature_flags/{flag}?tab=schedule")
    page.get_by_role("button", name="Schedule a change").click()
    dialog = page.get_by_role("dialog", name="Schedule a change")
    dialog.get_by_label("What happens").select_option("Roll out in steps")
    dialog.get_by_role("button", name="Remove step 4").click()
    dialog.get_by_label("Percentage of step 3").fill("75")
    assert find_violations(page) == []
    dialog.get_by_role("button", name="Schedule", exact=True).click()
    rows = page.get_by_role("row")
    expect(rows).to_have_count(5)
    page.get_by_role("button", name="Cancel “Roll out to 75 %”").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the change").click()
    expect(rows).to_have_count(4)
    page.get_by_role("button", name="Undo").click()
    expect(rows).to_have_count(5)
    page.get_by_role("button", name="Schedule a change").click()
    dialog.get_by_label("What happens").select_option("Turn the flag on")
    dialog.get_by_label("Repeat").select_option("By a cron expression")
    dialog.get_by_label("Cron expression").fill("0 9 * * 1-5")
    dialog.get_by_role("button", name="Schedule", exact=True).click()
    expect(rows).to_have_count(6)
    # The one that was due has been executed by now.
    page.goto(f"{server.address}/project/1/feature_flags/scheduled_changes?search=LATE")
    expect(page.get_by_role("row", name="Turn the flag off")).to_contain_text("Done")
    expect(page.get_by_role("row", name="Turn the flag on")).to_contain_text("0 9 * * 1-5, UTC")
    check_page(page)
    page.get_by_role("button", name="Ended").click()
    expect(rows).to_have_count(2)


def test_holdout_is_made_and_chosen(page: Page, server: LiveServer) -> None:
    with server.client() as client:
        made = create(client, "experiments", name="Red button", feature_flag_key="red-button")
    page.goto(f"{server.address}/project/1/experiments/holdouts")
    page.get_by_role("button", name="New holdout").first.click()
    dialog = page.get_by_role("dialog", name="New holdout")
    dialog.get_by_label("Name").fill(HOSTILE)
    assert find_violations(page) == []
    dialog.get_by_role("button", name="Create the holdout").click()
    expect(page.get_by_role("row", name=HOSTILE)).to_contain_text("10 %")
    check_page(page)
    page.goto(f"{server.address}/project/1/experiments/{made['id']}")
    page.get_by_label("Holdout", exact=True).select_option(label=f"{HOSTILE} · 10 %")
    page.get_by_label("Use what people did before (CUPED)").check()
    page.get_by_label("Days before").fill("14")
    check_page(page)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Red button is saved.")).to_be_visible()
    with server.client() as client:
        saved = client.get(f"{API}/experiments/{made['id']}/").json()
    assert saved["holdout"]["exclusion_percentage"] == 10
    assert saved["stats_config"]["cuped"] == {"enabled": True, "lookback_days": 14}


def test_experiment_from_the_form_to_a_shipped_variant(page: Page, server: LiveServer) -> None:
    page.goto(f"{server.address}/project/1/experiments/new")
    fill_name(page, "Green button")
    expect(page.get_by_role("combobox", name="Key of the flag")).to_have_value("green-button")
    metrics = page.get_by_role("region", name="Primary metrics")
    metrics.get_by_role("button", name="Add a metric").click()
    metrics.get_by_role("combobox", name="Event 1").fill("paid")
    check_page(page)
    page.get_by_role("button", name="Create as a draft").click()
    page.get_by_role("button", name="Launch…").click()
    expect(page.get_by_role("dialog")).to_contain_text("green-button is turned on with 2 variants")
    page.get_by_role("dialog").get_by_role("button", name="Launch").click()
    expect(page.get_by_text("No one has seen a variant yet.")).to_be_visible()
    with server.client() as client:
        send(client, exposures())
        page.get_by_role("button", name="Compute again").click()
        verdict = page.get_by_role("region", name="Verdict")
        expect(verdict).to_contain_text("test is better than control: paid differs by")
        figures = page.get_by_role("region", name="Figures of paid")
        expect(figures.get_by_role("row", name="test")).to_contain_text("45")
        with page.expect_download() as download:
            page.get_by_role("button", name="Download CSV").click()
        assert "paid,funnel,increase,test,60,45,0.75" in download.value.path().read_text()
        check_page(page)
        page.get_by_role("button", name="Ship a variant…").click()
        dialog = page.get_by_role("dialog", name="Ship a variant")
        dialog.get_by_label("Conclusion").select_option("won")
        assert find_violations(page) == []
        dialog.get_by_role("button", name="Ship test").click()
        expect(page.get_by_text("Ended · won")).to_be_visible()
        expect(page.get_by_text("test for everyone", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Ship another variant…")).to_be_visible()
        values = {"api_key": PROJECT_KEY, "distinct_id": "new"}
        decided = client.post("/decide?v=3", json=values).json()["featureFlags"]
        assert decided["green-button"] == "test"
    expect(verdict).to_contain_text("test is better than control")
    page.goto(f"{server.address}/project/1/experiments?status=stopped")
    expect(page.get_by_role("row")).to_have_count(2)
    check_page(page)
    page.goto(f"{server.address}/project/1/feature_flags/green-button?tab=used")
    expect(page.get_by_role("link", name="Green button")).to_be_visible()
    assert find_violations(page) == []


def exposures() -> list[dict[str, Any]]:
    """Of 60 people each, 15 pay with control and 45 with test."""
    batch = []
    for number in range(120):
        variant = ("control", "test")[number % 2]
        seen = {"$feature_flag": "green-button", "$feature_flag_response": variant}
        called = {"event": "$feature_flag_called", "properties": seen}
        batch.append({**called, "distinct_id": f"x{number}"})
        if number // 2 % 4 < {"control": 1, "test": 3}[variant]:
            batch.append({"event": "paid", "distinct_id": f"x{number}", "properties": {}})
    return batch


def test_group_with_its_persons_events_and_flags(page: Page, server: LiveServer) -> None:
    filters = {"aggregation_group_type_index": 0, "groups": [{"rollout_percentage": 100}]}
    with server.client() as client:
        create(client, "feature_flags", key="for-companies", filters=filters)
    page.goto(f"{server.address}/project/1/groups?search=onerror")
    page.get_by_label("Search by key or name").fill("onerror")
    expect(page.get_by_role("row")).to_have_count(2)
    check_page(page)
    page.get_by_role("link", name=HOSTILE[:5]).click()
    expect(page.get_by_role("row", name="seats")).to_contain_text("5")
    page.get_by_role("button", name="Edit seats").click()
    page.get_by_role("dialog").get_by_label("Value").fill("7")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_role("row", name="seats")).to_contain_text("7")
    check_page(page)
    page.get_by_role("link", name="Persons").last.click()
    expect(page.get_by_text("6 persons with events in the last 90 days")).to_be_visible()
    page.get_by_role("link", name="Events", exact=True).click()
    expect(page.get_by_role("region", name="Events").get_by_text("ordered")).to_have_count(6)
    page.get_by_role("link", name="Flags now").click()
    expect(page.get_by_role("row", name="for-companies")).to_contain_text("true")
    expect(page.get_by_role("row")).to_have_count(2)


def test_survey_is_made_launched_and_answered(page: Page, server: LiveServer) -> None:
    page.goto(f"{server.address}/project/1/surveys/new")
    fill_name(page, "Checkout")
    page.get_by_label("Question", exact=True).fill(f"How was it? {HOSTILE}")
    page.get_by_label("Kind").select_option("Rating")
    page.get_by_role("button", name="Add a question").click()
    second = page.get_by_role("group", name="Question 2")
    second.get_by_label("Question", exact=True).fill("Why?")
    page.get_by_role("button", name="Next question of the preview").click()
    expect(page.get_by_role("region", name="Preview")).to_contain_text("Why?")
    check_page(page)
    page.get_by_role("button", name="Create as a draft").click()
    page.get_by_role("button", name="Launch…").click()
    page.get_by_role("dialog").get_by_role("button", name="Launch").click()
    expect(page.get_by_text("Running", exact=True)).to_be_visible()
    id = page.url.rsplit("/", 1)[1].partition("?")[0]
    with server.client() as client:
        questions = client.get(f"{API}/surveys/{id}/").json()["questions"]
        send(client, answers(id, [each["id"] for each in questions]))
    page.goto(f"{server.address}/project/1/surveys/{id}?tab=results")
    expect(page.get_by_text("4 answers · average 8 · NPS 50")).to_be_visible()
    expect(page.get_by_role("list", name="Answers as text")).to_contain_text(HOSTILE[:-1])
    check_page(page)
    page.get_by_role("button", name="Stop…").click()
    page.get_by_role("button", name="Stop the survey").click()
    expect(page.get_by_text("Ended", exact=True)).to_be_visible()
    page.goto(f"{server.address}/project/1/surveys")
    expect(page.get_by_role("row", name="Checkout")).to_contain_text("4")
    check_page(page)


def answers(survey: str, questions: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "event": "survey sent",
            "distinct_id": f"p{number}",
            "properties": {
                "$survey_id": survey,
                f"$survey_response_{questions[0]}": rating,
                f"$survey_response_{questions[1]}": HOSTILE,
            },
        }
        for number, rating in enumerate((10, 10, "9", 3))
    ]


def test_early_access_feature_changes_its_stage(page: Page, server: LiveServer) -> None:
    page.goto(f"{server.address}/project/1/early_access_features/new")
    fill_name(page, "Dark mode")
    page.get_by_role("radio", name="Concept").check()
    check_page(page)
    page.get_by_role("button", name="Create the feature").click()
    expect(page.get_by_role("link", name="dark-mode")).to_be_visible()
    with server.client() as client:
        enrolled = {"$set": {"$feature_enrollment/dark-mode": True}}
        send(client, [{"event": "$set", "distinct_id": "p3", "properties": enrolled}])
        page.reload()
        expect(page.get_by_text("1 persons opted in")).to_be_visible()
        page.get_by_role("radio", name="Beta").check()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Dark mode is saved.")).to_be_visible()
        values = {"api_key": PROJECT_KEY, "distinct_id": "p3"}
        decided = client.post("/decide?v=3", json=values).json()["featureFlags"]
        assert decided["dark-mode"] is True
    page.get_by_role("link", name="Opted in").click()
    expect(page.get_by_role("link", name="p3")).to_be_visible()
    check_page(page)
    page.goto(f"{server.address}/project/1/early_access_features?search=dark")
    expect(page.get_by_role("row", name="Dark mode")).to_contain_text("1")
    check_page(page)
