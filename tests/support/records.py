"""Pipeline records of a live service."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.support.live import LiveServer


@contextmanager
def delete_records_after(server: LiveServer, base: str) -> Iterator[httpx.Client]:
    """Yield a client, and delete the records at `base` afterwards."""
    with server.client() as client:
        yield client
        for record in client.get(base).json()["results"]:
            client.delete(f"{base}{record['id']}/")


def create_enabled_record(client: httpx.Client, base: str, plugin: int, **settings: Any) -> str:
    """Create an enabled record and return its path."""
    made = client.post(base, json={"plugin": plugin})
    assert made.status_code == 201, made.text
    path = f"{base}{made.json()['id']}/"
    configured = client.put(f"{path}config/", json=settings)
    assert configured.status_code == 200, configured.text
    assert client.patch(path, json={"enabled": True}).status_code == 200
    return path
