"""A frontend app that attacks the console, in the browser of an owner who is logged in. Its script
is served from the origin of the console, so the attack is opened, embedded and loaded there."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.console import list_missing
from tests.browser.pages import PageServer
from tests.support.live import PROJECT_KEY, LiveServer, wait_for

OWNER, PASSWORD = "owner@example.com", "correct horse battery"
APPS = "/api/environments/1/pipeline_frontend_apps_configs/"
SCRIPT = 22
# Also HTML, in case a browser reads it so. `results` says what each attack got.
ATTACK = """/*<html><body><script>document.title = 'attacked'</script>*/
window.attacked = (window.attacked || 0) + 1
const host = '{host}', created = {{ key: 'stolen', filters: {{ groups: [] }} }}
const attempt = async (path, options) => {{
  const response = await fetch(host + path, {{ credentials: 'include', ...options }})
  return response.status + ' ' + (await response.text())
}}
const body = JSON.stringify(created)
const post = (type) => ({{ method: 'POST', headers: {{ 'Content-Type': type }}, body }})
const attacks = {{
  cookie: async () => document.cookie,
  read: () => attempt('/api/users/@me/', {{}}),
  create: () => attempt('/api/projects/1/feature_flags/', post('application/json')),
  'create without preflight': () => attempt('/api/projects/1/feature_flags/', post('text/plain')),
  'log out': () => attempt('/api/logout/', {{ method: 'POST' }}),
  'stored key': async () => sessionStorage.length + localStorage.length + '',
}}
window.results = {{}}
window.finished = Promise.all(Object.entries(attacks).map(async ([name, attack]) => {{
  window.results[name] = await attack().catch((error) => 'refused: ' + error.name)
}}))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    if lacks := list_missing():
        pytest.skip(f"missing: {', '.join(lacks)}")
    owner = {"bootstrap_owner_email": OWNER, "bootstrap_owner_password": PASSWORD}
    with LiveServer(tmp_path_factory.mktemp("attack"), **owner) as running:
        yield running


@pytest.fixture(scope="module")
def address(server: LiveServer) -> str:
    """Where the script of the attack is."""
    with server.client() as admin:
        id = admin.post(APPS, json={"plugin": SCRIPT}).json()["id"]
        code = ATTACK.format(host=server.address)
        assert admin.put(f"{APPS}{id}/config/", json={"code": code}).status_code == 200
        assert admin.patch(f"{APPS}{id}/", json={"enabled": True}).status_code == 200
    config = f"{server.address}/array/{PROJECT_KEY}/config"

    def find() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx.get(config, timeout=60).json()["siteApps"]
        return found

    wait_for(lambda: bool(find()), at_most_s=120)
    return server.address + str(find()[0]["url"])


@pytest.fixture
def page(server: LiveServer, chromium: Browser) -> Iterator[Page]:
    """A tab of an owner who has logged in with a password."""
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.goto(server.address)
        page.get_by_label("Email").fill(OWNER)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in", exact=True).click()
        expect(page.get_by_role("heading", name="First steps")).to_be_visible(timeout=120_000)
        assert "hedgerow_session" in {each.get("name") for each in context.cookies()}
        yield page
    finally:
        context.close()


def read_as_page(page: Page) -> int:
    status: int = page.evaluate("fetch('/api/users/@me/').then(got => got.status)")
    return status


def list_flags(server: LiveServer) -> list[str]:
    with server.client() as admin:
        return [
            each["key"] for each in admin.get("/api/projects/1/feature_flags/").json()["results"]
        ]


def test_opened_or_embedded_script_is_text(
    server: LiveServer, address: str, page: Page, pages: PageServer
) -> None:
    response = page.goto(address)
    assert response is not None
    assert response.headers["content-type"].startswith("application/javascript")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "window.attacked" in page.inner_text("body")
    assert page.evaluate("[window.attacked, document.title]") == [None, ""]
    tags = "".join(
        f"<{tag} {name}='{address}'></{tag}>"
        for tag, name in (("iframe", "src"), ("object", "data"))
    )
    with page.expect_event("requestfinished", lambda request: request.url == address):
        page.goto(pages.put("/frames", f"<!doctype html><title>Frames</title>{tags}"))
    page.wait_for_load_state("networkidle")
    for frame in page.frames:
        assert frame.evaluate("window.attacked") is None
        assert frame.title() in ("", "Frames")


def test_console_does_not_run_the_script(address: str, page: Page) -> None:
    """Not even if a hole in the console let it add an element: scripts need the nonce."""
    load = """async ([address, isTrusted]) => {
      const policy = { createScriptURL: text => text }
      const trust = url => trustedTypes.createPolicy('hole', policy).createScriptURL(url)
      const url = isTrusted ? trust(address) : address
      const script = document.createElement('script')
      try { script.src = url } catch (error) { return error.name }
      const done = new Promise(resolve => {
        script.onload = () => resolve('loaded')
        script.onerror = () => resolve('refused')
      })
      document.head.append(script)
      return await done
    }"""
    assert page.evaluate(load, [address, False]) == "TypeError"
    assert page.evaluate(load, [address, True]) == "refused"
    worker = "address => navigator.serviceWorker.register(address).catch(error => error.name)"
    assert page.evaluate(worker, address) in ("SecurityError", "TypeError")
    assert page.evaluate("window.attacked") is None


def test_page_of_a_customer_gets_nothing_with_the_session(
    server: LiveServer, address: str, page: Page, pages: PageServer
) -> None:
    """Another port is the same site: the browser sends the cookie, and the service refuses it."""
    script = f"<!doctype html><title>Shop</title><script src='{address}'></script>"
    page.goto(pages.put("/shop", script))
    page.wait_for_function("window.attacked === 1")
    page.evaluate("finished")
    results = page.evaluate("results")
    assert results.pop("cookie") == ""
    assert results.pop("stored key") == "0"
    assert len(results) == 4
    assert set(results.values()) == {"refused: TypeError"}
    # Without the cookie this would be a 401.
    with page.expect_navigation() as read:
        page.evaluate("url => { location.href = url }", f"{server.address}/api/users/@me/")
    assert read.value.status == 403
    # A form needs no permission of the service to be sent, and its answer is a page.
    form = f"<form method=post enctype=text/plain action='{server.address}/api/logout/'></form>"
    page.goto(pages.put("/form", f"<!doctype html><title>Form</title>{form}"))
    with page.expect_navigation() as navigation:
        page.evaluate("document.forms[0].submit()")
    assert navigation.value.status == 403
    # The console in a frame, or as a window of the attacker.
    frame = f"<!doctype html><title>Frame</title><iframe src='{server.address}/'></iframe>"
    with page.expect_console_message(lambda message: "frame-ancestors" in message.text):
        page.goto(pages.put("/framed", frame))
    page.goto(pages.put("/opener", "<!doctype html><title>Opener</title>"))
    with page.context.expect_page() as opened:
        page.evaluate("url => { window.victim = window.open(url) }", server.address)
    opened.value.wait_for_url("**/home")
    assert opened.value.evaluate("window.opener") is None
    assert page.evaluate("victim.closed")
    assert read_as_page(opened.value) == 200
    assert list_flags(server) == []
