"""A service of its own, whose owner has a password, and people who join it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import uuid4

import httpx
import pytest

from tests.support.live import LiveServer

OWNER, PASSWORD = "owner@example.com", "correct horse battery"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


class Browser(httpx.Client):
    """Stays open after a `with` block; the service closes it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Every browser has an address of its own, so that limits of addresses do not interfere."""

    server: LiveServer
    admin: httpx.Client
    opened: list[Browser] = field(default_factory=list)

    def browser(self) -> Browser:
        """Return a browser on our own page, which keeps cookies."""
        headers = {**SAME_ORIGIN, "X-Forwarded-For": _make_address()}
        browser = Browser(base_url=self.server.address, headers=headers, timeout=60, verify=False)
        self.opened.append(browser)
        return browser

    def log_in(self, email: str, password: str = PASSWORD, **fields: str) -> Browser:
        browser = self.browser()
        body = {"email": email, "password": password, **fields}
        response = browser.post("/api/login/", json=body)
        assert response.status_code == 200, response.text
        return browser

    def invite(self, **fields: Any) -> dict[str, Any]:
        body = {"target_email": f"{uuid4()}@example.com", **fields}
        response = self.admin.post("/api/organizations/@current/invites/", json=body)
        assert response.status_code == 201, response.text
        created: dict[str, Any] = response.json()
        return created

    def join(self, **fields: Any) -> tuple[Browser, str]:
        """Let a person join, and return its browser and email."""
        invite, browser = self.invite(**fields), self.browser()
        body = {"token": invite["link"], "first_name": "Bob", "password": PASSWORD}
        response = browser.post("/api/signup/", json=body)
        assert response.status_code == 201, response.text
        return browser, invite["target_email"]


def _make_address() -> str:
    first, second, third = uuid4().bytes[:3]
    return f"203.{first}.{second}.{third}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = {
        "bootstrap_owner_email": OWNER,
        "bootstrap_owner_password": PASSWORD,
        "trusted_proxies": "127.0.0.0/8",
    }
    with (
        LiveServer(tmp_path_factory.mktemp("people"), **settings) as server,
        server.client() as admin,
    ):
        service = Service(server=server, admin=admin)
        yield service
        for each in service.opened:
            each.close()
