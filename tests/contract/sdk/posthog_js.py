"""Pages with posthog-js, of today and of the times of /decide."""

from dataclasses import dataclass

import pytest
from playwright.sync_api import Page

from tests.browser.chromium import missing
from tests.browser.pages import with_posthog

BODY = '<h1>A page</h1><button id="buy" class="big red" data-plan="pro">Buy now</button>'
# Events leave at once unless a test wants them to wait for others. Surveys are a script of
# PostHog's own, which it asks every server for.
OPTIONS = {
    "request_batching": "false",
    "disable_surveys": "true",
    "loaded": "(posthog) => posthog.onFeatureFlags((keys) => { window.told = keys })",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Js:
    """A version and what it asks for flags. The oldest knows no early access and no uuids, keeps
    `$set_once` of `identify` to itself, and sends no properties along when it asks for flags: they
    follow what is stored."""

    package: str
    version: str
    asks: str
    is_oldest: bool = False

    def page(self, host: str, token: str, **options: str) -> str:
        given = {**OPTIONS, **options}
        return with_posthog(host, token, given, package=self.package, body=BODY)


NEWEST = Js(package="posthog-js", version="1.445.5", asks="/flags/?v=2")
OF_V4 = Js(package="posthog-js-1.249", version="1.249.5", asks="/decide/?v=4")
OF_V3 = Js(package="posthog-js-1.230", version="1.230.4", asks="/decide/?v=3")
OLDEST = Js(package="posthog-js-1.50", version="1.50.9", asks="/decide/?v=3", is_oldest=True)


def if_installed(js: Js) -> Js:
    if lacks := missing(js.package):
        pytest.skip(f"{' and '.join(lacks)} missing: tests/browser/install brings them")
    return js


def has_flags(page: Page) -> None:
    """Waits for them."""
    page.wait_for_function("window.told !== undefined")


def asks_again(page: Page) -> None:
    page.evaluate("window.told = undefined; posthog.reloadFeatureFlags()")
    has_flags(page)


def id_of(page: Page) -> str:
    return str(page.evaluate("posthog.get_distinct_id()"))
