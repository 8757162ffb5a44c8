"""What a vector finds when it begins: projects, keys and records of its own, on a shared server."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import insert

from hedgerow.storage.connect import Place, plain_engine
from hedgerow.storage.tables import metadata, pipeline_records
from tests.contract.api.wire import filled
from tests.live import PERSONAL_KEY, LiveServer, free_port

# The settings of the servers that a vector may name; each is started when first asked for. Who
# names none gets the one that all tests share.
SERVERS: dict[str, dict[str, str]] = {
    "strict": {
        "rate_limits": "true",
        "max_body_bytes": "2048",
        "trusted_proxies": "127.0.0.0/8",
    },
    "public": {"public_url": "https://flags.example.com"},
}
CREATED = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
_WHEN = {"created_at": CREATED, "updated_at": CREATED}
# What a row has unless a vector says otherwise.
DEFAULTS: dict[str, dict[str, Any]] = {
    "flags": {
        **_WHEN,
        "name": "",
        "filters": {"groups": [{"rollout_percentage": 100}]},
        "active": True,
        "deleted": False,
        "archived": False,
        "version": 1,
        "ensure_experience_continuity": False,
        "is_remote_configuration": False,
        "has_encrypted_payloads": False,
        "evaluation_runtime": "all",
        "bucketing_identifier": "distinct_id",
        "evaluation_contexts": [],
        "tags": [],
        "created_by": "owner@hedgerow.invalid",
        "last_modified_by": "owner@hedgerow.invalid",
        "last_called_at": None,
    },
    "cohorts": {
        **_WHEN,
        "name": "",
        "description": "",
        "is_static": False,
        "definition": {},
        "deleted": False,
        "created_by": "owner@hedgerow.invalid",
    },
    "persons": {**_WHEN, "uuid": "00000000-0000-0000-0000-000000000000", "properties": {}},
    "groups": {**_WHEN, "type_index": 0, "properties": {}},
    "group_types": {"index": 0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A live server with clients that keep their connections: one with every right, one with none.

    A client takes long to make, so all vectors share them.
    """

    server: LiveServer
    admin: httpx.Client
    client: httpx.Client


class Servers:
    """Live servers by name."""

    def __init__(self, folder: Path, live: LiveServer) -> None:
        self._folder = folder
        self._open = ExitStack()
        self._opened = {"default": self._with_clients(live)}

    def named(self, name: str) -> Opened:
        if name not in self._opened:
            folder = self._folder / name
            # On a port that we know, since a server with a public address prints only that.
            server = LiveServer(folder, port=free_port(), **SERVERS[name])
            self._opened[name] = self._with_clients(self._open.enter_context(server))
        return self._opened[name]

    def _with_clients(self, server: LiveServer) -> Opened:
        return Opened(
            server=server,
            admin=self._open.enter_context(server.client()),
            client=self._open.enter_context(server.client(key=None)),
        )

    def close(self) -> None:
        self._open.close()


def make(world: dict[str, Any], opened: Opened) -> dict[str, Any]:
    """Everything that `world` names, as the `{name}`s that the vector's steps may use.

    A project gives `{a}`, its id, `{a.text}`, the id as text, and `{a.token}`; a key gives
    `{reader}`, its value, and `{reader.id}`; a record or flag that is made gives its id and
    `{r.text}`. `{admin}` may do everything. What is `given` is as it says, and may use names before
    it. `rows` go straight into a table, before anything is made; those with an id give it.
    """
    known: dict[str, Any] = {"admin": PERSONAL_KEY}
    client = opened.admin
    for name in world.get("projects", ()):
        project = _made(client.post("/api/projects/", json={"name": f"Project {name}"}))
        known |= {name: project["id"], f"{name}.text": str(project["id"])}
        known[f"{name}.token"] = project["api_token"]
    for name, value in world.get("given", {}).items():
        known[name] = filled(value, known)
    for name, wish in world.get("keys", {}).items():
        teams = [known[project] for project in wish.get("projects", ())]
        body = {"label": f"Key {name}", "scopes": wish["scopes"], "scoped_teams": teams}
        key = _made(client.post("/api/personal_api_keys/", json=body))
        known |= {name: key["value"], f"{name}.id": key["id"]}
    for name, row in _inserted(opened, world.get("rows", {}), known):
        known |= {name: row, f"{name}.text": str(row)}
    for name, wish in world.get("made", {}).items():
        id = _made_record(client, filled(wish, known))
        known |= {name: id, f"{name}.text": str(id)}
    if rows := list(_record_rows(world, known)):
        place = Place(url="", path=opened.server.data / "hedgerow.db", timeout_s=5)
        with plain_engine(place).begin() as connection:
            connection.execute(insert(pipeline_records), rows)
    return known


def _made(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def _made_record(client: httpx.Client, wish: dict[str, Any]) -> int:
    """A record by way of the API: `base`, the fields that Create takes, `config` and `deleted`."""
    base = wish.pop("base")
    config, deleted = wish.pop("config", None), wish.pop("deleted", False)
    id: int = _made(client.post(f"{base}/", json=wish))["id"]
    if config is not None:
        answer = client.put(f"{base}/{id}/config/", json=config)
        assert answer.status_code == 200, answer.text
    if deleted:
        assert client.delete(f"{base}/{id}/").status_code == 204
    return id


def _inserted(
    opened: Opened, wishes: dict[str, Any], known: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Rows for which there is no request, or that no request would make: `{table, times, ...}`,
    of the project `{a}` unless told. In what is repeated, `{n}` counts from 0."""
    if not wishes:
        return
    place = Place(url="", path=opened.server.data / "hedgerow.db", timeout_s=5)
    with plain_engine(place).begin() as connection:
        for name, wish in wishes.items():
            table = metadata.tables[wish["table"]]
            for n in range(wish.get("times", 1)):
                given = filled(wish, {**known, "n": n})
                values = {"project_id": known["a"], **DEFAULTS.get(table.name, {}), **given}
                own = {key: _stored(key, each) for key, each in values.items() if key in table.c}
                made = connection.execute(insert(table), own).inserted_primary_key
                known[name] = made[0] if made else None
            yield name, known[name]


def _stored(column: str, value: Any) -> Any:
    is_time = column.endswith("_at") and isinstance(value, str)
    return datetime.fromisoformat(value) if is_time else value


def _record_rows(world: dict[str, Any], known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Records straight into the table; `times` makes many, each one further in the order."""
    for wish in world.get("records", ()):
        given = {name: value for name, value in wish.items() if name not in ("project", "times")}
        for n in range(wish.get("times", 1)):
            yield {
                "project_id": known[wish["project"]],
                "family": "destination",
                "component_id": 7,
                "component_version": "1.0.0",
                "config": {},
                "web_token": "",
                "enabled": True,
                "order": n,
                "name": f"Record {n}",
                "description": "",
                "deleted": False,
                "created_at": CREATED,
                "updated_at": CREATED,
                **given,
            }
