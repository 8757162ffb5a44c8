"""OpenFeature's JavaScript SDKs with their OFREP providers, against a live server: the server SDK
in Node, the web SDK in Chromium.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser import chromium as browser
from tests.browser.chromium import Opened
from tests.browser.pages import PageServer
from tests.contract.sdk.openfeature_flags import create_flags
from tests.contract.sdk.projects import Project
from tests.contract.sdk.sdk_process import SdkProcess, node_command
from tests.support.live import LiveServer, build_environment

ANN = {"targetingKey": "ann", "plan": "pro"}
BOB = {"targetingKey": "bob"}
MODULES = {
    "@openfeature/core": "core/dist/esm/index.js",
    "@openfeature/web-sdk": "web-sdk/dist/esm/index.js",
    "@openfeature/ofrep-core": "ofrep-core/index.esm.js",
    "@openfeature/ofrep-web-provider": "ofrep-web-provider/index.esm.js",
}
PAGE = """<!doctype html>
<script type="importmap">{"imports": %(modules)s}</script>
<script type="module">
  import { OpenFeature, ProviderEvents } from '@openfeature/web-sdk'
  import { OFREPWebProvider } from '@openfeature/ofrep-web-provider'
  window.OpenFeature = OpenFeature
  window.changed = []
  const record = (event) => changed.push(...event.flagsChanged)
  OpenFeature.addHandler(ProviderEvents.ConfigurationChanged, record)
  await OpenFeature.setContext(%(context)s)
  const headers = [['Authorization', 'Bearer %(token)s']]
  const provider = new OFREPWebProvider({ baseUrl: '%(host)s', headers, ...%(options)s })
  const set = OpenFeature.setProviderAndWait(provider)
  window.providerState = await set.then(() => 'ready', (error) => String(error))
</script>"""


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    return create_flags(project)


@pytest.fixture(scope="module")
def server_sdk(live: LiveServer, project: Project) -> Iterator[SdkProcess]:
    command = node_command("openfeature_driver.cjs", "@openfeature/ofrep-provider")
    with SdkProcess(command, build_environment()) as process:
        bearer = {"Authorization": f"Bearer {project.token}"}
        assert process.open(name="bearer", host=live.address, headers=bearer) is None
        header = {"X-API-Key": "phc_no-such-key"}
        assert process.open(name="wrong", host=live.address, headers=header) is None
        yield process


def details(sdk: SdkProcess, key: str, fallback: Any, name: str = "bearer", **context: Any) -> Any:
    return sdk.details(name=name, key=key, fallback=fallback, context=context)


def test_server_provider_returns_every_type(server_sdk: SdkProcess) -> None:
    beta = details(server_sdk, "beta", False, **ANN)
    assert (beta["value"], beta["reason"], beta["variant"]) == (True, "TARGETING_MATCH", "true")
    assert beta["flagMetadata"]["reason"] == "condition_match"
    assert details(server_sdk, "shades", "light", **ANN)["variant"] == "dark"
    expected = {"limits": {"uploads": 3}, "share": 0.5, "tries": 3, "greeting": "hello"}
    defaults: dict[str, Any] = {"limits": {}, "share": 0.1, "tries": 1, "greeting": ""}
    found = {key: details(server_sdk, key, other, **ANN) for key, other in defaults.items()}
    assert {key: each["value"] for key, each in found.items()} == expected
    assert {each["reason"] for each in found.values()} == {"STATIC"}
    assert details(server_sdk, "beta", True, **BOB)["value"] is False
    # This provider requires a value in every response.
    assert details(server_sdk, "shades", "light", **BOB)["value"] == "light"


def test_server_provider_returns_openfeature_errors(server_sdk: SdkProcess) -> None:
    def get_error_code(key: str, fallback: Any, **options: Any) -> Any:
        evaluation = details(server_sdk, key, fallback, **options)
        assert (evaluation["value"], evaluation["reason"]) == (fallback, "ERROR")
        return evaluation["errorCode"]

    assert get_error_code("no-such", True, **ANN) == "FLAG_NOT_FOUND"
    assert get_error_code("beta", "x", **ANN) == "TYPE_MISMATCH"
    assert get_error_code("beta", True) == "TARGETING_KEY_MISSING"
    assert (
        get_error_code("beta", True, targetingKey="ann", **{"$groups": "acme"}) == "INVALID_CONTEXT"
    )
    assert get_error_code("beta", True, name="wrong", **ANN) == "GENERAL"


def test_server_provider_sees_a_change_on_the_next_evaluation(
    server_sdk: SdkProcess, project: Project
) -> None:
    for active in (False, True):
        project.update("feature_flags/beta", active=active)
        beta = details(server_sdk, "beta", not active, **ANN)
        assert (beta["value"], beta["reason"] == "DISABLED") == (active, not active)


@pytest.fixture
def page(opened: Opened) -> Page:
    if lacks := browser.missing(*MODULES):
        pytest.skip(f"{' and '.join(lacks)} missing: run tests/browser/install")
    return opened.page


POLLING = {"pollInterval": 200, "changeDetection": "polling"}
# The default, without polling beside it.
EVENTS = {"pollInterval": 0}


def open_page(
    page: Page, pages: PageServer, host: str, token: str, options: dict[str, Any] = POLLING
) -> str:
    """Open the page and return the state of its provider."""
    modules = {name: f"/packages/@openfeature/{path}" for name, path in MODULES.items()}
    parameters = {
        "modules": json.dumps(modules),
        "context": json.dumps(ANN),
        "options": json.dumps(options),
    }
    page.goto(pages.put("/openfeature", PAGE % {**parameters, "host": host, "token": token}))
    page.wait_for_function("window.providerState !== undefined")
    return str(page.evaluate("providerState"))


def evaluate_in_page(page: Page, key: str, fallback: Any) -> Any:
    type_name = {bool: "Boolean", str: "String", dict: "Object"}.get(type(fallback), "Number")
    return page.evaluate(
        f"([key, fallback]) => OpenFeature.getClient().get{type_name}Details(key, fallback)",
        [key, fallback],
    )


def test_web_provider_loads_all_flags_and_polls_for_changes(
    page: Page, pages: PageServer, live: LiveServer, project: Project, opened: Opened
) -> None:
    assert open_page(page, pages, live.address, project.token) == "ready"
    beta = evaluate_in_page(page, "beta", False)
    assert (beta["value"], beta["reason"], beta["variant"]) == (True, "TARGETING_MATCH", "true")
    expected = {"shades": "dark", "limits": {"uploads": 3}, "share": 0.5, "tries": 3}
    assert {
        key: evaluate_in_page(page, key, type(each)())["value"] for key, each in expected.items()
    } == expected
    assert evaluate_in_page(page, "no-such", True)["errorCode"] == "FLAG_NOT_FOUND"
    assert evaluate_in_page(page, "beta", "x")["errorCode"] == "TYPE_MISMATCH"
    # It polls with its ETag, which CORS exposes.
    with page.expect_response(lambda got: got.status == 304, timeout=60_000):
        pass
    assert page.evaluate("changed") == []
    project.update("feature_flags/beta", active=False)
    page.wait_for_function("changed.length > 0")
    assert page.evaluate("changed") == ["beta"]
    beta = evaluate_in_page(page, "beta", True)
    assert (beta["value"], beta["reason"]) == (False, "DISABLED")
    project.update("feature_flags/beta", active=True)
    page.wait_for_function("OpenFeature.getClient().getBooleanValue('beta', false)")
    # A user without a variant.
    page.evaluate("(context) => OpenFeature.setContext(context)", BOB)
    shades = evaluate_in_page(page, "shades", "light")
    assert (shades["value"], shades["reason"]) == ("light", "DEFAULT")
    assert "errorCode" not in shades
    assert evaluate_in_page(page, "beta", True)["value"] is False
    assert opened.errors == []


def test_web_provider_learns_of_changes_from_the_event_stream(
    page: Page, pages: PageServer, live: LiveServer, project: Project, opened: Opened
) -> None:
    with page.expect_response(lambda got: "/ofrep/v1/events?token=" in got.url) as stream:
        assert open_page(page, pages, live.address, project.token, EVENTS) == "ready"
    assert stream.value.status == 200
    for active in (False, True):
        project.update("feature_flags/beta", active=active)
        page.wait_for_function(
            f"OpenFeature.getClient().getBooleanValue('beta', {str(not active).lower()})"
            f" === {str(active).lower()}"
        )
    assert page.evaluate("new Set(changed).size") == 1
    # A remote configuration changes too, although server SDKs do not get it.
    project.update("feature_flags/greeting", active=False)
    page.wait_for_function("changed.includes('greeting')")
    project.update("feature_flags/greeting", active=True)
    assert opened.errors == []


def test_web_provider_reports_an_invalid_key(
    page: Page, pages: PageServer, live: LiveServer
) -> None:
    state = open_page(page, pages, live.address, "phc_no-such-key")
    assert "Initialization failed" in state
    assert evaluate_in_page(page, "beta", True)["value"] is True
    status = page.evaluate("OpenFeature.getClient().providerStatus")
    # The page could read the error, so CORS headers were present.
    assert status == "FATAL"
