"""The console in Chromium: log in, go to a page, and check it with axe."""

import json
from pathlib import Path

from playwright.sync_api import Page

from hedgerow.http.console.files import FOLDER
from tests.browser.chromium import PACKAGES, missing
from tests.support.live import PERSONAL_KEY, LiveServer

AXE = PACKAGES / "axe-core" / "axe.min.js"
RULES = {
    "type": "tag",
    "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
KEY_ITEM = "hedgerow.key"


def list_missing() -> list[str]:
    """What the tests of the console need and this machine does not have."""
    built = [] if (FOLDER / "index.html").is_file() else ["a built console: run `make console`"]
    return missing("axe-core") + built


def log_in(page: Page, server: LiveServer, path: str = "feature_flags") -> None:
    """Log in as a tab does that has logged in before, and go to a page of the project."""
    value = json.dumps(PERSONAL_KEY)
    page.add_init_script(f"sessionStorage.setItem('{KEY_ITEM}', {value})")
    page.goto(f"{server.address}/project/1/{path}")


def find_violations(page: Page) -> list[str]:
    """Return the violations of WCAG 2.2 AA that axe finds, in both themes."""
    page.evaluate(Path(AXE).read_text())
    # Colors change at once then.
    page.emulate_media(reduced_motion="reduce")
    found = []
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        # The themes differ in colors only.
        only = RULES if theme == "light" else {"type": "rule", "values": ["color-contrast"]}
        result = page.evaluate(
            "only => axe.run(document, {runOnly: only, resultTypes: ['violations']})", only
        )
        found += [
            f"{theme}: {each['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
            for each in result["violations"]
            for node in each["nodes"]
        ]
    return found
