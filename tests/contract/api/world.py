"""Creates the initial state of a vector: its own projects, keys and records on a shared server."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import insert

from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.tables import metadata, pipeline_records
from tests.contract.api.wire import substitute
from tests.support.live import PERSONAL_KEY, LiveServer, find_free_port

# The settings of the servers that a vector can name; each starts on first use. Vectors without a
# name run on the server that all tests share.
SERVERS: dict[str, dict[str, str]] = {
    "strict": {
        "rate_limits_enabled": "true",
        "max_body_bytes": "2048",
        "trusted_proxies": "127.0.0.0/8",
    },
    # One flag evaluation, and a capture call with more events than the burst, every ten seconds.
    "limited": {"project_calls_per_s": "0.1", "project_events_per_s": "0.2"},
    "public": {"public_url": "https://flags.example.com"},
}
CREATED = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
_TIMESTAMPS = {"created_at": CREATED, "updated_at": CREATED}
# Default values of rows.
DEFAULTS: dict[str, dict[str, Any]] = {
    "flags": {
        **_TIMESTAMPS,
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
        **_TIMESTAMPS,
        "name": "",
        "description": "",
        "is_static": False,
        "definition": {},
        "deleted": False,
        "created_by": "owner@hedgerow.invalid",
    },
    "saved_insights": {
        "created_at": CREATED,
        "updated_at": CREATED,
        "last_modified_at": CREATED,
        "name": "",
        "derived_name": "",
        "description": "",
        "favorited": False,
        "saved": True,
        "tags": [],
        "deleted": False,
        "created_by": "owner@hedgerow.invalid",
        "last_modified_by": "owner@hedgerow.invalid",
    },
    "persons": {**_TIMESTAMPS, "uuid": "00000000-0000-0000-0000-000000000000", "properties": {}},
    "groups": {**_TIMESTAMPS, "type_index": 0, "properties": {}},
    "group_types": {"index": 0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A live server with an all-access client and one without a key.

    Creating a client is slow, so all vectors share them.
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

    def get(self, name: str) -> RunningServer:
        if name not in self._opened:
            folder = self._folder / name
            # On a known port: a server with a public URL prints only that URL.
            server = LiveServer(folder, port=find_free_port(), **SERVERS[name])
            self._opened[name] = self._with_clients(self._open.enter_context(server))
        return self._opened[name]

    def _with_clients(self, server: LiveServer) -> RunningServer:
        return RunningServer(
            server=server,
            admin=self._open.enter_context(server.client()),
            client=self._open.enter_context(server.client(key=None)),
        )

    def close(self) -> None:
        self._open.close()


def build_world(world: dict[str, Any], opened: RunningServer) -> dict[str, Any]:
    """Create everything in `world` and return the variables for the steps of the vector.

    A project defines `{a}`, its id, `{a.text}`, the id as text, and `{a.token}`; a key defines
    `{reader}`, its value, and `{reader.id}`; a created record or flag defines its id and
    `{r.text}`. `{admin}` is an all-access key. `given` defines variables, which can use earlier
    ones. `rows` are inserted into tables first; rows with an id define it.
    """
    known: dict[str, Any] = {"admin": PERSONAL_KEY}
    client = opened.admin
    for name in world.get("projects", ()):
        project = parse_created(client.post("/api/projects/", json={"name": f"Project {name}"}))
        known |= {name: project["id"], f"{name}.text": str(project["id"])}
        known[f"{name}.token"] = project["api_token"]
    for name, value in world.get("given", {}).items():
        known[name] = substitute(value, known)
    for name, spec in world.get("keys", {}).items():
        teams = [known[project] for project in spec.get("projects", ())]
        body = {"label": f"Key {name}", "scopes": spec["scopes"], "scoped_teams": teams}
        key = parse_created(client.post("/api/personal_api_keys/", json=body))
        known |= {name: key["value"], f"{name}.id": key["id"]}
    for name, row in _insert_rows(opened, world.get("rows", {}), known):
        known |= {name: row, f"{name}.text": str(row)}
    for name, spec in world.get("made", {}).items():
        id = _create_record(client, substitute(spec, known))
        known |= {name: id, f"{name}.text": str(id)}
    if rows := list(_build_record_rows(world, known)):
        place = DatabaseLocation(url="", path=opened.server.data / "hedgerow.db", timeout_s=60)
        with create_sync_engine(place).begin() as connection:
            connection.execute(insert(pipeline_records), rows)
    return known


def parse_created(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 201, response.text
    created: dict[str, Any] = response.json()
    return created


def _create_record(client: httpx.Client, spec: dict[str, Any]) -> int:
    """Create a record over HTTP from `base`, the fields of the request, `config` and `deleted`."""
    base = spec.pop("base")
    config, deleted = spec.pop("config", None), spec.pop("deleted", False)
    id: int = parse_created(client.post(f"{base}/", json=spec))["id"]
    if config is not None:
        response = client.put(f"{base}/{id}/config/", json=config)
        assert response.status_code == 200, response.text
    if deleted:
        assert client.delete(f"{base}/{id}/").status_code == 204
    return id


def _insert_rows(
    opened: RunningServer, specs: dict[str, Any], known: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Insert rows that no request can create: `{table, times, ...}`, by default in project `{a}`.
    In repeated rows `{n}` counts from 0."""
    if not specs:
        return
    place = DatabaseLocation(url="", path=opened.server.data / "hedgerow.db", timeout_s=60)
    with create_sync_engine(place).begin() as connection:
        for name, spec in specs.items():
            table = metadata.tables[spec["table"]]
            for n in range(spec.get("times", 1)):
                values = substitute(spec, {**known, "n": n})
                row = {"project_id": known["a"], **DEFAULTS.get(table.name, {}), **values}
                own = {key: _parse_column(key, each) for key, each in row.items() if key in table.c}
                created = connection.execute(insert(table), own).inserted_primary_key
                known[name] = created[0] if created else None
            yield name, known[name]


def _parse_column(column: str, value: Any) -> Any:
    is_time = column.endswith("_at") and isinstance(value, str)
    return datetime.fromisoformat(value) if is_time else value


def _build_record_rows(world: dict[str, Any], known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Build records to insert; `times` builds many, at increasing positions."""
    for spec in world.get("records", ()):
        values = {name: value for name, value in spec.items() if name not in ("project", "times")}
        for n in range(spec.get("times", 1)):
            yield {
                "project_id": known[spec["project"]],
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
                **values,
            }
