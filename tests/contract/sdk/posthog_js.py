"""Pages with posthog-js: the current version, and those that call /decide."""

from dataclasses import dataclass

import pytest
from playwright.sync_api import Page

from tests.browser.chromium import missing
from tests.browser.pages import with_posthog

BODY = '<h1>A page</h1><button id="buy" class="big red" data-plan="pro">Buy now</button>'
# Send events immediately unless a test needs batching. Surveys would load a separate script.
OPTIONS = {
    "request_batching": "false",
    "disable_surveys": "true",
    "loaded": "(posthog) => posthog.onFeatureFlags((keys) => { window.flagKeys = keys })",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Js:
    """A version and the path of its flag requests. The oldest has no early access and no uuids,
    does not send `$set_once` of `identify`, and sends no properties with flag requests."""

    package: str
    version: str
    flags_path: str
    is_oldest: bool = False

    def build_page(self, host: str, token: str, **options: str) -> str:
        settings = {**OPTIONS, **options}
        return with_posthog(host, token, settings, package=self.package, body=BODY)


NEWEST = Js(package="posthog-js", version="1.445.5", flags_path="/flags/?v=2")
CALLS_V4 = Js(package="posthog-js-1.249", version="1.249.5", flags_path="/decide/?v=4")
CALLS_V3 = Js(package="posthog-js-1.230", version="1.230.4", flags_path="/decide/?v=3")
OLDEST = Js(package="posthog-js-1.50", version="1.50.9", flags_path="/decide/?v=3", is_oldest=True)


def skip_unless_installed(js: Js) -> Js:
    if missing_packages := missing(js.package):
        pytest.skip(f"{' and '.join(missing_packages)} missing: run tests/browser/install")
    return js


def wait_for_flags(build_page: Page) -> None:
    """Wait for the flags."""
    build_page.wait_for_function("window.flagKeys !== undefined")


def reload_flags(build_page: Page) -> None:
    build_page.evaluate("window.flagKeys = undefined; posthog.reloadFeatureFlags()")
    wait_for_flags(build_page)


def get_distinct_id(build_page: Page) -> str:
    return str(build_page.evaluate("posthog.get_distinct_id()"))
