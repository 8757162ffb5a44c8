"""A frontend app end to end: listed by /decide, and loaded from the URL in it."""

from pathlib import Path
from typing import Any

from tests.support.live import PROJECT_KEY, LiveServer, wait_for

BASE = "/api/environments/1/pipeline_frontend_apps_configs/"
CUSTOM_SCRIPT = 22
# The promise is 1 s; a busy machine gets more.
SOON_S = 60.0


def test_a_page_finds_the_script_of_an_enabled_app(tmp_path: Path) -> None:
    def listed_apps(server: LiveServer) -> list[dict[str, Any]]:
        with server.client(key=None) as page:
            body = {"token": PROJECT_KEY, "distinct_id": "visitor"}
            apps: list[dict[str, Any]] = page.post("/decide/?v=3", json=body).json()["siteApps"]
            return apps

    with LiveServer(tmp_path) as server, server.client() as owner:
        app = owner.post(BASE, json={"plugin": CUSTOM_SCRIPT, "name": "Greeting"}).json()
        code = {"code": "console.log('hello')"}
        assert owner.put(f"{BASE}{app['id']}/config/", json=code).status_code == 200
        assert listed_apps(server) == []
        assert owner.patch(f"{BASE}{app['id']}/", json={"enabled": True}).status_code == 200
        wait_for(lambda: listed_apps(server) != [], at_most_s=SOON_S)
        [announced] = listed_apps(server)
        assert announced["id"] == app["id"]

    with LiveServer(tmp_path) as server, server.client() as owner:
        assert listed_apps(server) == [announced], "listed from the first request on"
        with server.client(key=None) as page:
            script = page.get(announced["url"])
            assert script.status_code == 200
            assert script.headers["content-type"].startswith("application/javascript")
            assert "console.log('hello')" in script.text
            assert owner.patch(f"{BASE}{app['id']}/", json={"enabled": False}).status_code == 200
            wait_for(lambda: listed_apps(server) == [], at_most_s=SOON_S)
            assert page.get(announced["url"]).status_code == 404
