"""Chromium, driven by Playwright, and what a page in it said and asked for."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

# The first has no windows and takes half of the CPU time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PACKAGES = Path(__file__).parents[2] / ".venv" / "browser" / "node_modules"
# As root Chromium has no sandbox, and a small machine has little shared memory.
OPTIONS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
START_MS = 60_000


def executable() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def missing(*packages: str) -> list[str]:
    """What a test cannot do without and is not here."""
    lacks = [] if executable() else ["Chromium"]
    return lacks + [
        f"the npm package {name}" for name in packages if not (PACKAGES / name).is_dir()
    ]


@contextmanager
def running() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(), args=list(OPTIONS), timeout=START_MS
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Opened:
    """A page, with its errors (uncaught ones, and those in its console) and its requests that
    failed or were refused."""

    page: Page
    errors: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("requestfailed", self._failed)
        self.page.on(
            "response",
            lambda got: (
                self.failed.append(f"{got.status} {got.url}") if got.status >= 400 else None
            ),
        )

    def errors_but(self, *expected: str) -> list[str]:
        """Those with none of the texts in them."""
        return [error for error in self.errors if not any(text in error for text in expected)]

    def _said(self, message: ConsoleMessage) -> None:
        self.console.append(f"{message.type}: {message.text}")
        if message.type == "error":
            self.errors.append(message.text)

    def _failed(self, request: Request) -> None:
        self.failed.append(f"{request.failure} {request.url}")


@contextmanager
def opened(browser: Browser) -> Iterator[Opened]:
    """A new page, with nothing remembered of those before."""
    context = browser.new_context()
    try:
        yield Opened(context.new_page())
    finally:
        context.close()
