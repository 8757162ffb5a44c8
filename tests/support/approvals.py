"""People and projects for tests of approvals."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

import httpx

from tests.support.live import PERSONAL_KEY, Installation, wait_for

MEMBERS = "/api/organizations/@current/members/"
PASSWORD = "correct horse battery"
ALL = {"groups": [{"properties": [], "rollout_percentage": 100}]}
HALF = {"groups": [{"properties": [], "rollout_percentage": 37}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A person with two keys."""

    member_id: str
    key: str
    other_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Two processes, or one twice."""

    one: httpx.Client
    two: httpx.Client
    installation: Installation
    people: dict[str, Member] = field(default_factory=dict)
    projects: list[int] = field(default_factory=list)

    def join(self, name: str) -> None:
        email = f"{name}@example.com"
        invited = self.one.post(
            "/api/organizations/@current/invites/", json={"target_email": email}
        )
        assert invited.status_code == 201, invited.text
        body = {"token": invited.json()["link"], "first_name": name, "password": PASSWORD}
        headers = {"Sec-Fetch-Site": "same-origin"}
        with httpx.Client(
            base_url=self.one.base_url, headers=headers, timeout=120, verify=False
        ) as browser:
            assert browser.post("/api/signup/", json=body).status_code == 201
            keys = [
                browser.post("/api/personal_api_keys/", json={"label": label, "scopes": ["*"]})
                for label in ("laptop", "script")
            ]
        members = self.one.get(MEMBERS, params={"limit": 100}).json()["results"]
        [id] = [each["id"] for each in members if each["user"]["email"] == email]
        key, other_key = (each.json()["value"] for each in keys)
        self.people[name] = Member(member_id=id, key=key, other_key=other_key)

    def make_project(self) -> int:
        made = self.one.post("/api/projects/", json={"name": f"p {uuid4()}"})
        assert made.status_code == 201, made.text
        id: int = made.json()["id"]
        self.projects.append(id)
        for name, person in self.people.items():
            role = "admin" if name == "adm" else "editor"
            roles = {"project_roles": {str(each): role for each in self.projects}}
            given = self.one.patch(f"{MEMBERS}{person.member_id}/", json=roles)
            assert given.is_success, given.text
            wait_for(partial(self._is_readable, id, person.key), at_most_s=60)
        return id

    def _is_readable(self, project: int, key: str) -> bool:
        """The other process reads a new role a moment later."""
        headers = {"Authorization": f"Bearer {key}"}
        return self.two.get(f"/api/projects/{project}/change_requests/", headers=headers).is_success


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project in which a policy holds, seen by an owner and by editors."""

    world: World
    id: int

    @property
    def ann(self) -> str:
        return self.world.people["ann"].key

    @property
    def ann_again(self) -> str:
        return self.world.people["ann"].other_key

    @property
    def bob(self) -> str:
        return self.world.people["bob"].key

    def ask(self, method: str, path: str, key: str = PERSONAL_KEY, **more: Any) -> httpx.Response:
        client: httpx.Client = more.pop("client", self.world.one)
        headers = {"Authorization": f"Bearer {key}", **more.pop("headers", {})}
        return client.request(method, f"/api/projects/{self.id}/{path}", headers=headers, **more)

    def make_flag(self, key: str = "pay", **fields: Any) -> int:
        body = {"key": key, "filters": HALF, **fields}
        made = self.ask("POST", "feature_flags/", json=body)
        assert made.status_code == 201, made.text
        id: int = made.json()["id"]
        return id

    def protect(self, **fields: Any) -> str:
        body = {"action_key": "feature_flag.*", "approver_config": {"quorum": 1}, **fields}
        made = self.ask("POST", "approval_policies/", json=body)
        assert made.status_code == 201, made.text
        id: str = made.json()["id"]
        return id

    def read_flag(self, id: int) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"feature_flags/{id}/").json()
        return found

    def request(self, id: int, key: str, **fields: Any) -> str:
        """Ask for a change, and return the change request."""
        refused = self.ask("PATCH", f"feature_flags/{id}/", key, json=fields)
        assert refused.status_code == 409, refused.text
        assert refused.json()["code"] == "approval_required"
        made: str = refused.json()["change_request_id"]
        return made

    def decide(self, request: str, action: str, key: str, **more: Any) -> httpx.Response:
        body = {"reason": "why not"} if action != "cancel" else None
        return self.ask("POST", f"change_requests/{request}/{action}/", key, json=body, **more)

    def show(self, request: str, key: str = PERSONAL_KEY) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"change_requests/{request}/", key).json()
        return found
