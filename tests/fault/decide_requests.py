"""Helpers for tests of /decide: flags, requests, rows written directly to the database."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Table, insert

from hedgerow.projects.model import ProjectId
from hedgerow.storage.connect import DatabaseLocation, create_sync_engine
from hedgerow.storage.engine import generations
from hedgerow.storage.flags.flags import flag_topic
from tests.contract.api.world import DEFAULTS
from tests.support.live import PROJECT_KEY, LiveServer

BASE = "/api/projects/1/feature_flags/"
FIRST_PROJECT = ProjectId(1)

Filters = dict[str, Any]


def build_person_filter(
    key: str, value: Any, operator: str = "exact", **more: Any
) -> dict[str, Any]:
    return {"key": key, "value": value, "operator": operator, "type": "person", **more}


def build_flag_filter(id: object, value: Any = True) -> dict[str, Any]:
    return build_person_filter(str(id), value, "flag_evaluates_to", type="flag")


def build_filters(*properties: dict[str, Any], share: float = 100, **more: Any) -> Filters:
    return {"groups": [{"properties": properties, "rollout_percentage": share}], **more}


def create_flag(client: httpx.Client, key: str, filters: Filters, **fields: Any) -> int:
    answer = client.post(BASE, json={"key": key, "filters": filters, **fields})
    assert answer.status_code == 201, answer.text
    id: int = answer.json()["id"]
    return id


def decide(client: httpx.Client, distinct_id: Any = "user", **body: Any) -> dict[str, Any]:
    """Return the response of /decide?v=3."""
    sent = json.dumps({"api_key": PROJECT_KEY, "distinct_id": distinct_id, **body})
    answer = client.post("/decide?v=3", content=sent)
    assert answer.status_code == 200, answer.text
    decided: dict[str, Any] = answer.json()
    return decided


def get_bucket_position(key: str, identifier: str) -> float:
    digest = hashlib.sha1(f"{key}.{identifier}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:15], 16) / 2.0**60


def write_rows(data: Path, table: Table, rows: Sequence[Mapping[str, Any]], url: str = "") -> None:
    """Write rows directly to the database; a running server sees them soon."""
    defaults = {"project_id": FIRST_PROJECT, **DEFAULTS[table.name]}
    engine = create_sync_engine(DatabaseLocation(url=url, path=data / "hedgerow.db", timeout_s=5))
    with engine.begin() as connection:
        connection.execute(insert(table), [{**defaults, **row} for row in rows])
        generations.advance(connection, flag_topic(FIRST_PROJECT))
    engine.dispose()


def read_durations_ms(server: LiveServer) -> list[float]:
    """Return the duration of each decision, from the log of a stopped server."""
    return [line["ms"] for line in server.request_lines if line["route"] == "/decide"]


def assert_unharmed(server: LiveServer) -> None:
    assert "Traceback" not in server.errors
    assert '"level":"error"' not in server.errors.replace(" ", "")
