"""A project of a test's own on a server that others share, and what clients have left in it."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.live import seconds_until

EVERYBODY = {"properties": [], "rollout_percentage": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    admin: httpx.Client
    id: int
    token: str

    def makes(self, path: str, **body: Any) -> dict[str, Any]:
        answer = self.admin.post(f"{self._base}/{path}/", json=body)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def makes_flag(self, key: str, **filters: Any) -> None:
        self.makes("feature_flags", key=key, filters={"groups": [EVERYBODY], **filters})

    def does(self, action: str, **body: Any) -> dict[str, Any]:
        answer = self.admin.patch(f"{self._base}/{action}/", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def sets(self, id: str, **properties: Any) -> None:
        """Properties of a person, by an event."""
        event = {"event": "$set", "distinct_id": id, "$set": properties}
        answer = self.admin.post("/capture/", json={"api_key": self.token, **event})
        assert answer.status_code == 200, answer.text

    def events(self, **asked: str) -> list[dict[str, Any]]:
        return self._results("events", limit="1000", **asked)

    def event(self, id: str, name: str) -> dict[str, Any]:
        """The one event of that name, once it is there."""
        seconds_until(lambda: bool(self.events(distinct_id=id, event=name)), at_most_s=60)
        [found] = self.events(distinct_id=id, event=name)
        return found

    def numbers(self, id: str) -> list[int]:
        """What arrived of events that a test has numbered."""
        found = self.events(distinct_id=id, event="numbered")
        return sorted(event["properties"]["n"] for event in found)

    def person(self, id: str) -> dict[str, Any]:
        [found] = self._results("persons", distinct_id=id)
        return found

    def group_sizes(self) -> dict[str, Any]:
        found = self._results("groups", group_type_index="0")
        return {each["group_key"]: each["group_properties"].get("size") for each in found}

    def decided(self, id: str) -> dict[str, Any]:
        body = {"api_key": self.token, "distinct_id": id}
        found: dict[str, Any] = self.admin.post("/decide?v=3", json=body).json()["featureFlags"]
        return found

    def _results(self, path: str, **asked: str) -> list[dict[str, Any]]:
        answer = self.admin.get(f"{self._base}/{path}/", params=asked)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["results"]
        return found

    @property
    def _base(self) -> str:
        return f"/api/projects/{self.id}"


def new_project(admin: httpx.Client) -> Project:
    made = admin.post("/api/projects/", json={"name": "Of a test"}).json()
    return Project(admin=admin, id=made["id"], token=made["api_token"])
