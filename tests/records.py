"""Pipeline records of a live service, for tests that let them work."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.live import LiveServer


@contextmanager
def tidied(server: LiveServer, base: str) -> Iterator[httpx.Client]:
    """A client after which the records at `base` are gone."""
    with server.client() as client:
        yield client
        for record in client.get(base).json()["results"]:
            client.delete(f"{base}{record['id']}/")


def enabled_record(client: httpx.Client, base: str, plugin: int, **settings: Any) -> str:
    """The path of a new one."""
    made = client.post(base, json={"plugin": plugin})
    assert made.status_code == 201, made.text
    path = f"{base}{made.json()['id']}/"
    settled = client.put(f"{path}config/", json=settings)
    assert settled.status_code == 200, settled.text
    assert client.patch(path, json={"enabled": True}).status_code == 200
    return path
