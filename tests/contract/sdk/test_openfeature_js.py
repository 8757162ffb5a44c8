"""OpenFeature's SDKs in JavaScript with their OFREP providers, against a live server: the one for
servers in Node, the one for pages in Chromium.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser import chromium as browser
from tests.browser.chromium import Opened
from tests.browser.pages import PageServer
from tests.contract.sdk.driven import Driven, in_node
from tests.contract.sdk.openfeature_flags import makes_flags
from tests.contract.sdk.projects import Project
from tests.live import LiveServer, environment

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
  const hears = (told) => changed.push(...told.flagsChanged)
  OpenFeature.addHandler(ProviderEvents.ConfigurationChanged, hears)
  await OpenFeature.setContext(%(context)s)
  const headers = [['Authorization', 'Bearer %(token)s']]
  const provider = new OFREPWebProvider({ baseUrl: '%(host)s', pollInterval: 200, headers })
  const set = OpenFeature.setProviderAndWait(provider)
  window.became = await set.then(() => 'ready', (error) => String(error))
</script>"""


@pytest.fixture(scope="module")
def project(project: Project) -> Project:
    return makes_flags(project)


@pytest.fixture(scope="module")
def server_sdk(live: LiveServer, project: Project) -> Iterator[Driven]:
    command = in_node("driven_openfeature.cjs", "@openfeature/ofrep-provider")
    with Driven(command, environment()) as driven:
        bearer = {"Authorization": f"Bearer {project.token}"}
        assert driven.open(who="bearer", host=live.address, headers=bearer) is None
        header = {"X-API-Key": "phc_no-such-key"}
        assert driven.open(who="wrong", host=live.address, headers=header) is None
        yield driven


def details(sdk: Driven, key: str, otherwise: Any, who: str = "bearer", **context: Any) -> Any:
    return sdk.details(who=who, key=key, otherwise=otherwise, context=context)


def test_a_server_gets_values_of_every_type(server_sdk: Driven) -> None:
    beta = details(server_sdk, "beta", False, **ANN)
    assert (beta["value"], beta["reason"], beta["variant"]) == (True, "TARGETING_MATCH", "true")
    assert beta["flagMetadata"]["reason"] == "condition_match"
    assert details(server_sdk, "shades", "light", **ANN)["variant"] == "dark"
    wanted = {"limits": {"uploads": 3}, "share": 0.5, "tries": 3, "greeting": "hello"}
    defaults: dict[str, Any] = {"limits": {}, "share": 0.1, "tries": 1, "greeting": ""}
    found = {key: details(server_sdk, key, other, **ANN) for key, other in defaults.items()}
    assert {key: each["value"] for key, each in found.items()} == wanted
    assert {each["reason"] for each in found.values()} == {"STATIC"}
    assert details(server_sdk, "beta", True, **BOB)["value"] is False
    # This provider wants a value in every answer, and takes one without for an error.
    assert details(server_sdk, "shades", "light", **BOB)["value"] == "light"


def test_a_server_gets_openfeatures_errors(server_sdk: Driven) -> None:
    def code(key: str, otherwise: Any, **asked: Any) -> Any:
        told = details(server_sdk, key, otherwise, **asked)
        assert (told["value"], told["reason"]) == (otherwise, "ERROR")
        return told["errorCode"]

    assert code("no-such", True, **ANN) == "FLAG_NOT_FOUND"
    assert code("beta", "x", **ANN) == "TYPE_MISMATCH"
    assert code("beta", True) == "TARGETING_KEY_MISSING"
    assert code("beta", True, targetingKey="ann", **{"$groups": "acme"}) == "INVALID_CONTEXT"
    assert code("beta", True, who="wrong", **ANN) == "GENERAL"


def test_a_server_sees_a_change_with_its_next_question(
    server_sdk: Driven, project: Project
) -> None:
    for active in (False, True):
        project.does("feature_flags/beta", active=active)
        beta = details(server_sdk, "beta", not active, **ANN)
        assert (beta["value"], beta["reason"] == "DISABLED") == (active, not active)


@pytest.fixture
def page(opened: Opened) -> Page:
    if lacks := browser.missing(*MODULES):
        pytest.skip(f"{' and '.join(lacks)} missing: tests/browser/install brings them")
    return opened.page


def goes(page: Page, pages: PageServer, host: str, token: str) -> str:
    """Opens the page, and says what became of its provider."""
    modules = {name: f"/packages/@openfeature/{path}" for name, path in MODULES.items()}
    given = {"modules": json.dumps(modules), "context": json.dumps(ANN)}
    page.goto(pages.put("/openfeature", PAGE % {**given, "host": host, "token": token}))
    page.wait_for_function("window.became !== undefined")
    return str(page.evaluate("became"))


def of_page(page: Page, key: str, otherwise: Any) -> Any:
    kind = {bool: "Boolean", str: "String", dict: "Object"}.get(type(otherwise), "Number")
    return page.evaluate(
        f"([key, otherwise]) => OpenFeature.getClient().get{kind}Details(key, otherwise)",
        [key, otherwise],
    )


def test_a_page_has_all_flags_and_hears_of_changes(
    page: Page, pages: PageServer, live: LiveServer, project: Project, opened: Opened
) -> None:
    assert goes(page, pages, live.address, project.token) == "ready"
    beta = of_page(page, "beta", False)
    assert (beta["value"], beta["reason"], beta["variant"]) == (True, "TARGETING_MATCH", "true")
    wanted = {"shades": "dark", "limits": {"uploads": 3}, "share": 0.5, "tries": 3}
    assert {
        key: of_page(page, key, type(each)())["value"] for key, each in wanted.items()
    } == wanted
    assert of_page(page, "no-such", True)["errorCode"] == "FLAG_NOT_FOUND"
    assert of_page(page, "beta", "x")["errorCode"] == "TYPE_MISMATCH"
    # It asks again with the mark of what it has, which the browser lets it read.
    with page.expect_response(lambda got: got.status == 304, timeout=60_000):
        pass
    assert page.evaluate("changed") == []
    project.does("feature_flags/beta", active=False)
    page.wait_for_function("changed.length > 0")
    assert page.evaluate("changed") == ["beta"]
    beta = of_page(page, "beta", True)
    assert (beta["value"], beta["reason"]) == (False, "DISABLED")
    project.does("feature_flags/beta", active=True)
    page.wait_for_function("OpenFeature.getClient().getBooleanValue('beta', false)")
    # Somebody else, who has no variant.
    page.evaluate("(context) => OpenFeature.setContext(context)", BOB)
    shades = of_page(page, "shades", "light")
    assert (shades["value"], shades["reason"]) == ("light", "DEFAULT")
    assert "errorCode" not in shades
    assert of_page(page, "beta", True)["value"] is False
    assert opened.errors == []


def test_a_page_with_a_wrong_key_is_told(page: Page, pages: PageServer, live: LiveServer) -> None:
    became = goes(page, pages, live.address, "phc_no-such-key")
    assert "Initialization failed" in became
    assert of_page(page, "beta", True)["value"] is True
    status = page.evaluate("OpenFeature.getClient().providerStatus")
    # The refusal was read, so it came through the browser's own check of origins.
    assert status == "FATAL"
