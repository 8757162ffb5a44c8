"""A project with at least one item of every kind, to import from."""

from typing import Any

import httpx

PEOPLE = [f"user-{n}" for n in range(300)]
COMPANIES = ["acme", "globex", "initech"]
# Who has answered the survey.
ANSWERED = "user-4"
THERE_KEY = "phx_a-personal-key-of-the-other-service"
THERE_TOKEN = "phc_a-project-key-of-the-other-service"
EVENTS = 1200
BASE = "/api/projects/1/"


def ready(answer: httpx.Response) -> Any:
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def filters(*properties: dict[str, Any], rollout: float = 100, **more: Any) -> dict[str, Any]:
    return {"groups": [{"properties": list(properties), "rollout_percentage": rollout}], **more}


def asks(key: str, value: Any, operator: str = "exact", **more: Any) -> dict[str, Any]:
    return {"key": key, "value": value, "operator": operator, "type": "person", **more}


def send(client: httpx.Client, token: str, events: list[dict[str, Any]]) -> None:
    for at in range(0, len(events), 500):
        body = {"api_key": token, "batch": events[at : at + 500], "historical_migration": True}
        ready(client.post("/batch/", json=body))


def person(n: int) -> list[dict[str, Any]]:
    """Return a person with two distinct ids, if the number is odd."""
    about = {
        "plan": ("free", "pro", "team")[n % 3],
        "country": ("NZ", "DE")[n % 2],
        "age": n,
        "email": f"user{n}@example.com",
    }
    if n % 7 == 0:
        about["$feature_enrollment/concept-car"] = True
    events: list[dict[str, Any]] = [
        {"event": "$set", "properties": {"$set": about}},
    ]
    if n % 2:
        events.append({"event": "$identify", "properties": {"$anon_distinct_id": f"anon-{n}"}})
    at = f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z"
    return [{"distinct_id": PEOPLE[n], "timestamp": at, **event} for event in events]


def furnish(client: httpx.Client) -> None:
    """Fill a project with at least one item of every kind."""
    send(client, THERE_TOKEN, [event for n in range(len(PEOPLE)) for event in person(n)])
    seen = [
        {
            "event": f"seen {n % 5}",
            "distinct_id": PEOPLE[n % len(PEOPLE)],
            "timestamp": f"2026-02-{1 + n // 60:02}T00:{n % 60:02}:00Z",
            "properties": {"n": n, "words": "ü 🌿", "$groups": {"company": COMPANIES[n % 3]}},
        }
        for n in range(EVENTS)
    ]
    send(client, THERE_TOKEN, seen)
    for n, key in enumerate(COMPANIES):
        body = {"group_type": "company", "group_key": key, "group_properties": {"size": n * 50}}
        ready(client.post(f"{BASE}groups/", json=body))
    ready(client.post(f"{BASE}groups_types/", json={"group_type": "planet"}))
    cohorts = {}
    for name, properties in {
        "Pro": asks("plan", ["pro"]),
        "Old": asks("age", 150, "gt"),
    }.items():
        definition = {"type": "OR", "values": [{"type": "AND", "values": [properties]}]}
        body = {"name": name, "filters": {"properties": definition}}
        cohorts[name] = ready(client.post(f"{BASE}cohorts/", json=body))["id"]
    within = [
        {"key": "id", "type": "cohort", "value": cohorts["Pro"], "negation": True},
        {"key": "id", "type": "cohort", "value": cohorts["Old"]},
    ]
    body = {"name": "Old and not pro", "filters": {"properties": {"type": "AND", "values": within}}}
    cohorts["both"] = ready(client.post(f"{BASE}cohorts/", json=body))["id"]
    ready(client.get(f"{BASE}persons/"))  # which waits until all of them are there
    friends = {"name": "Friends", "is_static": True, "csv": "user-1\nuser-2\nanon-3\n"}
    cohorts["static"] = ready(client.post(f"{BASE}cohorts/", json=friends))["id"]

    def flag(key: str, filters: Any, **more: Any) -> int:
        made = ready(
            client.post(f"{BASE}feature_flags/", json={"key": key, "filters": filters, **more})
        )
        return int(made["id"])

    def of(name: str) -> dict[str, Any]:
        return {"key": "id", "type": "cohort", "value": cohorts[name], "operator": "in"}

    flag("half", filters(rollout=50), tags=["old"], name="Half of them")
    flag("in-pro", filters(of("Pro"), rollout=80))
    flag("in-both", filters(of("both")))
    flag("friends", filters(of("static")))
    needed = flag("needed", filters(asks("country", "NZ"), rollout=60))
    flag(
        "needs",
        filters(
            {
                "key": str(needed),
                "type": "flag",
                "value": True,
                "operator": "flag_evaluates_to",
            }
        ),
    )
    variants = [
        {"key": "red", "rollout_percentage": 30},
        {"key": "green", "rollout_percentage": 70},
    ]
    flag(
        "colours",
        filters(
            rollout=90,
            multivariate={"variants": variants},
            payloads={"red": '{"hex": "#f00"}', "green": 7},
        ),
    )
    flag("by-company", filters(rollout=50, aggregation_group_type_index=0))
    large = {
        "key": "size",
        "type": "group",
        "group_type_index": 0,
        "value": 40,
        "operator": "gt",
    }
    flag("large", filters(large, aggregation_group_type_index=0))
    flag("by-planet", filters(rollout=50, aggregation_group_type_index=1))
    flag("off", filters(), active=False)
    flag("pattern", filters(asks("email", "^user1.*@example", "regex")))
    flag(
        "secret",
        {**filters(), "payloads": {"true": '"hush"'}},
        is_remote_configuration=True,
        has_encrypted_payloads=True,
    )
    flag("settings", {**filters(), "payloads": {"true": '{"a": 1}'}}, is_remote_configuration=True)
    feature = {
        "name": "Concept car",
        "stage": "beta",
        "description": "It flies.",
        "documentation_url": "https://example.com/car",
        "payload": {"wheels": 0},
    }
    ready(client.post(f"{BASE}early_access_feature/", json=feature))
    survey = {
        "name": "How is it?",
        "type": "popover",
        "questions": [{"type": "open", "question": "Well?"}],
        "linked_flag_id": needed,
        "targeting_flag_filters": filters(of("Pro")),
        "start_date": "2026-03-01T00:00:00Z",
    }
    experiment = {
        "name": "Two ways",
        "feature_flag_key": "ways",
        "start_date": "2026-01-01T00:00:00Z",
        "metrics": [
            {
                "kind": "ExperimentMetric",
                "metric_type": "funnel",
                "series": [{"kind": "EventsNode", "event": "seen 1"}],
            }
        ],
    }
    earlier = {"name": "Earlier", "end_date": "2026-02-01T00:00:00Z", "archived": True}
    ready(client.post(f"{BASE}experiments/", json=experiment | earlier))
    ready(client.post(f"{BASE}experiments/", json=experiment))
    survey_id = ready(client.post(f"{BASE}surveys/", json=survey))["id"]
    done = {"$set": {f"$survey_responded/{survey_id}": True}}
    send(client, THERE_TOKEN, [{"event": "$set", "distinct_id": ANSWERED, "properties": done}])
