"""Ways around an approval that do not name the gated flag, and approvals in advance."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.support.approvals import ALL, HALF, Project
from tests.support.live import wait_for

on_sqlite = pytest.mark.parametrize("world", ["sqlite"], indirect=True)
PRODUCTS = "/api/organizations/@current/products/"


def make(project: Project, path: str, **body: Any) -> int:
    made = project.ask("POST", path, json=body)
    assert made.status_code == 201, made.text
    id: int = made.json()["id"]
    return id


def make_cohort(project: Project, name: str, *filters: dict[str, Any]) -> int:
    return make(project, "cohorts/", name=name, filters=define(*filters))


def define(*filters: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {"type": "AND", "values": list(filters)}}


def target(**filter: Any) -> dict[str, Any]:
    return {"groups": [{"properties": [filter], "rollout_percentage": 100}]}


def expect(project: Project, expected: int, method: str, path: str, body: Any) -> str:
    answer = project.ask(method, path, project.ann, json=body)
    assert answer.status_code == expected, (method, path, body, answer.text)
    return answer.text


@on_sqlite
def test_what_a_gated_flag_depends_on_is_gated(project: Project) -> None:
    pro = {"key": "plan", "value": "pro", "type": "person"}
    cohort = make_cohort(project, "payers", pro)
    base = project.make_flag("base", filters=target(key="id", type="cohort", value=cohort))
    free = project.make_flag("free")
    between = project.make_flag(
        "between",
        filters=target(key=str(base), type="flag", operator="flag_evaluates_to", value=True),
    )
    action = make(project, "actions/", name="Paid", steps=[{"event": "paid"}])
    did = {
        "type": "behavioral",
        "key": action,
        "event_type": "actions",
        "value": "performed_event",
        "time_value": 30,
        "time_interval": "day",
    }
    doers = make_cohort(project, "doers", did)
    depends = {"type": "flag", "operator": "flag_evaluates_to", "value": True}
    groups = [
        {"properties": [{**depends, "key": str(between)}]},
        {"properties": [{"key": "id", "type": "cohort", "value": doers}]},
    ]
    project.make_flag("live", filters={"groups": groups}, tags=["live"])
    project.protect(conditions={"tags": ["live"], "fields": ["filters"]})
    said = expect(project, 409, "PATCH", f"feature_flags/{base}/", {"filters": ALL})
    assert "the flag live depends on it" in said
    expect(project, 409, "PATCH", f"feature_flags/{between}/", {"filters": ALL})
    expect(project, 409, "PATCH", f"cohorts/{cohort}/", {"filters": define(pro, pro)})
    expect(project, 409, "PATCH", f"cohorts/{doers}/", {"filters": define(pro)})
    said = expect(project, 409, "PATCH", f"actions/{action}/", {"steps": [{"event": "$pageview"}]})
    assert "A cohort that flags use counts this action" in said
    # What changes nothing for anyone is free, and so are other flags.
    expect(project, 200, "PATCH", f"feature_flags/{base}/", {"name": "Base"})
    expect(project, 200, "PATCH", f"actions/{action}/", {"description": "Paid at all"})
    expect(project, 200, "PATCH", f"feature_flags/{free}/", {"filters": ALL})
    # The approved change of a dependency is applied.
    [pending] = project.ask("GET", "change_requests/?search=base").json()["results"]
    assert project.decide(pending["id"], "approve", project.bob).json()["status"] == "applied"
    assert project.read_flag(base)["filters"]["groups"] == ALL["groups"]


@on_sqlite
def test_what_cannot_be_measured_needs_approval(project: Project) -> None:
    action = make(project, "actions/", name="Paid", steps=[{"event": "paid"}])
    did = {
        "type": "behavioral",
        "key": action,
        "event_type": "actions",
        "value": "performed_event",
        "time_value": 30,
        "time_interval": "day",
    }
    doers = make_cohort(project, "doers", did)
    by_doers = target(key="id", type="cohort", value=doers)
    flag = project.make_flag("live", filters=by_doers, tags=["live"])
    project.protect(conditions={"changed_percent": 50, "tags": ["live"]})
    expect(project, 409, "PATCH", f"actions/{action}/", {"steps": [{"event": "$pageview"}]})
    other = {**did, "event_type": "events", "key": "$pageview"}
    expect(project, 409, "PATCH", f"cohorts/{doers}/", {"filters": define(other)})
    bodies: list[dict[str, Any]] = [{"tags": []}, {"key": "x"}, {"evaluation_contexts": ["web"]}]
    for body in bodies:
        expect(project, 409, "PATCH", f"feature_flags/{flag}/", body)
    expect(project, 200, "PATCH", f"feature_flags/{flag}/", {"name": "Live"})


@on_sqlite
@pytest.mark.parametrize(
    ("kind", "refused", "allowed"),
    [
        ("create", [{"key": "other"}], [{"active": False}, {"deleted": True}]),
        ("delete", [{"key": "other"}, {"deleted": True}], [{"active": False}]),
        ("enable", [{"key": "other"}], [{"filters": ALL}, {"active": False}]),
        ("disable", [{"key": "other"}, {"deleted": True}, {"active": False}], [{"filters": ALL}]),
    ],
)
def test_policy_for_one_kind_is_not_evaded(
    project: Project, kind: str, refused: list[dict[str, Any]], allowed: list[dict[str, Any]]
) -> None:
    gone = project.make_flag("gone")
    project.ask("DELETE", f"feature_flags/{gone}/")
    flag = project.make_flag()
    project.protect(action_key=f"feature_flag.{kind}")
    for body in refused:
        expect(project, 409, "PATCH", f"feature_flags/{flag}/", body)
    for body in allowed:
        expect(project, 200, "PATCH", f"feature_flags/{flag}/", body)
    # To restore a flag is to create it.
    expected = 409 if kind == "create" else 200
    expect(project, expected, "PATCH", f"feature_flags/{gone}/", {"deleted": False})


def schedule(project: Project, flag: int, after_s: float, **payload: Any) -> dict[str, Any]:
    body = {
        "record_id": flag,
        "model_name": "FeatureFlag",
        "payload": payload,
        "scheduled_at": (datetime.now(UTC) + timedelta(seconds=after_s)).isoformat(),
    }
    made = project.ask("POST", "scheduled_changes/", project.ann, json=body)
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


def wait_until_ended(project: Project, id: int) -> str | None:
    path = f"scheduled_changes/{id}/"
    wait_for(lambda: bool(project.ask("GET", path).json()["executed_at"]), at_most_s=60)
    reason: str | None = project.ask("GET", path).json()["failure_reason"]
    return reason


def test_schedule_is_approved_in_advance(project: Project) -> None:
    flag = project.make_flag()
    project.protect()
    now = datetime.now(UTC)
    steps = [
        {"scheduled_at": (now + timedelta(seconds=after)).isoformat(), "rollout_percentage": share}
        for after, share in ((6, 50), (7, 100))
    ]
    made = project.ask(
        "POST", "scheduled_changes/rollout/", project.ann, json={"record_id": flag, "steps": steps}
    )
    assert made.status_code == 201, made.text
    changes = made.json()["results"]
    [request] = {each["change_request_id"] for each in changes}
    shown = project.show(request)
    assert (shown["resource_type"], shown["state"]) == ("scheduled_change", "pending")
    assert [
        each["payload"]["value"]["rollout_percentage"]
        for each in shown["intent"]["gated_changes"]["changes"]
    ] == [50, 100]
    assert project.decide(request, "approve", project.ann_again).status_code == 403
    approved = project.decide(request, "approve", project.bob)
    assert approved.json()["status"] == "approved", approved.text
    for change in changes:
        assert wait_until_ended(project, change["id"]) is None
    assert project.read_flag(flag)["filters"]["groups"][0]["rollout_percentage"] == 100
    assert project.show(request)["state"] == "applied"
    entries = project.ask("GET", f"feature_flags/{flag}/activity/").json()["results"]
    assert [each["activity"] for each in entries] == ["updated", "updated", "created"]
    assert entries[0]["user"]["email"].startswith("ann@")


@on_sqlite
def test_approval_holds_for_exactly_the_scheduled_change(project: Project) -> None:
    flag = project.make_flag(active=False)
    project.protect(conditions={"fields": ["active"]})
    enable = {"operation": "update_status", "value": True}
    # The conditions, which need no approval, are others when the time comes.
    moved = schedule(project, flag, 5, **enable)
    later = schedule(project, flag, 600, **enable)
    unapproved = schedule(project, flag, 1, **enable)
    assert len({each["change_request_id"] for each in (moved, later, unapproved)}) == 3
    for each in (moved, later):
        done = project.decide(each["change_request_id"], "approve", project.bob)
        assert done.json()["status"] == "approved", done.text
    expect(project, 200, "PATCH", f"feature_flags/{flag}/", {"filters": ALL})
    for each in (unapproved, moved):
        assert "requires approval" in (wait_until_ended(project, each["id"]) or "")
    assert project.read_flag(flag)["active"] is False
    assert project.show(moved["change_request_id"])["state"] == "withdrawn"
    # Another time or another change is another request.
    path = f"scheduled_changes/{later['id']}/"
    soon = (datetime.now(UTC) + timedelta(seconds=300)).isoformat()
    edited = project.ask("PATCH", path, project.ann, json={"scheduled_at": soon}).json()
    assert edited["change_request_id"] not in (None, later["change_request_id"])
    assert project.show(later["change_request_id"])["state"] == "withdrawn"
    assert project.show(edited["change_request_id"])["state"] == "pending"
    assert project.ask("DELETE", path, project.ann).status_code == 204
    assert project.show(edited["change_request_id"])["state"] == "withdrawn"


def test_promotion_is_one_change_request(project: Project) -> None:
    world = project.world
    source = Project(world=world, id=world.make_project())
    for key in ("pay", "new"):
        source.make_flag(key, filters=ALL)
    flag = project.make_flag()
    environments = [
        {"name": "dev", "project_id": source.id},
        {"name": "live", "project_id": project.id, "is_protected": True},
    ]
    product = {"name": f"Shop {uuid4()}", "environments": environments}
    id = world.one.post(PRODUCTS, json=product).json()["id"]
    body = {"from": "dev", "to": "live", "all": True}
    headers = {"Authorization": f"Bearer {project.ann}"}

    def promote() -> dict[str, Any]:
        answer = world.one.post(f"{PRODUCTS}{id}/promote/", json=body, headers=headers)
        assert answer.status_code == 409, answer.text
        found: dict[str, Any] = answer.json()
        return found

    refused = promote()
    request = refused["change_request_id"]
    assert (refused["code"], refused["resource_type"]) == ("approval_required", "promotion")
    assert promote()["code"] == "change_request_pending"
    changes = project.show(request)["intent"]["gated_changes"]["changes"]
    assert {each["key"]: each["action"] for each in changes} == {"pay": "update", "new": "create"}
    assert project.decide(request, "approve", project.ann).status_code == 403
    # The source has another version than the one that was requested.
    renamed = source.ask("GET", "feature_flags/").json()["results"][0]
    source.ask("PATCH", f"feature_flags/{renamed['id']}/", json={"name": "Other"})
    stale = project.decide(request, "approve", project.bob).json()
    assert stale["status"] == "failed", stale
    assert "have changed since" in stale["change_request"]["apply_error"]
    assert project.read_flag(flag)["filters"]["groups"] == HALF["groups"]
    again = promote()["change_request_id"]
    done = project.decide(again, "approve", project.bob, client=world.two)
    assert done.json()["status"] == "applied", done.text
    found = project.ask("GET", "feature_flags/").json()["results"]
    assert {each["key"]: each["filters"]["groups"] for each in found} == {
        "pay": ALL["groups"],
        "new": ALL["groups"],
    }
    entries = project.ask("GET", f"feature_flags/{flag}/activity/").json()["results"]
    assert entries[0]["user"]["email"].startswith("ann@")


COPY = "/api/organizations/@current/feature_flags/copy_flags/"


@on_sqlite
def test_copy_is_a_change_request(project: Project) -> None:
    world = project.world
    source, free = (Project(world=world, id=world.make_project()) for _ in range(2))
    flag = source.make_flag(filters=ALL)
    schedule(source, flag, 3600, operation="update_status", value=False)
    project.protect()
    headers = {"Authorization": f"Bearer {project.ann}"}
    body = {"feature_flag_key": "pay", "from_project": source.id, "copy_schedule": True}

    def copy(*targets: Project) -> tuple[int, dict[str, Any]]:
        ids = [each.id for each in targets]
        answer = world.one.post(COPY, json={**body, "target_project_ids": ids}, headers=headers)
        found: dict[str, Any] = answer.json()
        return answer.status_code, found

    status, refused = copy(project)
    request = refused["change_request_id"]
    assert (status, refused["code"], refused["resource_type"]) == (
        409,
        "approval_required",
        "promotion",
    )
    assert copy(project)[1]["code"] == "change_request_pending"
    # One of several projects does not stop the others.
    status, done = copy(free, project)
    assert (status, [each["key"] for each in done["success"]]) == (200, ["pay"])
    [failed] = done["failed"]
    assert (failed["project_id"], failed["change_request_id"]) == (project.id, request)
    assert project.decide(request, "approve", project.ann).status_code == 403
    assert project.decide(request, "approve", project.bob).json()["status"] == "applied"
    [copied] = project.ask("GET", "feature_flags/").json()["results"]
    assert copied["filters"]["groups"] == ALL["groups"]
    # The schedule is copied to the flag that is there now, and needs its own approval.
    assert copy(project)[0] == 200
    [change] = project.ask("GET", "scheduled_changes/").json()["results"]
    waiting = project.show(change["change_request_id"])
    assert (waiting["resource_type"], waiting["state"]) == ("scheduled_change", "pending")


@on_sqlite
def test_holdout_of_gated_flags_is_gated(project: Project) -> None:
    holdout = make(project, "experiment_holdouts/", name="h", filters=[{"rollout_percentage": 5}])
    make(project, "experiments/", name="x", feature_flag_key="x", holdout_id=holdout)
    project.protect(conditions={"fields": ["filters"]})
    path = f"experiment_holdouts/{holdout}/"
    expect(project, 409, "PATCH", path, {"filters": [{"rollout_percentage": 90}]})
    expect(project, 409, "DELETE", path, None)
    expect(project, 200, "PATCH", path, {"name": "other"})
    found = project.ask("GET", path).json()
    assert found["filters"][0]["rollout_percentage"] == 5


OWN_FIELDS = ("id", "key", "name", "filters", "active", "deleted", "archived", "tags", "version")


@on_sqlite
def test_no_other_resource_changes_a_gated_flag(project: Project) -> None:
    """Whatever these answer, the flags stay as they are."""
    split = [{"key": "control", "rollout_percentage": 50}, {"key": "b", "rollout_percentage": 50}]
    experiments = [
        make(project, "experiments/", name=key, feature_flag_key=key)
        for key in ("draft", "running", "ended")
    ]
    for number, action in ((1, "launch"), (2, "launch"), (2, "end")):
        done = project.ask("POST", f"experiments/{experiments[number]}/{action}/")
        assert done.is_success, done.text
    holdout = make(project, "experiment_holdouts/", name="h", filters=[{"rollout_percentage": 5}])
    survey_body: dict[str, Any] = {
        "name": "s",
        "type": "popover",
        "questions": [{"type": "open", "question": "?"}],
        "targeting_flag_filters": HALF,
    }
    survey = make(project, "surveys/", **survey_body)
    early = project.ask("POST", "early_access_feature/", json={"name": "e", "stage": "concept"})
    plain, gone, variants = (project.make_flag(key) for key in ("plain", "gone", "variants"))
    project.ask("DELETE", f"feature_flags/{gone}/")
    multivariate = {"groups": ALL["groups"], "multivariate": {"variants": split}}
    project.ask("PATCH", f"feature_flags/{variants}/", json={"filters": multivariate})
    steps = [{"rollout_percentage": 90, "duration_seconds": 3600}]
    metrics = [{"type": "count", "event": "e", "harm": "increase"}]
    plans = [
        make(project, "rollout_plans/", flag=plain, steps=steps, metrics=metrics) for _ in range(2)
    ]
    goal = {
        "kind": "ExperimentMetric",
        "metric_type": "funnel",
        "series": [{"kind": "EventsNode", "event": "paid"}],
    }
    bandit = make(project, "bandits/", flag=variants, metric=goal)
    assert project.ask("POST", f"rollout_plans/{plans[1]}/start/").is_success
    project.protect()

    def read_flags() -> list[Any]:
        found = project.ask("GET", "feature_flags/?limit=100").json()["results"]
        return [{name: each[name] for name in OWN_FIELDS} for each in found]

    before = read_flags()
    stamp = datetime.now(UTC).isoformat()
    draft, running, ended = (f"experiments/{each}/" for each in experiments)
    doors: list[tuple[str, str, Any]] = [
        ("PUT", f"feature_flags/{plain}/", {"key": "plain", "filters": ALL}),
        ("POST", "feature_flags/", {"key": "gone", "filters": ALL}),
        ("POST", "feature_flags/bulk_delete/", {"ids": [plain]}),
        ("POST", "feature_flags/bulk_update_tags/", {"ids": [plain], "tags": ["x"]}),
        ("PATCH", f"feature_flags/{plain}/", {"archived": True}),
        ("PATCH", f"feature_flags/{plain}/", {"rollout_percentage": 100}),
        ("POST", f"{draft}launch/", None),
        ("PATCH", draft, {"start_date": stamp}),
        ("PATCH", draft, {"holdout_id": holdout}),
        ("PATCH", draft, {"parameters": {"feature_flag_variants": split}}),
        ("DELETE", draft, None),
        ("PATCH", draft, {"deleted": True}),
        ("POST", f"{running}end/", None),
        ("POST", f"{running}reset/", None),
        ("POST", f"{running}ship_variant/", {"variant_key": "test"}),
        ("PATCH", running, {"end_date": stamp}),
        ("POST", f"{ended}archive/", None),
        ("POST", f"{ended}reset/", None),
        ("DELETE", ended, None),
        ("PATCH", f"surveys/{survey}/", {"start_date": stamp}),
        (
            "PATCH",
            f"surveys/{survey}/",
            {"targeting_flag_filters": target(key="plan", type="person", value="pro")},
        ),
        ("PATCH", f"surveys/{survey}/", {"remove_targeting_flag": True}),
        ("PATCH", f"surveys/{survey}/", {"archived": True}),
        ("PATCH", f"surveys/{survey}/", {"end_date": stamp}),
        ("DELETE", f"surveys/{survey}/", None),
        ("POST", "surveys/", {**survey_body, "name": "s2", "linked_flag_id": plain}),
        ("PATCH", f"early_access_feature/{early.json()['id']}/", {"stage": "beta"}),
        ("PATCH", f"early_access_feature/{early.json()['id']}/", {"stage": "general-availability"}),
        ("POST", "early_access_feature/", {"name": "f", "stage": "beta", "feature_flag_id": plain}),
        ("POST", f"rollout_plans/{plans[0]}/start/", None),
        ("POST", f"rollout_plans/{plans[1]}/rollback/", None),
        ("POST", f"rollout_plans/{plans[1]}/pause/", None),
        ("POST", f"rollout_plans/{plans[1]}/resume/", None),
        ("POST", f"rollout_plans/{plans[1]}/stop/", None),
        ("POST", f"bandits/{bandit}/start/", None),
        ("POST", f"bandits/{bandit}/resume/", None),
    ]
    for method, door, body in doors:
        answer = project.ask(method, door, project.ann, json=body)
        assert answer.status_code < 500, (method, door, answer.text)
        assert read_flags() == before, (method, door, body, answer.status_code, answer.text)


@on_sqlite
def test_document_and_dependencies_are_gated(project: Project) -> None:
    """The documents of `flags apply --server`, and deletions of what gated flags use."""
    flag = project.make_flag("live")
    action = make(project, "actions/", name="Paid", steps=[{"event": "paid"}])
    did = {
        "type": "behavioral",
        "key": action,
        "event_type": "actions",
        "value": "performed_event",
        "time_value": 30,
        "time_interval": "day",
    }
    by_doers = target(key="id", type="cohort", value=make_cohort(project, "doers", did))
    project.make_flag("by-doers", filters=by_doers)
    sent = {"document": {"version": 1, "flags": [{"key": "live", "filters": ALL}]}}
    # Planned before the policy holds, and applied after it.
    planned = project.ask("POST", "documents/flags/", project.ann, json=sent)
    assert planned.status_code == 200, planned.text
    project.protect()
    expect(project, 409, "POST", "documents/flags/", sent)
    expect(project, 409, "POST", "documents/flags/", sent | {"plan": planned.json()["plan"]})
    empty = {"document": {"version": 1, "flags": []}, "prune": True}
    expect(project, 409, "POST", "documents/flags/", empty)
    expect(project, 409, "DELETE", f"actions/{action}/", None)
    expect(project, 409, "PATCH", f"actions/{action}/", {"deleted": True})
    assert project.read_flag(flag)["filters"]["groups"] == HALF["groups"]
    assert project.ask("GET", "feature_flags/").json()["count"] == 2
