"""posthog-js without cookies: visitors are counted, and nothing that identifies them is stored."""

from typing import Any

from playwright.sync_api import Browser

from tests.browser.chromium import Opened
from tests.browser.pages import PageServer
from tests.contract.sdk.posthog_js import NEWEST, skip_unless_installed, wait_for_flags
from tests.contract.sdk.projects import Project
from tests.support.live import LiveServer, wait_for

ALWAYS = {"cookieless_mode": "'always'"}
ON_REJECT = {"cookieless_mode": "'on_reject'"}
VARIANTS = [{"key": f"v{number}", "rollout_percentage": 5} for number in range(20)]


def open_page(
    chromium: Browser, agent: str, address: str, *scripts: str, waits_for_flags: bool = True
) -> Opened:
    opened = Opened(chromium.new_context(user_agent=agent).new_page())
    opened.page.goto(address)
    if waits_for_flags:
        wait_for_flags(opened.page)
    for script in scripts:
        opened.page.evaluate(script)
    return opened


def events(project: Project, name: str, number: int) -> list[dict[str, Any]]:
    wait_for(lambda: len(project.events(event=name)) == number, at_most_s=60)
    return project.events(event=name)


def test_visitors_are_separate_and_unknown(
    live: LiveServer, project: Project, chromium: Browser, pages: PageServer
) -> None:
    js = skip_unless_installed(NEWEST)
    project.create_flag("shades", multivariate={"variants": VARIANTS})
    address = pages.put("/", js.build_page(live.address, project.token, **ALWAYS))
    ids = []
    for number, agent in enumerate(("Agent-One/1", "Agent-Two/1", "Agent-One/1"), start=1):
        capture = f"posthog.capture('looked', {{ visit: {number} }})"
        opened = open_page(chromium, agent, address, capture)
        found = {each["properties"]["visit"]: each for each in events(project, "looked", number)}
        assert opened.page.context.cookies() == []
        assert opened.page.evaluate("localStorage.length + sessionStorage.length") == 0
        assert opened.errors == []
        # Flags are evaluated for the visitor of the events.
        shade = opened.page.evaluate("posthog.getFeatureFlag('shades')")
        ids.append(found[number]["distinct_id"])
        assert shade == project.evaluate_flags(ids[-1])["shades"]
        opened.page.context.close()
    assert ids[0] == ids[2] != ids[1]
    assert all(id.startswith("cookieless_") for id in ids)
    written = str(project.events())
    assert "Agent-" not in written
    assert "'$ip'" not in written
    assert "$posthog_cookieless" not in written
    assert project._results("persons") == []


def test_visitor_who_rejects_cookies_stays_the_same(
    live: LiveServer, project: Project, chromium: Browser, pages: PageServer
) -> None:
    js = skip_unless_installed(NEWEST)
    address = pages.put("/consent", js.build_page(live.address, project.token, **ON_REJECT))
    opened = open_page(
        chromium,
        "Agent-Three/1",
        address,
        "posthog.opt_out_capturing()",
        "posthog.capture('rejected', { step: 1 })",
        "posthog.identify('ann')",
        "posthog.capture('rejected', { step: 2 })",
        waits_for_flags=False,
    )
    first, second = events(project, "rejected", 2)
    assert first["distinct_id"].startswith("cookieless_")
    for name in ("$session_id", "$device_id"):
        assert first["properties"][name] == second["properties"][name]
    assert first["distinct_id"] == second["distinct_id"]
    opened.page.context.close()


def test_identified_visitor_keeps_the_session(
    live: LiveServer, project: Project, chromium: Browser, pages: PageServer
) -> None:
    js = skip_unless_installed(NEWEST)
    options = ALWAYS | {"person_profiles": "'always'"}
    address = pages.put("/login", js.build_page(live.address, project.token, **options))
    opened = open_page(
        chromium,
        "Agent-Four/1",
        address,
        "posthog.capture('arrived')",
        "posthog.identify('ben', { plan: 'pro' })",
        "posthog.capture('bought')",
        "posthog.reset()",
        "posthog.capture('left')",
    )
    (arrived,), (bought,), (left,) = (
        events(project, name, 1) for name in ("arrived", "bought", "left")
    )
    assert arrived["distinct_id"].startswith("cookieless_")
    assert bought["distinct_id"] == "ben"
    assert bought["properties"]["$session_id"] == arrived["properties"]["$session_id"]
    assert left["distinct_id"] not in ("ben", arrived["distinct_id"])
    person = project.person("ben")
    assert set(person["distinct_ids"]) == {"ben", arrived["distinct_id"]}
    assert person["properties"]["plan"] == "pro"
    assert "Agent-Four" not in str((person, project.events()))
    opened.page.context.close()
