"""A survey on a page of another origin, in Chromium, shown by posthog-js as it is published: who
answers it is not asked again, whichever browser they use, because its flag says so.
"""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.browser import chromium as browsing
from tests.browser.pages import PageServer, with_posthog
from tests.contract.sdk.posthog_js import OF_V3, OF_V4, Js, if_installed
from tests.live import PROJECT_KEY, LiveServer, seconds_until

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
# What 2 is called, by newer versions and by older ones.
RATED = re.compile("^(Rate )?2$")
# All that the page knows of itself: flags that were answered, and the surveys that it may show.
MATCHING = """() => new Promise((done) => posthog.onFeatureFlags(() =>
  posthog.getActiveMatchingSurveys((surveys) => done(surveys.map((each) => each.id)), true)))"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    scripts = browsing.PACKAGES / "posthog-js" / "dist"
    folder = tmp_path_factory.mktemp("surveys")
    with LiveServer(folder, sdk_scripts=str(scripts)) as running:
        yield running


@pytest.fixture
def owner(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client
        for survey in client.get(SURVEYS).json()["results"]:
            assert client.delete(f"{SURVEYS}{survey['id']}/").status_code == 204


def started(owner: httpx.Client, **fields: Any) -> dict[str, Any]:
    wish = {"name": "Checkout", "type": "popover", "start_date": "2026-01-01", **fields}
    thanks = {"displayThankYouMessage": True, "thankYouMessageHeader": "Thank you!"}
    made = owner.post(SURVEYS, json={"questions": QUESTIONS, "appearance": thanks, **wish})
    assert made.status_code == 201, made.text
    survey: dict[str, Any] = made.json()
    return survey


def page_of(person: str, server: LiveServer, pages: PageServer) -> str:
    """A page on which somebody has logged in."""
    known = {"bootstrap": f"{{ distinctID: '{person}', isIdentifiedID: true }}"}
    return pages.put(f"/{person}", with_posthog(server.address, PROJECT_KEY, known))


def sent(owner: httpx.Client, event: str, survey: dict[str, Any]) -> list[dict[str, Any]]:
    found = owner.get("/api/projects/1/events/", params={"event": event}).json()["results"]
    return [each for each in found if each["properties"]["$survey_id"] == survey["id"]]


def is_on(server: LiveServer, survey: dict[str, Any], person: str) -> bool:
    body = {"api_key": PROJECT_KEY, "distinct_id": person}
    flags = httpx.post(f"{server.address}/decide?v=3", json=body, timeout=60).json()
    value: bool = flags["featureFlags"][survey["internal_targeting_flag"]["key"]]
    return value


def answer(page: Page) -> None:
    page.get_by_text("How was the checkout?").wait_for()
    assert page.locator(".survey-question-description b").text_content() == "bad"
    page.get_by_role("button", name=RATED).click()
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("textbox").fill("Quicker, please")
    page.get_by_role("button", name="Submit").click()
    page.get_by_text("Thank you").wait_for()


def test_a_survey_is_answered_once_by_each_person(
    server: LiveServer, owner: httpx.Client, chromium: Browser, pages: PageServer
) -> None:
    survey = started(owner)
    address = page_of("survey-ann", server, pages)
    with browsing.opened(chromium) as opened:
        page = opened.page
        page.goto(address)
        answer(page)
        seconds_until(lambda: len(sent(owner, "survey sent", survey)) == 1, at_most_s=60)
        seconds_until(lambda: not is_on(server, survey, "survey-ann"), at_most_s=60)
        # The browser remembers by itself, too: here it forgets, so that only the flag can say no.
        page.evaluate(
            "Object.keys(localStorage).filter((key) => key.includes('urvey'))"
            ".forEach((key) => localStorage.removeItem(key))"
        )
        page.reload()
        assert page.evaluate(MATCHING) == []
        assert page.get_by_text("How was the checkout?").count() == 0
        assert page.evaluate("window.ran") is None
        assert (opened.errors, opened.failed) == ([], [])
    [event] = sent(owner, "survey sent", survey)
    properties = event["properties"]
    assert properties["$survey_response_how"] == 2
    assert properties["$survey_response_why"] == "Quicker, please"
    seconds_until(lambda: len(sent(owner, "survey shown", survey)) == 1, at_most_s=60)
    for person, is_asked in (("survey-ann", False), ("survey-bob", True)):
        with browsing.opened(chromium) as opened:
            opened.page.goto(page_of(person, server, pages))
            assert opened.page.evaluate(MATCHING) == ([survey["id"]] if is_asked else [])
            if is_asked:
                opened.page.get_by_text("How was the checkout?").wait_for()
            assert opened.errors == []


def test_a_survey_for_chosen_people_is_shown_to_them_until_they_dismiss_it(
    server: LiveServer, owner: httpx.Client, chromium: Browser, pages: PageServer
) -> None:
    is_pro = {"key": "plan", "value": "pro", "operator": "exact", "type": "person"}
    survey = started(owner, targeting_flag_filters={"groups": [{"properties": [is_pro]}]})
    with browsing.opened(chromium) as opened:
        page = opened.page
        page.goto(page_of("survey-cid", server, pages))
        assert page.evaluate(MATCHING) == []
        page.evaluate("posthog.setPersonProperties({ plan: 'pro' })")
        page.get_by_text("How was the checkout?").wait_for()
        page.get_by_role("button", name="Close survey").click()
        page.get_by_text("How was the checkout?").wait_for(state="detached")
        seconds_until(lambda: not is_on(server, survey, "survey-cid"), at_most_s=60)
        assert (opened.errors, opened.failed) == ([], [])
    seconds_until(lambda: len(sent(owner, "survey dismissed", survey)) == 1, at_most_s=60)
    person = owner.get("/api/projects/1/persons/?distinct_id=survey-cid").json()["results"][0]
    assert person["properties"][f"$survey_dismissed/{survey['id']}"] is True


@pytest.mark.parametrize("js", [OF_V4, OF_V3], ids=lambda js: js.version)
def test_older_versions_show_it_and_send_what_was_answered(
    js: Js, server: LiveServer, owner: httpx.Client, chromium: Browser, pages: PageServer
) -> None:
    """Their own script for surveys is on the page; the server has that of one version."""
    package, person = if_installed(js).package, f"survey-{js.version}"
    survey = started(owner)
    known = {"bootstrap": f"{{ distinctID: '{person}', isIdentifiedID: true }}"}
    script = f'<script src="/packages/{package}/dist/surveys.js"></script>'
    page = with_posthog(server.address, PROJECT_KEY, known, package=package, body=script)
    with browsing.opened(chromium) as opened:
        opened.page.goto(pages.put(f"/{person}", page))
        answer(opened.page)
        seconds_until(lambda: len(sent(owner, "survey sent", survey)) == 1, at_most_s=60)
        assert (opened.errors, opened.failed) == ([], [])
    [event] = sent(owner, "survey sent", survey)
    assert event["distinct_id"] == person
    properties = event["properties"]
    answers = properties["$survey_response_how"], properties["$survey_response_why"]
    assert answers == (2, "Quicker, please")
    seconds_until(lambda: not is_on(server, survey, person), at_most_s=60)
