"""What the tests of /decide share: flags, questions, rows written past the service."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Table, insert

from hedgerow.projects.model import ProjectId
from hedgerow.storage import generations
from hedgerow.storage.connect import Place, plain_engine
from hedgerow.storage.flags import topic_of
from tests.contract.api.world import DEFAULTS
from tests.live import PROJECT_KEY, LiveServer

BASE = "/api/projects/1/feature_flags/"
FIRST_PROJECT = ProjectId(1)

Filters = dict[str, Any]


def person(key: str, value: Any, operator: str = "exact", **more: Any) -> dict[str, Any]:
    return {"key": key, "value": value, "operator": operator, "type": "person", **more}


def needs(id: object, value: Any = True) -> dict[str, Any]:
    return person(str(id), value, "flag_evaluates_to", type="flag")


def one(*properties: dict[str, Any], share: float = 100, **more: Any) -> Filters:
    return {"groups": [{"properties": properties, "rollout_percentage": share}], **more}


def made(client: httpx.Client, key: str, filters: Filters, **fields: Any) -> int:
    answer = client.post(BASE, json={"key": key, "filters": filters, **fields})
    assert answer.status_code == 201, answer.text
    id: int = answer.json()["id"]
    return id


def asked(client: httpx.Client, distinct_id: Any = "somebody", **body: Any) -> dict[str, Any]:
    """What v=3 answers."""
    sent = json.dumps({"api_key": PROJECT_KEY, "distinct_id": distinct_id, **body})
    answer = client.post("/decide?v=3", content=sent)
    assert answer.status_code == 200, answer.text
    decided: dict[str, Any] = answer.json()
    return decided


def place_of(key: str, identifier: str) -> float:
    digest = hashlib.sha1(f"{key}.{identifier}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:15], 16) / 2.0**60


def write(data: Path, table: Table, rows: Sequence[Mapping[str, Any]], url: str = "") -> None:
    """Straight into the first project's tables; a running server sees it soon."""
    defaults = {"project_id": FIRST_PROJECT, **DEFAULTS[table.name]}
    engine = plain_engine(Place(url=url, path=data / "hedgerow.db", timeout_s=5))
    with engine.begin() as connection:
        connection.execute(insert(table), [{**defaults, **row} for row in rows])
        generations.advance(connection, topic_of(FIRST_PROJECT))
    engine.dispose()


def milliseconds(server: LiveServer) -> list[float]:
    """How long each decision took, by the log of a server that has stopped."""
    return [line["ms"] for line in server.request_lines if line["route"] == "/decide"]


def assert_unharmed(server: LiveServer) -> None:
    assert "Traceback" not in server.errors
    assert '"level":"error"' not in server.errors.replace(" ", "")
