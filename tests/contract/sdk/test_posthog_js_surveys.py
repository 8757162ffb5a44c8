"""A survey on a page of another origin, in Chromium, shown by the published posthog-js. Its flag
hides it in every browser of a person after the answer.
"""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.browser import chromium as browsing
from tests.browser.pages import PageServer, with_posthog
from tests.contract.sdk.posthog_js import CALLS_V3, CALLS_V4, Js, skip_unless_installed
from tests.support.live import PROJECT_KEY, LiveServer, wait_for

SURVEYS = "/api/projects/1/surveys/"
QUESTIONS = [
    {
        "id": "how",
        "type": "rating",
        "question": "How was the checkout?",
        "description": "From <b>bad</b> to good<script>window.ran = true</script>",
        "display": "number",
        "scale": 5,
        "branching": {"type": "response_based", "responseValues": {"positive": "end"}},
    },
    {"id": "why", "type": "open", "question": "What could be better?"},
]
# Property names of the second question, in newer and older versions.
RATED = re.compile("^(Rate )?2$")
# The surveys that the page may show after the flags are loaded.
MATCHING = """() => new Promise((done) => posthog.onFeatureFlags(() =>
  posthog.getActiveMatchingSurveys((surveys) => done(surveys.map((each) => each.id)), true)))"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    scripts = browsing.PACKAGES / "posthog-js" / "dist"
    folder = tmp_path_factory.mktemp("surveys")
    with LiveServer(folder, sdk_scripts_dir=str(scripts)) as running:
        yield running


@pytest.fixture
def owner(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client
        for survey in client.get(SURVEYS).json()["results"]:
            assert client.delete(f"{SURVEYS}{survey['id']}/").status_code == 204


def start_survey(owner: httpx.Client, **fields: Any) -> dict[str, Any]:
    survey_fields = {"name": "Checkout", "type": "popover", "start_date": "2026-01-01", **fields}
    appearance = {"displayThankYouMessage": True, "thankYouMessageHeader": "Thank you!"}
    response = owner.post(
        SURVEYS, json={"questions": QUESTIONS, "appearance": appearance, **survey_fields}
    )
    assert response.status_code == 201, response.text
    survey: dict[str, Any] = response.json()
    return survey


def put_page(person: str, server: LiveServer, pages: PageServer) -> str:
    """Serve a page with an identified user and return its URL."""
    options = {"bootstrap": f"{{ distinctID: '{person}', isIdentifiedID: true }}"}
    return pages.put(f"/{person}", with_posthog(server.address, PROJECT_KEY, options))


def list_sent_events(
    owner: httpx.Client, event: str, survey: dict[str, Any]
) -> list[dict[str, Any]]:
    found = owner.get("/api/projects/1/events/", params={"event": event}).json()["results"]
    return [each for each in found if each["properties"]["$survey_id"] == survey["id"]]


def is_flag_on(server: LiveServer, survey: dict[str, Any], person: str) -> bool:
    body = {"api_key": PROJECT_KEY, "distinct_id": person}
    flags = httpx.post(f"{server.address}/decide?v=3", json=body, timeout=60, verify=False).json()
    value: bool = flags["featureFlags"][survey["internal_targeting_flag"]["key"]]
    return value


def answer_survey(page: Page) -> None:
    page.get_by_text("How was the checkout?").wait_for()
    assert page.locator(".survey-question-description b").text_content() == "bad"
    page.get_by_role("button", name=RATED).click()
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("textbox").fill("Quicker, please")
    page.get_by_role("button", name="Submit").click()
    page.get_by_text("Thank you").wait_for()


def test_survey_is_answered_once_per_person(
    server: LiveServer, owner: httpx.Client, chromium: Browser, pages: PageServer
) -> None:
    survey = start_survey(owner)
    address = put_page("survey-ann", server, pages)
    with browsing.opened(chromium) as opened:
        page = opened.page
        page.goto(address)
        answer_survey(page)
        wait_for(lambda: len(list_sent_events(owner, "survey sent", survey)) == 1, at_most_s=60)
        wait_for(lambda: not is_flag_on(server, survey, "survey-ann"), at_most_s=60)
        # The browser remembers the answer, too; clear it, so that only the flag hides the survey.
        page.evaluate(
            "Object.keys(localStorage).filter((key) => key.includes('urvey'))"
            ".forEach((key) => localStorage.removeItem(key))"
        )
        page.reload()
        assert page.evaluate(MATCHING) == []
        assert page.get_by_text("How was the checkout?").count() == 0
        assert page.evaluate("window.ran") is None
        assert (opened.errors, opened.failed) == ([], [])
    [event] = list_sent_events(owner, "survey sent", survey)
    properties = event["properties"]
    assert properties["$survey_response_how"] == 2
    assert properties["$survey_response_why"] == "Quicker, please"
    wait_for(lambda: len(list_sent_events(owner, "survey shown", survey)) == 1, at_most_s=60)
    for person, is_shown in (("survey-ann", False), ("survey-bob", True)):
        with browsing.opened(chromium) as opened:
            opened.page.goto(put_page(person, server, pages))
            assert opened.page.evaluate(MATCHING) == ([survey["id"]] if is_shown else [])
            if is_shown:
                opened.page.get_by_text("How was the checkout?").wait_for()
            assert opened.errors == []


def test_targeted_survey_is_shown_until_dismissed(
    server: LiveServer, owner: httpx.Client, chromium: Browser, pages: PageServer
) -> None:
    is_pro = {"key": "plan", "value": "pro", "operator": "exact", "type": "person"}
    survey = start_survey(owner, targeting_flag_filters={"groups": [{"properties": [is_pro]}]})
    with browsing.opened(chromium) as opened:
        page = opened.page
        page.goto(put_page("survey-cid", server, pages))
        assert page.evaluate(MATCHING) == []
        page.evaluate("posthog.setPersonProperties({ plan: 'pro' })")
        page.get_by_text("How was the checkout?").wait_for()
        page.get_by_role("button", name="Close survey").click()
        page.get_by_text("How was the checkout?").wait_for(state="detached")
        wait_for(lambda: not is_flag_on(server, survey, "survey-cid"), at_most_s=60)
        assert (opened.errors, opened.failed) == ([], [])
    wait_for(lambda: len(list_sent_events(owner, "survey dismissed", survey)) == 1, at_most_s=60)
    person = owner.get("/api/projects/1/persons/?distinct_id=survey-cid").json()["results"][0]
    assert person["properties"][f"$survey_dismissed/{survey['id']}"] is True


@pytest.mark.parametrize("js", [CALLS_V4, CALLS_V3], ids=lambda js: js.version)
def test_older_sdk_versions_show_the_survey_and_send_answers(
    js: Js, server: LiveServer, owner: httpx.Client, chromium: Browser, pages: PageServer
) -> None:
    """The page loads the survey script of the version itself."""
    package, person = skip_unless_installed(js).package, f"survey-{js.version}"
    survey = start_survey(owner)
    options = {"bootstrap": f"{{ distinctID: '{person}', isIdentifiedID: true }}"}
    script = f'<script src="/packages/{package}/dist/surveys.js"></script>'
    page = with_posthog(server.address, PROJECT_KEY, options, package=package, body=script)
    with browsing.opened(chromium) as opened:
        opened.page.goto(pages.put(f"/{person}", page))
        answer_survey(opened.page)
        wait_for(lambda: len(list_sent_events(owner, "survey sent", survey)) == 1, at_most_s=60)
        assert (opened.errors, opened.failed) == ([], [])
    [event] = list_sent_events(owner, "survey sent", survey)
    assert event["distinct_id"] == person
    properties = event["properties"]
    answers = properties["$survey_response_how"], properties["$survey_response_why"]
    assert answers == (2, "Quicker, please")
    wait_for(lambda: not is_flag_on(server, survey, person), at_most_s=60)
