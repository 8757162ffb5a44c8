"""Members from outside: invites, roles that count at once, and the last owner."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from hedgerow.http.endpoint import endpoints_of
from hedgerow.http.routes import ENDPOINT_CLASSES
from hedgerow.projects.roles import BUILT_IN_ROLES
from hedgerow.projects.scopes import is_allowed
from tests.contract.api.operations import create_flag
from tests.contract.people.conftest import OWNER, PASSWORD, Service

MEMBERS = "/api/organizations/@current/members/"
# They compute something, and store nothing that others see.
READING_OPERATIONS = {
    "run_query",
    "cancel_query",
    "count_blast_radius",
    "preview_flag",
    "ask_what_if",
    "explain_flag",
    "explain_flags",
    "evaluate_flag",
    "preview_cohort",
}
FLAG = {"key": "joined", "filters": {"groups": [{"rollout_percentage": 100}]}}


def find_member(service: Service, email: str) -> dict[str, Any]:
    members = service.admin.get(MEMBERS, params={"limit": 1000}).json()["results"]
    found: dict[str, Any] = next(each for each in members if each["user"]["email"] == email)
    return found


def give_role(service: Service, email: str, **fields: Any) -> httpx.Response:
    return service.admin.patch(f"{MEMBERS}{find_member(service, email)['id']}/", json=fields)


def test_invite_works_once_and_fixes_email_and_roles(service: Service) -> None:
    invite = service.invite(project_roles={"1": "viewer"})
    assert service.admin.get("/api/organizations/@current/invites/").json()["results"][0] == {
        **invite,
        "link": None,
    }
    body = {"token": invite["link"], "first_name": "Bob", "password": PASSWORD}
    with service.browser() as browser:
        forged = {**body, "email": OWNER}
        assert browser.post("/api/signup/", json=forged).json()["code"] == "unknown_field"
        assert browser.post("/api/signup/", json={**body, "password": "short"}).status_code == 400
        assert browser.post("/api/signup/", json=body).status_code == 201
        assert browser.post("/api/signup/", json=body).json()["code"] == "invalid_token"
    member = find_member(service, invite["target_email"])
    assert (member["level"], member["project_roles"]) == (1, {"1": "viewer"})


def test_withdrawn_and_replaced_invites_are_refused(service: Service) -> None:
    first = service.invite()
    second = service.invite(target_email=first["target_email"])
    path = f"/api/organizations/@current/invites/{second['id']}/"
    assert service.admin.delete(path).status_code == 204
    for invite in (first, second):
        body = {"token": invite["link"], "first_name": "Bob", "password": PASSWORD}
        with service.browser() as browser:
            assert browser.post("/api/signup/", json=body).json()["code"] == "invalid_token"
    taken = {"target_email": OWNER.upper()}
    refused = service.admin.post("/api/organizations/@current/invites/", json=taken)
    assert (refused.status_code, refused.json()["code"]) == (400, "unique")


@pytest.mark.parametrize("is_removed", [True, False])
def test_invites_end_with_the_right_to_invite(service: Service, is_removed: bool) -> None:
    owner, email = service.join(level=15)
    invites = "/api/organizations/@current/invites/"
    target = {"target_email": f"{uuid4()}@example.com", "level": 15}
    invite = owner.post(invites, json=target).json()
    kept = service.invite()
    path = f"/api/organizations/@current/members/{find_member(service, email)['user']['uuid']}/"
    if is_removed:
        assert service.admin.delete(path).status_code == 204
    else:
        assert service.admin.patch(path, json={"level": 1}).status_code == 200
    for each, code in ((invite, "invalid_token"), (kept, None)):
        body = {"token": each["link"], "first_name": "Bob", "password": PASSWORD}
        with service.browser() as browser:
            assert browser.post("/api/signup/", json=body).json().get("code") == code


def test_only_owners_annotate_the_organization(service: Service) -> None:
    browser, _ = service.join(project_roles={"1": "admin"})
    path = "/api/projects/1/annotations/"
    common = {"content": "x", "date_marker": "2026-01-01T00:00:00Z", "scope": "organization"}
    own = browser.post(path, json={**common, "scope": "project"})
    assert own.status_code == 201, own.text
    for response in (
        browser.post(path, json=common),
        browser.patch(f"{path}{own.json()['id']}/", json={"scope": "organization"}),
    ):
        assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
    assert service.admin.post(path, json=common).status_code == 201


def test_role_counts_at_once_for_sessions_and_keys(service: Service) -> None:
    browser, email = service.join(project_roles={"1": "viewer"})
    body = {"label": "mine", "scopes": ["*"]}
    key = browser.post("/api/personal_api_keys/", json=body).json()
    headers = {"Authorization": f"Bearer {key['value']}"}
    with httpx.Client(base_url=service.server.address, headers=headers, verify=False) as program:
        for caller in (browser, program):
            assert caller.get("/api/projects/1/feature_flags/").status_code == 200
            refused = caller.post("/api/projects/1/feature_flags/", json=FLAG)
            assert refused.status_code == 403
            assert "Viewer" in refused.json()["detail"]
        give_role(service, email, project_roles={"1": "editor"})
        for number, caller in enumerate((browser, program)):
            flag = {**FLAG, "key": f"joined-{number}"}
            assert caller.post("/api/projects/1/feature_flags/", json=flag).status_code == 201
            assert caller.get("/api/projects/1/activity_log/").status_code == 403
        give_role(service, email, project_roles={})
        for caller in (browser, program):
            assert caller.get("/api/projects/1/feature_flags/").status_code == 403
            assert caller.get("/api/projects/").json()["count"] == 0
            assert caller.get("/api/projects/@current/feature_flags/").status_code == 404
        definitions = program.get("/api/feature_flag/local_evaluation/")
        assert definitions.status_code in (403, 404)
        gone = service.admin.delete(f"{MEMBERS}{find_member(service, email)['id']}/")
        assert gone.status_code == 204
        for caller in (browser, program):
            assert caller.get("/api/users/@me/").status_code == 401


def test_activity_names_the_person(service: Service) -> None:
    browser, email = service.join(project_roles={"1": "admin"})
    create_flag(browser, 1)
    newest = service.admin.get("/api/projects/1/activity_log/").json()["results"][0]
    assert newest["user"] == {"first_name": "Bob", "email": email}


def test_member_reaches_no_other_project_and_nothing_of_the_organization(
    service: Service,
) -> None:
    other = service.admin.post("/api/projects/", json={"name": "Other"}).json()["id"]
    browser, _ = service.join(project_roles={"1": "admin"})
    member = browser.get(f"{MEMBERS}@me/").json()
    for method, path, body in (
        ("GET", f"/api/projects/{other}/", None),
        ("GET", f"/api/environments/{other}/feature_flags/", None),
        ("DELETE", f"/api/projects/{other}/", None),
        ("POST", "/api/projects/", {}),
        ("GET", "/api/project_deletions/", None),
        ("GET", "/api/organizations/@current/activity_log/", None),
        ("GET", "/api/organizations/@current/invites/", None),
        ("POST", "/api/organizations/@current/invites/", {"target_email": "x@example.com"}),
        ("POST", "/api/organizations/@current/roles/", {"name": "x", "scopes": ["query:read"]}),
        ("PATCH", f"{MEMBERS}{member['id']}/", {"level": 15}),
        ("PATCH", f"{MEMBERS}@me/", {"project_roles": {str(other): "admin"}}),
        ("DELETE", f"{MEMBERS}{find_member(service, OWNER)['id']}/", None),
        ("GET", f"{MEMBERS}{find_member(service, OWNER)['id']}/sessions/", None),
        ("DELETE", f"{MEMBERS}{find_member(service, OWNER)['id']}/sessions/", None),
    ):
        response = browser.request(method, path, json=body)
        assert response.status_code == 403, f"{method} {path}: {response.text}"
    assert [each["id"] for each in browser.get("/api/projects/").json()["results"]] == [1]
    limited = {"label": "x", "scopes": ["*"], "scoped_teams": [other]}
    assert browser.post("/api/personal_api_keys/", json=limited).status_code == 400
    owners_key = service.admin.get("/api/personal_api_keys/@current/").json()["id"]
    assert browser.get("/api/personal_api_keys/").json() == []
    assert browser.get(f"/api/personal_api_keys/{owners_key}/").status_code == 404
    assert browser.delete(f"/api/personal_api_keys/{owners_key}/").status_code == 404


def test_member_list_reveals_no_role_in_unseen_projects(service: Service) -> None:
    other = service.admin.post("/api/projects/", json={"name": "Elsewhere"}).json()["id"]
    both = {"1": "viewer", str(other): "admin"}
    _, bob = service.join(project_roles=both)
    ann, _ = service.join(project_roles={"1": "editor"})
    assert find_member(service, bob)["project_roles"] == both
    path = f"{MEMBERS}{find_member(service, bob)['id']}/"
    assert service.admin.get(path).json()["scopes"].keys() == both.keys()
    body = {"label": "limited", "scopes": ["organization_member:read"], "scoped_teams": [1]}
    key = service.admin.post("/api/personal_api_keys/", json=body).json()["value"]
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=service.server.address, headers=headers, verify=False) as limited:
        for reader in (limited, ann):
            member = reader.get(path).json()
            assert member["project_roles"] == {"1": "viewer"}
            assert member["scopes"].keys() == {"1"}
            listed = reader.get(MEMBERS, params={"search": bob}).json()["results"]
            assert [each["project_roles"] for each in listed] == [{"1": "viewer"}]
        own = limited.get(f"{MEMBERS}@me/").json()
        assert own["scopes"].keys() == {"1"}


def test_viewer_changes_nothing() -> None:
    """Every operation that changes something needs a scope that a viewer lacks."""
    viewer = BUILT_IN_ROLES["viewer"].scopes
    allowed = {
        each.name
        for handler in ENDPOINT_CLASSES
        for each in endpoints_of(handler)
        if each.method != "GET" and each.access is not None and each.access.is_in_project
        if is_allowed(viewer, each.access.scope)
    }
    assert allowed == READING_OPERATIONS


def test_owner_sees_and_revokes_keys_of_others_but_does_not_use_them(service: Service) -> None:
    browser, _ = service.join(project_roles={"1": "viewer"})
    body = {"label": "of bob", "scopes": ["*"]}
    key = browser.post("/api/personal_api_keys/", json=body).json()
    path = f"/api/personal_api_keys/{key['id']}/"
    assert service.admin.get(path).json()["label"] == "of bob"
    assert service.admin.post(f"{path}roll/").status_code == 403
    assert service.admin.patch(path, json={"label": "mine"}).status_code == 403
    assert service.admin.delete(path).status_code == 204


def test_last_owner_stays(service: Service) -> None:
    owner = find_member(service, OWNER)["id"]
    for response in (
        service.admin.patch(f"{MEMBERS}{owner}/", json={"level": 1}),
        service.admin.delete(f"{MEMBERS}{owner}/"),
    ):
        assert (response.status_code, response.json()["code"]) == (400, "last_owner")
    _, email = service.join(level=15)
    assert give_role(service, email, level=1).status_code == 200


def test_custom_role_is_a_set_of_scopes(service: Service) -> None:
    roles = "/api/organizations/@current/roles/"
    created = service.admin.post(roles, json={"name": "Surveyor", "scopes": ["survey:write"]})
    assert created.status_code == 201
    role = created.json()["id"]
    browser, email = service.join(project_roles={"1": role})
    assert browser.get("/api/projects/1/surveys/").status_code == 200
    assert browser.get("/api/projects/1/feature_flags/").status_code == 403
    service.admin.patch(f"{roles}{role}/", json={"scopes": ["feature_flag:read"]})
    assert browser.get("/api/projects/1/surveys/").status_code == 403
    assert browser.get("/api/projects/1/feature_flags/").status_code == 200
    assert service.admin.delete(f"{roles}{role}/").status_code == 409
    give_role(service, email, project_roles={})
    assert service.admin.delete(f"{roles}{role}/").status_code == 204
    assert service.admin.delete(f"{roles}viewer/").status_code == 403


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"project_roles": {"1": "king"}}, "does_not_exist"),
        ({"project_roles": {"99999": "viewer"}}, "does_not_exist"),
        ({"project_roles": {"one": "viewer"}}, "invalid_input"),
        ({"project_roles": {"9" * 40: "viewer"}}, "invalid_input"),
        ({"level": 8}, "invalid_choice"),
        ({"levle": 15}, "unknown_field"),
        ({"target_email": "no mail"}, "invalid_input"),
    ],
)
def test_invalid_invites_are_refused_by_name(
    service: Service, fields: dict[str, Any], code: str
) -> None:
    body = {"target_email": "y@example.com", **fields}
    response = service.admin.post("/api/organizations/@current/invites/", json=body)
    assert (response.status_code, response.json()["code"]) == (400, code)
