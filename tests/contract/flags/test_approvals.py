"""Approvals from outside: nothing that changes a gated flag passes the gate by, the author never
counts, and a request is applied once. On PostgreSQL two processes serve the requests."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.approvals import ALL, HALF, Project
from tests.support.live import PERSONAL_KEY, run_concurrently, wait_for

# Where the database makes no difference.
on_sqlite = pytest.mark.parametrize("world", ["sqlite"], indirect=True)


def test_request_is_approved_by_another_person_and_applied(project: Project) -> None:
    flag = project.make_flag(tags=["live"])
    project.protect(conditions={"tags": ["live"]})
    refused = project.ask("PATCH", f"feature_flags/{flag}/", project.ann, json={"filters": ALL})
    body = refused.json()
    assert (refused.status_code, body["code"], body["status"]) == (
        409,
        "approval_required",
        "approval_required",
    )
    assert "1 approval by another person who may change flags" in body["detail"]
    request = body["change_request_id"]
    assert body["change_request"]["intent"]["gated_changes"] == {"filters": ALL}
    assert body["change_request"]["intent_display"]["before"]["filters"]["groups"] == HALF["groups"]
    assert body["change_request"]["what_if"]["evaluated_persons"] == 0
    again = project.ask("PATCH", f"feature_flags/{flag}/", project.ann, json={"filters": ALL})
    assert (again.json()["code"], again.json()["change_request_id"]) == (
        "change_request_pending",
        request,
    )
    # The author does not count, with whichever key, and neither does a person without the role.
    for key in (project.ann, project.ann_again):
        own = project.decide(request, "approve", key)
        assert (own.status_code, project.show(request, key)["can_approve"]) == (403, False)
    assert project.read_flag(flag)["filters"]["groups"] == HALF["groups"]
    assert project.show(request, project.bob)["can_approve"] is True
    comment = {"content": "Are we sure?"}
    said = project.ask("POST", f"change_requests/{request}/comments/", project.bob, json=comment)
    assert said.json()["comments"][0]["content"] == "Are we sure?"
    done = project.decide(request, "approve", project.bob)
    assert (done.status_code, done.json()["status"]) == (200, "applied"), done.text
    changed = project.read_flag(flag)
    assert (changed["filters"]["groups"], changed["version"]) == (ALL["groups"], 2)
    assert project.decide(request, "approve", project.bob).status_code == 409
    entries = project.ask("GET", f"change_requests/{request}/activity/").json()["results"]
    assert [each["activity"] for each in entries] == ["applied", "approved", "commented", "created"]
    newest = project.ask("GET", f"feature_flags/{flag}/activity/").json()["results"][0]
    assert newest["user"]["email"].startswith("ann@")
    assert newest["detail"]["trigger"] == {"job_type": "change_request", "job_id": request}
    # An untagged flag needs nothing.
    other = project.make_flag("free")
    assert project.ask(
        "PATCH", f"feature_flags/{other}/", project.ann, json={"active": False}
    ).is_success


def test_no_door_is_open(project: Project, tmp_path: Path) -> None:
    flag = project.make_flag()
    cohort = project.ask(
        "POST",
        "cohorts/",
        json={
            "name": "payers",
            "filters": {
                "properties": {
                    "type": "AND",
                    "values": [{"key": "plan", "value": "pro", "type": "person"}],
                }
            },
        },
    ).json()["id"]
    static = project.ask(
        "POST", "cohorts/", json={"name": "few", "is_static": True, "csv": "ann"}
    ).json()["id"]
    in_cohorts = {
        "groups": [
            {"properties": [{"key": "id", "type": "cohort", "value": each}]}
            for each in (cohort, static)
        ]
    }
    project.make_flag("by-cohort", filters=in_cohorts)
    gone = project.make_flag("gone")
    assert project.ask("DELETE", f"feature_flags/{gone}/").status_code == 204
    experiment = project.ask(
        "POST", "experiments/", json={"name": "x", "feature_flag_key": "tried"}
    )
    assert experiment.status_code == 201, experiment.text
    feature = project.ask("POST", "early_access_feature/", json={"name": "Early", "stage": "beta"})
    assert feature.status_code == 201, feature.text
    policy = project.protect()
    before = project.ask("GET", "feature_flags/?limit=100").json()["results"]
    survey = {"name": "s", "type": "popover", "questions": [{"type": "open", "question": "?"}]}
    doors: list[tuple[str, str, Any]] = [
        ("POST", "feature_flags/", {"key": "new", "filters": ALL}),
        ("PATCH", f"feature_flags/{flag}/", {"filters": ALL}),
        ("PATCH", f"feature_flags/{flag}/", {"name": "x", "version": 1}),
        ("PATCH", f"feature_flags/{flag}/", {"deleted": True}),
        ("PATCH", f"feature_flags/{flag}/", {"active": False}),
        ("PATCH", f"feature_flags/{flag}/", {"tags": ["x"]}),
        ("PATCH", f"feature_flags/{flag}/", {"key": "renamed"}),
        ("DELETE", f"feature_flags/{flag}/", None),
        ("PATCH", f"feature_flags/{gone}/", {"deleted": False}),
        ("PATCH", f"cohorts/{cohort}/", {"filters": {"properties": {"type": "OR", "values": []}}}),
        ("PATCH", f"cohorts/{static}/", {"csv": "bob"}),
        ("PATCH", f"experiments/{experiment.json()['id']}/", {"start_date": "2026-01-01"}),
        ("POST", "experiments/", {"name": "y", "feature_flag_key": "tried-2"}),
        ("PATCH", f"early_access_feature/{feature.json()['id']}/", {"stage": "archived"}),
        ("POST", "early_access_feature/", {"name": "More", "stage": "beta"}),
        ("DELETE", f"early_access_feature/{feature.json()['id']}/", None),
        ("POST", "surveys/", survey),
        ("PATCH", f"approval_policies/{policy}/", {"enabled": False}),
        ("PATCH", f"approval_policies/{policy}/", {"conditions": {"tags": ["other"]}}),
        ("DELETE", f"approval_policies/{policy}/", None),
    ]
    for method, path, body in doors:
        for key in (project.ann, PERSONAL_KEY):  # owners are not exempt
            if path.startswith("approval_policies") and key != PERSONAL_KEY:
                continue  # editors cannot change policies at all
            refused = project.ask(method, path, key, json=body)
            assert refused.status_code == 409, (method, path, refused.status_code, refused.text)
            assert refused.json()["code"] in ("approval_required", "change_request_pending")
    # The command line has the database, and is gated too.
    file = tmp_path / "flags.yaml"
    file.write_text(json.dumps({"flags": {"pay": {"filters": ALL}}}))
    exported = project.world.installation.run_in_process(
        "flags", "export", "--project", str(project.id), "--output", str(file)
    )
    assert exported.returncode == 0, exported.stderr
    file.write_text(file.read_text().replace("rollout_percentage: 37", "rollout_percentage: 99"))
    apply = ("flags", "apply", str(file), "--yes", "--project", str(project.id))
    done = project.world.installation.run_in_process(*apply)
    assert done.returncode == 1
    assert "requires approval" in done.stderr
    assert project.ask("GET", "feature_flags/?limit=100").json()["results"] == before
    # The importer calls the API.
    export = tmp_path / "unleash.json"
    features = [{"name": "from-unleash", "type": "release", "enabled": True, "strategies": []}]
    export.write_text(json.dumps({"version": 1, "features": features}))
    project.world.installation.run_in_process(
        "import", "unleash", str(export), "--yes", "--target-project", str(project.id),
        "--server", str(project.world.one.base_url), "--key", project.ann,
    )  # fmt: skip
    assert project.ask("GET", "feature_flags/?limit=100").json()["results"] == before
    broken = project.world.installation.run_in_process(*apply, "--break-glass", "site is down")
    assert broken.returncode == 0, broken.stderr
    assert project.read_flag(flag)["filters"]["groups"][0]["rollout_percentage"] == 99
    entries = project.ask("GET", f"feature_flags/{flag}/activity/").json()["results"]
    [entry] = [each for each in entries if each["activity"] == "break_glass"]
    assert entry["detail"]["reason"] == "site is down"


PRODUCTS = "/api/organizations/@current/products/"


def test_protected_environment_needs_approval_without_a_policy(
    project: Project, tmp_path: Path
) -> None:
    world = project.world
    source = Project(world=world, id=world.one.post("/api/projects/", json={}).json()["id"])
    source.make_flag(filters=ALL)
    flag = project.make_flag()
    name = f"Shop {uuid4()}"
    environments = [
        {"name": "dev", "project_id": source.id},
        {"name": "live", "project_id": project.id, "is_protected": True},
    ]
    made = world.one.post(PRODUCTS, json={"name": name, "environments": environments})
    assert made.status_code == 201, made.text
    product = f"{PRODUCTS}{made.json()['id']}/"
    before = project.read_flag(flag)
    promotion = {"from": "dev", "to": "live", "flags": ["pay"]}
    copy = {
        "feature_flag_key": "pay",
        "from_project": source.id,
        "target_project_ids": [project.id],
    }
    open_environments = [{**each, "is_protected": False} for each in environments]
    doors: list[tuple[str, str, Any]] = [
        ("POST", f"{product}promote/", promotion),
        ("PATCH", product, {"environments": open_environments}),
        ("PATCH", product, {"environments": environments[:1]}),
        ("DELETE", product, None),
        ("PATCH", f"/api/projects/{project.id}/feature_flags/{flag}/", {"filters": ALL}),
    ]
    for method, path, body in doors:
        refused = world.one.request(method, path, json=body)
        assert refused.status_code == 409, (method, path, refused.text)
        assert refused.json()["code"] in ("approval_required", "change_request_pending")
    copied = world.one.post("/api/organizations/@current/feature_flags/copy_flags/", json=copy)
    assert "requires approval" in copied.text
    commands = (
        ("environments", "promote", name, "dev", "live", "--flag", "pay", "--yes"),
        ("environments", "protect", name, "live", "--off"),
        ("environments", "remove", name, "--yes"),
    )
    for command in commands:
        done = world.installation.run_in_process(*command)
        assert done.returncode == 1, done.stdout
        assert "break" in done.stderr
    assert project.read_flag(flag) == before
    path = "change_requests/?resource_type=feature_flag"
    [pending] = project.ask("GET", path).json()["results"]
    approved = project.decide(pending["id"], "approve", project.bob)
    assert approved.is_success, approved.text
    assert project.read_flag(flag)["filters"] == before["filters"] | ALL
    # An editor of one project is no owner of all.
    editor = {"Authorization": f"Bearer {project.ann}", "X-Break-Glass": "in a hurry"}
    assert world.one.post(f"{product}promote/", json=promotion, headers=editor).status_code == 403
    broken = world.one.delete(product, headers={"X-Break-Glass": "the shop is closed"})
    assert broken.status_code == 204, broken.text


@on_sqlite
def test_scheduled_change_is_refused_when_its_time_comes(project: Project) -> None:
    flag = project.make_flag()
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    body = {
        "record_id": flag,
        "model_name": "FeatureFlag",
        "payload": {"operation": "update_status", "value": False},
        "scheduled_at": soon,
    }
    made = project.ask("POST", "scheduled_changes/", json=body)
    assert made.status_code == 201, made.text
    project.protect(action_key="feature_flag.disable")
    path = f"scheduled_changes/{made.json()['id']}/"
    wait_for(lambda: bool(project.ask("GET", path).json()["executed_at"]), at_most_s=60)
    assert "requires approval" in project.ask("GET", path).json()["failure_reason"]
    assert project.read_flag(flag)["active"] is True


@on_sqlite
def test_edit_before_the_approval_is_rebased_or_refuses_it(project: Project) -> None:
    flag = project.make_flag()
    project.protect(conditions={"fields": ["filters", "active"]})
    first = project.request(flag, project.ann, filters=ALL)
    second = project.request(flag, project.ann, active=False)
    third = project.request(flag, project.ann, filters={"groups": []})
    # Another field is not in the way; the same one is.
    assert project.ask("PATCH", f"feature_flags/{flag}/", json={"name": "Pay"}).is_success
    assert project.decide(first, "approve", project.bob).json()["status"] == "applied"
    assert project.decide(second, "approve", project.bob).json()["status"] == "applied"
    refused = project.decide(third, "approve", project.bob).json()
    assert (refused["status"], refused["change_request"]["state"]) == ("failed", "failed")
    assert "was changed since" in refused["change_request"]["apply_error"]
    found = project.read_flag(flag)
    assert (found["name"], found["active"]) == ("Pay", False)
    assert found["filters"]["groups"] == ALL["groups"]


def test_two_processes_apply_once_and_an_edit_can_race(project: Project) -> None:
    world = project.world
    flag = project.make_flag()
    project.protect(conditions={"fields": ["filters"]})
    carol = world.people["carol"].key
    request = project.request(flag, project.ann, filters=ALL)
    votes = [
        lambda key=key, client=client: project.decide(request, "approve", key, client=client)
        for key in (project.bob, carol)
        for client in (world.one, world.two)
    ]
    rename = {"name": "raced"}
    edit = lambda: project.ask("PATCH", f"feature_flags/{flag}/", json=rename, client=world.two)  # noqa: E731
    *answers, edited = run_concurrently([*votes, edit])
    assert edited.is_success
    assert sorted(each.status_code for each in answers) == [200, 409, 409, 409]
    found = project.read_flag(flag)
    assert (found["version"], found["name"]) == (3, "raced")
    assert found["filters"]["groups"] == ALL["groups"]
    entries = project.ask("GET", f"change_requests/{request}/activity/").json()["results"]
    assert [each["activity"] for each in entries].count("applied") == 1


@on_sqlite
def test_quorum_roles_rejection_withdrawal_and_break_glass(project: Project) -> None:
    world = project.world
    admin = world.people["adm"].key
    flag = project.make_flag()
    policy = project.protect(approver_config={"quorum": 2, "roles": ["admin"]})
    request = project.request(flag, project.ann, filters=ALL)
    refused = project.decide(request, "approve", project.bob)
    assert refused.status_code == 403
    assert "2 approvals by the role admin" in refused.json()["detail"]
    assert project.decide(request, "approve", admin).json()["status"] == "approved"
    again = project.decide(request, "approve", admin)
    assert (again.status_code, again.json()["code"]) == (409, "already_voted")
    # The owner has every role.
    assert project.decide(request, "approve", PERSONAL_KEY).json()["status"] == "applied"
    # A policy changes only with what it requires.
    loosened = project.ask("PATCH", f"approval_policies/{policy}/", admin, json={"enabled": False})
    own = loosened.json()["change_request_id"]
    assert project.decide(own, "approve", admin).status_code == 403
    assert project.decide(own, "approve", PERSONAL_KEY).json()["status"] == "approved"
    assert project.ask("GET", f"approval_policies/{policy}/").json()["enabled"] is True
    rejected = project.decide(own, "reject", project.bob)
    assert rejected.status_code == 403
    withdrawn = project.decide(own, "cancel", project.ann)
    assert withdrawn.status_code == 403
    assert project.decide(own, "cancel", admin).json()["status"] == "withdrawn"
    request = project.request(flag, project.ann, active=False)
    assert project.decide(request, "reject", admin).json()["status"] == "rejected"
    request = project.request(flag, project.ann, active=False)
    assert project.decide(request, "break_glass", project.bob).status_code == 403
    broken = project.decide(request, "break_glass", admin)
    assert broken.json()["status"] == "applied", broken.text
    assert project.read_flag(flag)["active"] is False
    # Any call can break the glass, of an administrator and with a reason.
    header = {"X-Break-Glass": "fire"}
    path = f"feature_flags/{flag}/"
    assert (
        project.ask("PATCH", path, project.bob, json={"active": True}, headers=header).status_code
        == 403
    )
    assert project.ask("PATCH", path, admin, json={"active": True}, headers=header).is_success
    assert project.ask("PATCH", path, admin, json={"active": False}).status_code == 409
    found = project.ask("GET", "feature_flags/activity/").json()["results"]
    reasons = [each["detail"].get("reason") for each in found if each["activity"] == "break_glass"]
    assert reasons == ["fire", "why not"]
    states = project.ask("GET", "change_requests/?state=pending,applied").json()["results"]
    assert {each["state"] for each in states} == {"pending", "applied"}


def test_policy_by_consequence_counts_persons(project: Project) -> None:
    token = project.world.one.get(f"/api/projects/{project.id}/").json()["api_token"]
    batch = [
        {
            "event": "seen",
            "distinct_id": f"user-{number}",
            "properties": {"$set": {"plan": "pro" if number % 10 == 0 else "free", "n": number}},
        }
        for number in range(200)
    ]
    sent = project.world.one.post("/batch", json={"api_key": token, "batch": batch})
    assert sent.status_code == 200
    paying = {"key": "plan", "value": "pro", "type": "person", "operator": "exact"}
    flag = project.make_flag(filters={"groups": [{"properties": [], "rollout_percentage": 0}]})
    project.protect(conditions={"changed_percent": 10, "properties": [paying]})
    path = f"feature_flags/{flag}/"
    # Waits until the persons are stored.
    assert project.ask("GET", "persons/?limit=1").json()["count"] == 200
    free = [{"properties": [{**paying, "value": "free"}], "rollout_percentage": 100}]
    assert project.ask("PATCH", path, project.ann, json={"filters": {"groups": free}}).is_success
    assert project.ask("PATCH", path, project.ann, json={"name": "neutral"}).is_success
    everyone = [{"properties": [], "rollout_percentage": 100}]
    refused = project.ask("PATCH", path, project.ann, json={"filters": {"groups": everyone}})
    assert refused.status_code == 409, refused.text
    assert (
        "more than 10 % of these persons get another value: it is 100 %" in refused.json()["detail"]
    )
    figures = refused.json()["change_request"]["what_if"]
    assert (figures["evaluated_persons"], figures["changed_persons"]) == (200, 20)
    request = refused.json()["change_request_id"]
    assert project.decide(request, "approve", project.bob).json()["status"] == "applied"

    # Small changes count together until one is approved.
    def ask_from(number: int) -> Any:
        later = {"key": "n", "type": "person", "operator": "gte", "value": number}
        groups = [{"properties": [later], "rollout_percentage": 100}]
        return project.ask("PATCH", path, project.ann, json={"filters": {"groups": groups}})

    assert ask_from(10).is_success
    assert ask_from(20).is_success
    refused = ask_from(30)
    assert refused.status_code == 409, refused.text
    assert "it is 15 % with the unapproved changes of the last 24 hours" in refused.text
    assert project.read_flag(flag)["filters"]["groups"][0]["properties"][0]["value"] == 20
    request = refused.json()["change_request_id"]
    assert project.decide(request, "approve", project.bob).json()["status"] == "applied"
    assert ask_from(40).is_success
