"""What a vector finds when it begins: projects, keys and records of its own, on a shared server."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import insert

from hedgerow.storage.connect import Place, plain_engine
from hedgerow.storage.tables import pipeline_records
from tests.live import PERSONAL_KEY, LiveServer, free_port

# The settings of the servers that a vector may name; each is started when first asked for.
SERVERS: dict[str, dict[str, str]] = {
    "default": {},
    "strict": {
        "rate_limits": "true",
        "max_body_bytes": "2048",
        "trusted_proxies": "127.0.0.0/8",
    },
    "public": {"public_url": "https://flags.example.com"},
}
CREATED = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class Servers:
    """Live servers by name, each with one client that keeps its connection."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self._clients: dict[str, tuple[LiveServer, httpx.Client]] = {}

    def named(self, name: str) -> tuple[LiveServer, httpx.Client]:
        if name not in self._clients:
            folder = self._folder / name
            # On a port that we know, since a server with a public address prints only that.
            server = LiveServer(folder, port=free_port(), **SERVERS[name])
            self._open.enter_context(server)
            self._clients[name] = server, self._open.enter_context(server.client(key=None))
        return self._clients[name]

    def close(self) -> None:
        self._open.close()


def make(world: dict[str, Any], server: LiveServer) -> dict[str, Any]:
    """Everything that `world` names, as the `{name}`s that the vector's steps may use.

    A project gives `{a}`, its id, `{a.text}`, the id as text, and `{a.token}`; a key gives
    `{reader}`, its value, and `{reader.id}`. `{admin}` may do everything.
    """
    known: dict[str, Any] = {"admin": PERSONAL_KEY}
    with server.client() as client:
        for name in world.get("projects", ()):
            project = _made(client.post("/api/projects/", json={"name": f"Project {name}"}))
            known |= {name: project["id"], f"{name}.text": str(project["id"])}
            known[f"{name}.token"] = project["api_token"]
        for name, wish in world.get("keys", {}).items():
            teams = [known[project] for project in wish.get("projects", ())]
            body = {"label": f"Key {name}", "scopes": wish["scopes"], "scoped_teams": teams}
            key = _made(client.post("/api/personal_api_keys/", json=body))
            known |= {name: key["value"], f"{name}.id": key["id"]}
    if rows := list(_record_rows(world, known)):
        place = Place(url="", path=server.data / "hedgerow.db", timeout_s=5)
        with plain_engine(place).begin() as connection:
            connection.execute(insert(pipeline_records), rows)
    return known


def _made(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def _record_rows(world: dict[str, Any], known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Records straight into the table; `times` makes many, each one further in the order."""
    for wish in world.get("records", ()):
        given = {name: value for name, value in wish.items() if name not in ("project", "times")}
        for n in range(wish.get("times", 1)):
            yield {
                "project_id": known[wish["project"]],
                "family": "destination",
                "component_id": 7,
                "enabled": True,
                "order": n,
                "name": f"Record {n}",
                "description": "",
                "deleted": False,
                "created_at": CREATED,
                "updated_at": CREATED,
                **given,
            }
