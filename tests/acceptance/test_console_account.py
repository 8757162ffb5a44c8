"""People in the console: setup link, invite, login with two factors, keys, roles, and what survives
an ended session and a restart. Real service, real browser, tasks that a person has."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from hedgerow.people.totp import STEP_S, compute_code
from tests.browser.chromium import Opened
from tests.browser.console import find_violations, list_missing, wait_until_whole
from tests.support.live import Installation, LiveServer, find_free_port, wait_for

OWNER, PASSWORD = "olga@example.com", "correct horse battery"
OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}
PHONE = {"width": 390, "height": 844}
SETTINGS = ("user", "user-api-keys", "project", "organization-members", "organization-roles")
NOT_ALLOWED = "Your role in this project does not include this."
# Pages, with the name of what a viewer may not use on them.
VIEWED = {
    "home": "",
    "dashboard": "New dashboard",
    "cohorts": "New cohort",
    "groups": "New group",
    "experiments": "New experiment",
    "surveys": "New survey",
    "early_access_features": "New feature",
    "pipeline/destinations": "New destination",
    "data-management/actions": "New action",
    "feature_flags/new": "Review and save",
}
expect.set_options(timeout=30_000)


class Service:
    """A service whose address stays when it is started again, and the session of its owner."""

    owner: StorageState

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = find_free_port()
        self.start()

    def start(self) -> None:
        self.server = LiveServer(self._folder / "data", port=self._port).wait_ready()

    @property
    def address(self) -> str:
        return self.server.address

    def post(self, path: str, body: dict[str, Any]) -> Any:
        with self.server.client() as client:
            response = client.post(path, json=body)
        assert response.status_code in (200, 201), response.text
        return response.json()

    def join(self, name: str, role: str) -> str:
        """Let someone join, and return the email."""
        email = f"{name}@example.com"
        invite = {"target_email": email, "project_roles": {"1": role}}
        link = self.post("/api/organizations/@current/invites/", invite)["link"]
        body = {"token": link, "first_name": name.title(), "password": PASSWORD}
        httpx.post(
            f"{self.address}/api/signup/", json=body, headers=OWN_PAGE, verify=False
        ).raise_for_status()
        return email


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[Service]:
    if lacks := list_missing():
        pytest.skip(f"missing: {', '.join(lacks)}")
    found = Service(tmp_path_factory.mktemp("account"))
    try:
        with open_page(chromium) as page:
            name_owner(page, found)
            found.owner = page.context.storage_state()
        yield found
    finally:
        found.server.stop()


@contextmanager
def open_page(chromium: Browser, state: StorageState | None = None) -> Iterator[Page]:
    """A browser of its own, new or logged in. It must end without errors of scripts."""
    context = chromium.new_context(storage_state=state)
    try:
        opened = Opened(context.new_page())
        yield opened.page
        # The browser itself reports refused requests.
        assert opened.errors_but("Failed to load resource") == []
    finally:
        context.close()


def name_owner(page: Page, service: Service) -> None:
    """Use the setup link that the first start printed."""
    [link] = re.findall(r"\S+#setup=hgl_\w+", service.server.output)
    page.goto(link)
    page.get_by_label("Your name").fill("Olga")
    page.get_by_label("Email").fill("not an email@")
    page.get_by_label("New password").fill("password password")
    page.evaluate("document.querySelector('form').noValidate = true")
    page.get_by_role("button", name="Set up Hedgerow").click()
    expect(page.get_by_text("Enter a valid email address.")).to_be_visible()
    expect(page.get_by_label("Your name")).to_have_value("Olga")
    assert find_violations(page) == []
    page.get_by_label("Email").fill(OWNER)
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_role("button", name="Set up Hedgerow").click()
    expect(page.get_by_role("heading", name="First steps")).to_be_visible()
    assert "#" not in page.url


def log_in(page: Page, service: Service, email: str = OWNER, path: str = "") -> None:
    page.goto(service.address + path)
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()


def go(page: Page, service: Service, path: str) -> None:
    page.goto(f"{service.address}/project/1/{path}")


def read_code(page: Page, label: str) -> str:
    return page.get_by_label(label, exact=True).inner_text().strip()


def test_owner_invites_a_viewer_who_may_only_look(service: Service, chromium: Browser) -> None:
    with open_page(chromium, service.owner) as page:
        go(page, service, "settings/organization-members")
        page.get_by_role("button", name="Invite someone").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Email").fill("vera@example.com")
        expect(dialog.get_by_label("Role in project 1", exact=True)).to_have_value("viewer")
        assert find_violations(page) == []
        dialog.get_by_role("button", name="Create the link").click()
        link = read_code(page, "link")
        assert find_violations(page) == []
        page.get_by_role("button", name="Done").click()
        expect(page.get_by_role("cell", name="vera@example.com")).to_be_visible()
    with open_page(chromium) as page:
        page.goto(link)
        page.get_by_label("Your name").fill("Vera")
        page.get_by_label("New password").fill(PASSWORD)
        page.get_by_role("button", name="Join").click()
        expect(page.get_by_role("heading", name="Default project")).to_be_visible()
        go(page, service, "feature_flags")
        expect(page.get_by_text("Your role in this project does not include this.")).to_be_visible()
        expect(page.get_by_role("link", name="New feature flag")).to_have_count(0)
        navigation = page.get_by_role("navigation", name="Main")
        for hidden in ("Activity", "System"):
            expect(navigation.get_by_role("link", name=hidden)).to_have_count(0)
        go(page, service, "settings/project")
        expect(page.get_by_text("Your role in this project does not include this.")).to_be_visible()
        expect(page.get_by_role("button", name="Delete the project…")).to_be_disabled()
        expect(page.get_by_label("Time zone")).to_be_disabled()
        expect(page.get_by_role("button", name="Add a filter")).to_be_disabled()
        go(page, service, "settings/organization-members")
        expect(page.get_by_text("vera@example.com")).to_have_count(2)
        expect(page.get_by_role("button", name="Invite someone")).to_have_count(0)
        go(page, service, "system")
        expect(page.get_by_text("Only owners of the organization may do this.")).to_be_visible()
        look_around(page, service)


def look_around(page: Page, service: Service) -> None:
    """Open the pages as a viewer: none asks for what a viewer may not see, and nothing that
    changes something can be used."""
    refused: list[str] = []
    page.on("response", lambda got: refused.append(got.url) if got.status == 403 else None)
    for path, button in VIEWED.items():
        go(page, service, path)
        if button:
            expect(page.get_by_text(NOT_ALLOWED).first).to_be_attached()
            expect(page.get_by_role("link", name=button)).to_have_count(0)
            expect(page.get_by_role("button", name=button, disabled=False)).to_have_count(0)
        else:
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            page.wait_for_load_state("networkidle")
    assert refused == []


def test_key_is_shown_once_works_and_is_revoked(service: Service, chromium: Browser) -> None:
    with open_page(chromium, service.owner) as page:
        go(page, service, "settings/user-api-keys")
        page.get_by_role("button", name="New personal API key").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("Deploy script")
        flags = dialog.get_by_role("group", name="Feature flag", exact=True)
        flags.get_by_role("button", name="Write").click()
        dialog.get_by_role("combobox", name="Add a project").click()
        page.get_by_role("option", name="Default project").click()
        assert find_violations(page) == []
        dialog.get_by_role("button", name="Create the key").click()
        value = read_code(page, "personal API key")
        page.get_by_role("button", name="Done").click()
        headers = {"Authorization": f"Bearer {value}"}
        flags_url = f"{service.address}/api/projects/1/feature_flags/"
        assert httpx.get(flags_url, headers=headers, verify=False).status_code == 200
        persons_url = f"{service.address}/api/projects/1/persons/"
        assert httpx.get(persons_url, headers=headers, verify=False).status_code == 403
        page.get_by_role("button", name="Actions for Deploy script").click()
        page.get_by_role("menuitem", name="Revoke…").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke the key").click()
        expect(page.get_by_text("Deploy script is revoked.")).to_be_visible()
        wait_for(
            lambda: httpx.get(flags_url, headers=headers, verify=False).status_code == 401, 120
        )


def test_change_asks_for_a_recent_login_and_goes_on(service: Service, chromium: Browser) -> None:
    with open_page(chromium) as page:
        log_in(page, service, path="/project/1/settings/organization-roles")
        refusal = {"type": "authentication_error", "code": "login_not_recent", "detail": "Old."}
        expect(page.get_by_role("cell", name="Viewer").first).to_be_visible()
        # As if the login were older than 10 minutes; everything after it is real.
        page.route("**/roles/", lambda route: route.fulfill(status=403, json=refusal), times=1)
        page.get_by_role("button", name="New role").click()
        dialog = page.get_by_role("dialog", name="New role")
        dialog.get_by_label("Name").fill("Surveyor")
        dialog.get_by_role("group", name="Survey", exact=True).get_by_text("Write").click()
        dialog.get_by_role("button", name="Create the role").click()
        confirm = page.get_by_role("dialog", name="Confirm that it is you")
        expect(confirm.get_by_label("Email")).to_have_value(OWNER)
        assert find_violations(page) == []
        confirm.get_by_label("Password").fill(PASSWORD)
        confirm.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("cell", name="Surveyor", exact=True)).to_be_visible()


def test_authenticator_and_a_recovery_code(service: Service, chromium: Browser) -> None:
    email = service.join("tom", "editor")
    with open_page(chromium) as page:
        log_in(page, service, email, "/project/1/settings/user")
        page.get_by_role("button", name="Set up an authenticator app").click()
        secret = read_code(page, "secret")
        expect(page.get_by_role("img", name="QR code for an authenticator app")).to_be_visible()
        assert find_violations(page) == []
        page.get_by_label("Code of the app").fill("000000")
        page.get_by_role("button", name="Turn it on").click()
        expect(page.locator(".error-text, .notice.bad")).to_be_visible()
        page.get_by_label("Code of the app").fill(compute_code(secret, int(time.time() / STEP_S)))
        page.get_by_role("button", name="Turn it on").click()
        recovery = read_code(page, "recovery codes").split()[0]
        page.get_by_role("button", name="I have stored them").click()
        expect(page.get_by_text("10 recovery codes are left.")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        log_in(page, service, email)
        page.get_by_label("Code", exact=True).fill(recovery)
        page.get_by_role("button", name="Log in", exact=True).click()
        expect(page.get_by_role("heading", name="Default project")).to_be_visible()


def test_other_sessions_are_listed_and_ended(service: Service, chromium: Browser) -> None:
    email = service.join("sam", "viewer")
    with open_page(chromium) as page:
        log_in(page, service, email, "/project/1/settings/user")
        expect(page.get_by_text("This one", exact=True)).to_be_visible()
        # The session with which Sam joined.
        expect(page.get_by_role("cell", name="Python")).to_be_visible()
        page.get_by_role("button", name="End all others").click()
        page.get_by_role("dialog").get_by_role("button", name="End 1 session").click()
        expect(page.get_by_role("cell", name="Python")).to_have_count(0)
        expect(page.get_by_text("This one", exact=True)).to_be_visible()


def test_draft_survives_an_ended_session_and_a_restart(service: Service, chromium: Browser) -> None:
    email = service.join("eva", "editor")
    with open_page(chromium) as page:
        log_in(page, service, email, "/project/1/feature_flags/new")
        page.get_by_label("Key", exact=True).fill("kept-draft")
        [member] = [each for each in list_members(service) if each["user"]["email"] == email]
        with service.server.client() as client:
            path = f"/api/organizations/@current/members/{member['id']}/sessions/"
            assert client.delete(path).status_code == 204
        # The preview of the draft is refused.
        page.get_by_label("Description").fill("Kept")
        login = page.get_by_role("dialog", name="Log in again")
        login.get_by_label("Password").fill(PASSWORD)
        login.get_by_role("button", name="Log in", exact=True).click()
        expect(login).to_be_hidden()
        service.server.stop()
        service.start()
        page.get_by_role("button", name="Review and save").click()
        page.get_by_role("button", name="Create the flag").click()
        expect(page.get_by_role("heading", name="kept-draft")).to_be_visible()


def test_lost_role_refuses_the_change_and_keeps_the_draft(
    service: Service, chromium: Browser
) -> None:
    email = service.join("edda", "editor")
    [member] = [each for each in list_members(service) if each["user"]["email"] == email]
    with open_page(chromium) as page:
        log_in(page, service, email, "/project/1/feature_flags/new")
        page.get_by_label("Key", exact=True).fill("too-late")
        with service.server.client() as client:
            path = f"/api/organizations/@current/members/{member['id']}/"
            lowered = client.patch(path, json={"project_roles": {"1": "viewer"}})
            assert lowered.status_code == 200, lowered.text
        page.get_by_role("button", name="Review and save").click()
        page.get_by_role("button", name="Create the flag").click()
        alert = page.get_by_role("dialog").get_by_role("alert")
        expect(alert).to_contain_text("Viewer, does not include 'feature_flag:write'")
        page.reload()
        expect(page.get_by_label("Key", exact=True)).to_have_value("too-late")
        expect(page.get_by_role("button", name="Review and save")).to_be_disabled()
        with service.server.client() as client:
            assert client.get("/api/projects/1/feature_flags/too-late/").status_code == 404


def list_members(service: Service) -> list[dict[str, Any]]:
    with service.server.client() as client:
        found: list[dict[str, Any]] = client.get("/api/organizations/@current/members/").json()[
            "results"
        ]
    return found


def test_new_project_notices_its_first_event_and_is_deleted(
    service: Service, chromium: Browser
) -> None:
    with open_page(chromium, service.owner) as page:
        go(page, service, "home")
        page.get_by_role("button", name="Project: Default project").click()
        page.get_by_role("menuitem", name="New project…").click()
        page.get_by_role("dialog").get_by_label("Name").fill("Shop")
        page.get_by_role("button", name="Create the project").click()
        expect(page.get_by_role("heading", name="Shop")).to_be_visible()
        page.get_by_role("button", name="curl", exact=True).click()
        code = read_code(page, "code that sends an event")
        assert service.address in code
        [key] = re.findall(r"phc_\w+", code)
        assert find_violations(page) == []
        event = {"api_key": key, "distinct_id": "ann", "event": "hello"}
        assert httpx.post(f"{service.address}/i/v0/e/", json=event, verify=False).status_code == 200
        expect(page.get_by_text("The first event has arrived.")).to_be_visible()
        expect(page.get_by_text("Events in the last hour")).to_be_visible()
        page.goto(re.sub(r"/home.*", "/settings/project", page.url))
        page.get_by_role("button", name="Delete the project…").click()
        dialog = page.get_by_role("dialog", name="Delete Shop?")
        expect(dialog.locator("dl > div").first).to_have_text("Events1")
        assert find_violations(page) == []
        dialog.get_by_label("Type the name of the project: Shop").fill("Shop")
        dialog.get_by_role("button", name="Delete the project").click()
        expect(page.get_by_role("heading", name="Default project")).to_be_visible()


def test_settings_and_system_are_accessible_and_fit_a_phone(
    service: Service, chromium: Browser
) -> None:
    with open_page(chromium, service.owner) as page:
        for path in (*(f"settings/{each}" for each in SETTINGS), "system", "home"):
            go(page, service, path)
            wait_until_whole(page)
            assert find_violations(page) == [], path
            page.set_viewport_size(PHONE)  # type: ignore[arg-type]
            assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], path
            page.set_viewport_size({"width": 1280, "height": 800})
        go(page, service, "system")
        expect(page.get_by_role("row", name=re.compile("Inbox"))).to_contain_text("OK")
        expect(page.get_by_text("SQLite")).to_be_visible()


def test_password_is_reset_with_a_link(service: Service, chromium: Browser) -> None:
    email = service.join("rob", "viewer")
    with open_page(chromium) as page:
        page.goto(f"{service.address}/#reset=hgl_wrong")
        page.get_by_label("New password").fill("another long password")
        page.get_by_role("button", name="Save the password").click()
        expect(page.get_by_role("alert")).to_be_visible()
        link = reset_link(service, email)
        page.goto(link)
        page.get_by_label("New password").fill("another long password")
        page.get_by_role("button", name="Save the password").click()
        expect(page.get_by_text("The password is saved. Log in with it.")).to_be_visible()
        page.get_by_label("Email").fill(email)
        page.get_by_label("Password").fill("another long password")
        page.get_by_role("button", name="Log in", exact=True).click()
        expect(page.get_by_role("heading", name="Default project")).to_be_visible()


def reset_link(service: Service, email: str) -> str:
    installation = Installation(data=service.server.data, settings={})
    # The browser occupies the event loop of this thread.
    with ThreadPoolExecutor() as threads:
        run = threads.submit(installation.run_json, "users", "reset-password", email)
    link: str = run.result()["link"]
    return re.sub(r"^https?://[^/]+", service.address, link)
