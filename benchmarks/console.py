"""The web console in Chromium, against the goals of its design.

    python -m benchmarks.console [FACTOR]

A live service has 1,000 flags and 10,000 persons. Every figure is the median of a few rounds, read
in the page itself, so that the driver of the browser does not count. "cold" is a browser that has
never seen the service, "warm" one that has. With a FACTOR the command fails if a figure is more
than so many times its goal. Build the console first: `make console`.

`/decide` is measured in turns, with 20 open tabs and without, so that others on the machine slow
down both. Its figure is the p99 with tabs as a percentage of that without.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, Response
from tests.browser.chromium import running
from tests.browser.console import KEY_ITEM, list_missing
from tests.support.live import PERSONAL_KEY, PROJECT_KEY, LiveServer

FLAGS = 1_000
PERSONS = 10_000
BATCH = 1_000
TABS = 20
# A tab loads what it may need later when it has been idle for that long.
IDLE_MS = 3_000
DECISIONS = 1_000
ROUNDS = 5
RTT_MS = 50
ROWS = "table tbody tr"
# Resolves with the time, after the start of the page, at which an element matches the selector.
WATCH = """
selector => {
  window.shown = new Promise(resolve => {
    const look = () =>
      document.querySelector(selector) ? resolve(performance.now()) : requestAnimationFrame(look)
    look()
  })
  window.shifts = 0
  new PerformanceObserver(list => {
    for (const each of list.getEntries()) if (!each.hadRecentInput) window.shifts += each.value
  }).observe({ type: "layout-shift", buffered: true })
}
"""
# Acts, and waits until the page shows what is expected. Returns the milliseconds in between.
MEASURE = """
async () => {{
  const start = performance.now()
  {act}
  while (!({expected})) await new Promise(requestAnimationFrame)
  return performance.now() - start
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    value: float
    goal: float
    unit: str = "ms"


def create_flags(server: LiveServer) -> None:
    filters = {"groups": [{"properties": [], "rollout_percentage": 50}]}
    with server.client() as client:
        for number in range(FLAGS):
            body = {"key": f"flag-{number:04}", "name": f"Part {number}", "filters": filters}
            assert client.post("/api/projects/1/feature_flags/", json=body).status_code == 201


def create_persons(server: LiveServer) -> None:
    with server.client(None) as client:
        for start in range(0, PERSONS, BATCH):
            batch = [
                {"event": "$set", "distinct_id": f"p{n}", "properties": {"$set": {"number": n}}}
                for n in range(start, start + BATCH)
            ]
            body = {"api_key": PROJECT_KEY, "batch": batch}
            assert client.post("/batch/", json=body).status_code == 200


@contextmanager
def open_context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that has never seen the service, logged in."""
    context = browser.new_context()
    context.add_init_script(f"sessionStorage.setItem('{KEY_ITEM}', '{PERSONAL_KEY}')")
    try:
        yield context
    finally:
        context.close()


def load(page: Page, url: str) -> float:
    """Load the list of flags. Returns the milliseconds until its rows are there."""
    page.goto(url, wait_until="commit")
    return float(page.evaluate("() => shown"))


def collect_answers(page: Page) -> list[Response]:
    """Return a list that gets every answer from now on."""
    found: list[Response] = []
    page.on("response", lambda answer: found.append(answer))
    return found


def measure_loads(browser: Browser, url: str) -> Iterator[Figure]:
    cold, far, warm, shifts = [], [], [], []
    received: list[int] = []
    for _ in range(ROUNDS):
        with open_context(browser) as context:
            context.add_init_script(f"({WATCH})({ROWS!r})")
            page = context.new_page()
            answers = collect_answers(page)
            cold.append(load(page, url))
            page.wait_for_load_state("networkidle")
            shifts.append(float(page.evaluate("shifts")))
            received = [each.request.sizes()["responseBodySize"] for each in answers]
            warm.append(load(page, url))
        with open_context(browser) as context:
            context.add_init_script(f"({WATCH})({ROWS!r})")
            page = context.new_page()
            delay_network(context, page)
            far.append(load(page, url))
    yield Figure(name="first load", value=sum(received) / 1000, goal=150, unit="KB")
    yield Figure(name="first load", value=len(received), goal=20, unit="requests")
    yield Figure(name="usable, cold", value=statistics.median(cold), goal=500)
    yield Figure(name=f"usable, cold, {RTT_MS} ms RTT", value=statistics.median(far), goal=800)
    yield Figure(name="usable, warm", value=statistics.median(warm), goal=250)
    yield Figure(name="layout shift", value=max(shifts), goal=0.02, unit="CLS")


def delay_network(context: BrowserContext, page: Page) -> None:
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": RTT_MS, "downloadThroughput": -1, "uploadThroughput": -1},
    )


def click(selector: str) -> str:
    return f"document.querySelector({selector!r}).click()"


def has_heading(text: str) -> str:
    return f"document.querySelector('h1')?.textContent === {text!r}"


def list_actions() -> Mapping[str, tuple[float, str, str]]:
    """What a person does, with its goal, and what the page shows then."""
    return {
        "route change": (
            100,
            click('a[href$="/persons"]'),
            has_heading("Persons"),
        ),
        # Another person each time: the page keeps the results of a search for some seconds.
        "search in 10,000 persons": (
            300,
            "const field = document.querySelector('[data-search]');"
            "field.value = `p${1000 + Math.floor(Math.random() * 9000)}`;"
            "field.dispatchEvent(new InputEvent('input', { bubbles: true }))",
            f"document.querySelectorAll({ROWS!r}).length === 1",
        ),
        "list of 1,000 flags": (
            300,
            click('a[href$="/feature_flags"]'),
            f"{has_heading('Feature flags')} && document.querySelectorAll({ROWS!r}).length === 50",
        ),
        "search in 1,000 flags": (
            300,
            "const field = document.querySelector('[data-search]'); field.value = 'flag-0777';"
            "field.dispatchEvent(new InputEvent('input', { bubbles: true }))",
            f"document.querySelectorAll({ROWS!r}).length === 1",
        ),
        "open a flag": (
            300,
            click("table tbody a.name"),
            f"{has_heading('flag-0777')} && document.querySelector('.condition')",
        ),
    }


def measure_actions(browser: Browser, url: str) -> Iterator[Figure]:
    """The first round loads the code of each page, as the second visit of a person has it."""
    actions = list_actions()
    taken: dict[str, list[float]] = {name: [] for name in actions}
    with open_context(browser) as context:
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector(ROWS)
        for round in range(ROUNDS + 1):
            for name, (_, act, expected) in actions.items():
                milliseconds = float(page.evaluate(MEASURE.format(act=act, expected=expected)))
                if round:
                    taken[name].append(milliseconds)
    for name, (goal, _, _) in actions.items():
        yield Figure(name=name, value=statistics.median(taken[name]), goal=goal)


def measure_decide(browser: Browser, server: LiveServer, url: str) -> Iterator[Figure]:
    """Compare the p99 of `/decide` with open tabs with that without, in turns. Tabs are open when
    they have loaded everything; what they request after that counts, too."""
    ratios = []
    requests = 0
    with server.client(None) as client:
        decide_p99(client)  # opens the connection, and warms up
        for _ in range(ROUNDS):
            alone = decide_p99(client)
            with open_context(browser) as context:
                for _ in range(TABS):
                    page = context.new_page()
                    page.goto(url)
                    page.wait_for_selector(ROWS)
                for page in context.pages:
                    page.wait_for_timeout(IDLE_MS if page is context.pages[0] else 0)
                    page.wait_for_load_state("networkidle")
                found = [collect_answers(page) for page in context.pages]
                ratios.append(100 * decide_p99(client) / alone)
                context.pages[0].wait_for_timeout(0)  # lets the driver report
                requests += sum(map(len, found))
    value = statistics.median(ratios)
    yield Figure(name=f"/decide p99, {TABS} tabs open", value=value, goal=105, unit="%")
    yield Figure(name=f"{TABS} idle tabs", value=requests, goal=0, unit="requests")


def decide_p99(client: httpx.Client) -> float:
    taken = []
    for number in range(DECISIONS):
        body = {"api_key": PROJECT_KEY, "distinct_id": f"p{number}"}
        start = time.perf_counter()
        assert client.post("/decide?v=3", json=body).status_code == 200
        taken.append(time.perf_counter() - start)
    return statistics.quantiles(taken, n=100)[98]


def show(figure: Figure, write: Callable[[str], object] = print) -> None:
    over = f"{figure.value / figure.goal:.1f} x" if figure.goal else "too many"
    verdict = "ok" if figure.value <= figure.goal else over
    number = f"{figure.value:.3f}" if figure.unit == "CLS" else f"{figure.value:.0f}"
    write(f"{figure.name:32} {number:>8} {figure.unit:9} goal {figure.goal:>6g}   {verdict}")


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder, LiveServer(Path(folder)) as server:
        create_flags(server)
        create_persons(server)
        url = f"{server.address}/project/1/feature_flags"
        with running() as browser:
            return [
                *measure_loads(browser, url),
                *measure_actions(browser, url),
                *measure_decide(browser, server, url),
            ]


def main() -> None:
    if lacks := list_missing():
        sys.exit(f"Missing: {', '.join(lacks)}.")
    figures = measure()
    for figure in figures:
        show(figure)
    factor = float(sys.argv[1]) if len(sys.argv) > 1 else float("inf")
    if late := [each.name for each in figures if each.value > factor * each.goal]:
        sys.exit(f"More than {factor:g} times the goal: {', '.join(late)}.")


if __name__ == "__main__":
    main()
