"""The console in Chromium: log in, go to a page, and check it with axe."""

import json

from playwright.sync_api import Page, expect

from hedgerow.http.console.files import FOLDER
from tests.browser.chromium import PACKAGES, missing
from tests.support.live import PERSONAL_KEY, LiveServer

AXE = PACKAGES / "axe-core" / "axe.min.js"
RULES = {
    "type": "tag",
    "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
KEY_ITEM = "hedgerow.key"
# Runs axe in both themes, which differ in colors only. Returns "theme: rule: element, problem".
RUN_AXE = """
async rules => {
  const found = []
  for (const theme of ['light', 'dark']) {
    document.documentElement.dataset.theme = theme
    const runOnly = theme === 'light' ? rules : {type: 'rule', values: ['color-contrast']}
    const options = {runOnly, resultTypes: ['violations'], preload: false, iframes: false}
    const {violations} = await axe.run(document, options)
    for (const {id, nodes} of violations)
      for (const {html, failureSummary} of nodes)
        found.push(`${theme}: ${id}: ${html.slice(0, 160)} ${failureSummary.slice(0, 200)}`)
  }
  return found
}
"""


def list_missing() -> list[str]:
    """What the tests of the console need and this machine does not have."""
    built = [] if (FOLDER / "index.html").is_file() else ["a built console: run `make console`"]
    return missing("axe-core") + built


def log_in(page: Page, server: LiveServer, path: str = "feature_flags") -> None:
    """Log in as a tab does that has logged in before, and go to a page of the project."""
    value = json.dumps(PERSONAL_KEY)
    page.add_init_script(f"sessionStorage.setItem('{KEY_ITEM}', {value})")
    page.goto(f"{server.address}/project/1/{path}")


def wait_until_whole(page: Page) -> None:
    """Wait until a page has its heading and nothing on it is loading."""
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".skeleton")).to_have_count(0)


def find_violations(page: Page) -> list[str]:
    """Return the violations of WCAG 2.2 AA that axe finds, in both themes."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    # Colors change at once then.
    page.emulate_media(reduced_motion="reduce")
    found: list[str] = page.evaluate(RUN_AXE, RULES)
    return found
