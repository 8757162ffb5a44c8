"""A separate project per test on a shared server, and the data that clients sent to it."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.live import wait_for

EVERYBODY = {"properties": [], "rollout_percentage": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    admin: httpx.Client
    id: int
    token: str

    def create(self, path: str, **body: Any) -> dict[str, Any]:
        response = self.admin.post(f"{self._base}/{path}/", json=body)
        assert response.status_code == 201, response.text
        found: dict[str, Any] = response.json()
        return found

    def create_flag(self, key: str, **filters: Any) -> None:
        self.create("feature_flags", key=key, filters={"groups": [EVERYBODY], **filters})

    def update(self, action: str, **body: Any) -> dict[str, Any]:
        response = self.admin.patch(f"{self._base}/{action}/", json=body)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    def set_person_properties(self, id: str, **properties: Any) -> None:
        """Set properties of a person with an event."""
        event = {"event": "$set", "distinct_id": id, "$set": properties}
        response = self.admin.post("/capture/", json={"api_key": self.token, **event})
        assert response.status_code == 200, response.text

    def events(self, **params: str) -> list[dict[str, Any]]:
        return self._results("events", limit="1000", **params)

    def wait_for_event(self, id: str, name: str) -> dict[str, Any]:
        """Wait for the only event of that name."""
        wait_for(lambda: bool(self.events(distinct_id=id, event=name)), at_most_s=60)
        [found] = self.events(distinct_id=id, event=name)
        return found

    def numbers(self, id: str) -> list[int]:
        """Return the numbers of the stored events of a test."""
        found = self.events(distinct_id=id, event="numbered")
        return sorted(event["properties"]["n"] for event in found)

    def person(self, id: str) -> dict[str, Any]:
        [found] = self._results("persons", distinct_id=id)
        return found

    def group_sizes(self) -> dict[str, Any]:
        found = self._results("groups", group_type_index="0")
        return {each["group_key"]: each["group_properties"].get("size") for each in found}

    def evaluate_flags(self, id: str) -> dict[str, Any]:
        body = {"api_key": self.token, "distinct_id": id}
        found: dict[str, Any] = self.admin.post("/decide?v=3", json=body).json()["featureFlags"]
        return found

    def _results(self, path: str, **params: str) -> list[dict[str, Any]]:
        response = self.admin.get(f"{self._base}/{path}/", params=params)
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["results"]
        return found

    @property
    def _base(self) -> str:
        return f"/api/projects/{self.id}"


def new_project(admin: httpx.Client) -> Project:
    created = admin.post("/api/projects/", json={"name": "Of a test"}).json()
    return Project(admin=admin, id=created["id"], token=created["api_token"])
