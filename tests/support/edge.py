"""`hedgerow edge`, and an origin for it."""

import re
from pathlib import Path
from typing import Any

import httpx

from tests.support.live import Installation, LiveProcess, LiveServer, find_free_port

FLAGS: list[dict[str, Any]] = [
    {"key": "all", "filters": {"groups": [{"properties": [], "rollout_percentage": 100}]}},
    {"key": "half", "filters": {"groups": [{"properties": [], "rollout_percentage": 50}]}},
    {
        "key": "pro",
        "filters": {
            "groups": [{"properties": [{"key": "plan", "value": "pro", "type": "person"}]}],
            "payloads": {"true": '{"limit": 5}'},
        },
    },
    {
        "key": "variants",
        "filters": {
            "groups": [{"properties": [], "rollout_percentage": 100}],
            "multivariate": {
                "variants": [
                    {"key": "red", "rollout_percentage": 40},
                    {"key": "blue", "rollout_percentage": 60},
                ]
            },
        },
    },
    {
        "key": "remote",
        "is_remote_configuration": True,
        "filters": {"groups": [{"properties": []}], "payloads": {"true": '{"color": "red"}'}},
    },
]


class LiveEdge(LiveProcess):
    READY = r"edge is ready at \S+\n"

    def __init__(self, data: Path, origin: str, *keys: str, port: str = "0", **more: str) -> None:
        settings = {"edge_keys": ",".join(keys), "edge_poll_interval_s": "1", **more}
        settings["edge_forward_timeout_s"] = more.get("edge_forward_timeout_s", "20")
        super().__init__(data, "edge", "--from", origin, "--port", port, **settings)

    @property
    def address(self) -> str:
        found = re.search(r"is ready at (\S+)", self.output)
        assert found is not None, self.errors
        return found[1]


class Origin:
    """A service on a fixed port, with two projects, their secret keys and flags."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.port = find_free_port()
        self.server = self.start()
        with self.server.client() as client:
            self.secret = rotate_secret(client, 1)
            second = client.post("/api/projects/", json={"name": "second"}).json()
            self.second_id = second["id"]
            self.second_token = second["api_token"]
            self.second_secret = rotate_secret(client, self.second_id)
            for flag in FLAGS:
                create_flag(client, 1, flag)
            create_flag(client, self.second_id, {**FLAGS[0], "key": "other"})

    def start(self) -> LiveServer:
        self.server = self._installation.server(port=self.port).wait_ready()
        return self.server

    def start_elsewhere(self) -> LiveServer:
        """Start on another port, where no edge process finds it."""
        self.server = self._installation.server().wait_ready()
        return self.server

    def rotate(self, client: httpx.Client) -> None:
        self.secret = rotate_secret(client, 1)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def rotate_secret(client: httpx.Client, id: int) -> str:
    answer = client.patch(f"/api/projects/{id}/rotate_secret_token/")
    assert answer.status_code == 200, answer.text
    secret: str = answer.json()["secret_api_token"]
    return secret


def create_flag(client: httpx.Client, project: int, flag: dict[str, Any]) -> int:
    answer = client.post(
        f"/api/projects/{project}/feature_flags/", json={"name": "", "active": True, **flag}
    )
    assert answer.status_code == 201, answer.text
    id: int = answer.json()["id"]
    return id


def query(origin: Origin, sql: str) -> list[list[Any]]:
    """Return the rows of a HogQL query in the first project, after all events are processed."""
    with origin.server.client() as client:
        body = {"query": {"kind": "HogQLQuery", "query": f"{sql} LIMIT 50000"}}
        answer = client.post("/api/projects/1/query/", json=body)
        assert answer.status_code == 200, answer.text
        rows: list[list[Any]] = answer.json()["results"]
        return rows
