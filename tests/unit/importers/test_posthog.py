"""What real answers of PostHog's API become here, and what is said of the rest."""

from collections.abc import Mapping
from typing import Any

from hedgerow.importers.matching import Action, Numbers, There, decided
from hedgerow.importers.model import Kind, Wanted
from hedgerow.importers.posthog import Definitions, understood
from hedgerow.importers.posthog_surveys import with_survey_ids

USER = {
    "id": 7,
    "uuid": "0190d1f5-0000-0000-7b1c-3f2a8f6e0001",
    "distinct_id": "7xkGvB",
    "first_name": "Ann",
    "last_name": "",
    "email": "ann@example.com",
    "is_email_verified": True,
    "hedgehog_config": None,
    "role_at_organization": "engineering",
}


def flag(id: int, key: str, filters: Any = None, **more: Any) -> dict[str, Any]:
    """As `GET /api/projects/:id/feature_flags/` tells it."""
    return {
        "id": id,
        "name": f"about {key}",
        "key": key,
        "filters": filters
        or {
            "groups": [{"variant": None, "properties": [], "rollout_percentage": 50}],
            "payloads": {},
            "multivariate": None,
        },
        "deleted": False,
        "active": True,
        "created_by": USER,
        "created_at": "2024-07-23T09:13:45.118000Z",
        "updated_at": "2025-02-01T10:00:00Z",
        "version": 4,
        "last_modified_by": USER,
        "is_simple_flag": True,
        "rollout_percentage": 50,
        "ensure_experience_continuity": False,
        "experiment_set": [],
        "surveys": [],
        "features": [],
        "rollback_conditions": [],
        "performed_rollback": False,
        "can_edit": True,
        "tags": ["checkout"],
        "evaluation_tags": ["web"],
        "usage_dashboard": 91,
        "analytics_dashboards": [],
        "has_enriched_analytics": False,
        "user_access_level": "editor",
        "creation_context": "feature_flags",
        "is_remote_configuration": False,
        "has_encrypted_payloads": False,
        "status": "ACTIVE",
        "evaluation_runtime": "all",
        "bucketing_identifier": None,
        **more,
    }


def cohort(id: int, name: str, *filters: Any, **more: Any) -> dict[str, Any]:
    properties = {"type": "OR", "values": [{"type": "AND", "values": list(filters)}]}
    return {
        "id": id,
        "name": name,
        "description": None,
        "groups": [],
        "deleted": False,
        "filters": {"properties": properties},
        "query": None,
        "is_calculating": False,
        "created_by": USER,
        "created_at": "2024-07-23T09:13:45.118000Z",
        "last_calculation": "2025-02-01T10:00:00Z",
        "errors_calculating": 0,
        "count": 12,
        "is_static": False,
        "cohort_type": "person_property",
        "experiment_set": [],
        **more,
    }


PRO = {
    "key": "plan",
    "type": "person",
    "value": ["pro"],
    "operator": "exact",
    "negation": False,
    "bytecode": ["_H", 1, 32, "pro"],
    "conditionHash": "8d1c",
}
DID = {
    "key": "$pageview",
    "type": "behavioral",
    "value": "performed_event",
    "negation": False,
    "event_type": "events",
    "time_value": 30,
    "time_interval": "day",
}


SURVEY: dict[str, Any] = {
    "id": "0191c2f5-11aa-0000-7b1c-3f2a8f6e0009",
    "name": "How is it?",
    "description": "",
    "type": "popover",
    "schedule": "once",
    "linked_flag": None,
    "linked_flag_id": None,
    "targeting_flag": None,
    "internal_targeting_flag": {"id": 99, "key": "survey-targeting-9f3c-custom", "filters": {}},
    "questions": [
        {"id": "q1", "type": "rating", "question": "?", "scale": 10, "display": "number"}
    ],
    "conditions": {"url": "/checkout", "urlMatchType": "icontains", "actions": {"values": []}},
    "appearance": {"backgroundColor": "#eeeded", "displayThankYouMessage": True},
    "created_at": "2024-07-23T09:13:45.118000Z",
    "created_by": USER,
    "start_date": "2024-08-01T00:00:00.000000Z",
    "end_date": None,
    "archived": False,
    "responses_limit": None,
    "iteration_count": None,
    "iteration_frequency_days": None,
    "enable_partial_responses": True,
    "feature_flag_keys": [],
    "response_sampling_limit": None,
}


def in_cohort(id: Any, **more: Any) -> dict[str, Any]:
    return {"key": "id", "type": "cohort", "value": id, **more}


def groups(*properties: Any, **more: Any) -> dict[str, Any]:
    return {"groups": [{"properties": list(properties), "rollout_percentage": 100}], **more}


def names(wanted: Any, kind: Kind) -> list[str]:
    return [each.name for each in wanted if each.kind is kind]


def lost(source: Definitions) -> dict[str, str]:
    return {each.name: each.text for each in understood(source).lost}


def test_a_flag_keeps_all_that_decides_its_answers() -> None:
    filters = {
        "groups": [
            {
                "variant": "test",
                "properties": [
                    {"key": "email", "type": "person", "value": "@x", "operator": "icontains"}
                ],
                "rollout_percentage": 100,
                "sort_key": "3d2f",
            },
            {"variant": None, "properties": [], "rollout_percentage": 33.3},
        ],
        "payloads": {"test": '{"a": 1}'},
        "multivariate": {
            "variants": [
                {"key": "control", "name": "", "rollout_percentage": 50},
                {"key": "test", "name": "Test", "rollout_percentage": 50},
            ]
        },
    }
    source = flag(
        3,
        "checkout",
        filters,
        active=False,
        ensure_experience_continuity=True,
        evaluation_runtime="server",
    )
    reading = understood(Definitions(flags=[source]))
    [made] = reading.wanted
    assert made.body == {
        "key": "checkout",
        "name": "about checkout",
        "filters": filters,
        "active": False,
        "archived": False,
        "ensure_experience_continuity": True,
        "is_remote_configuration": False,
        "evaluation_runtime": "server",
        "bucketing_identifier": "distinct_id",
        "evaluation_contexts": ["web"],
        "tags": ["checkout"],
    }
    assert [each.name for each in reading.notes] == ["checkout"]
    assert reading.lost == []


def test_things_stand_behind_those_that_they_need() -> None:
    source = Definitions(
        cohorts=[
            cohort(5, "outer", in_cohort(9), in_cohort("7", negation=True)),
            cohort(7, "inner", PRO),
            cohort(9, "list", is_static=True, filters={}),
        ],
        flags=[
            flag(
                1,
                "needs",
                groups(
                    {"key": "2", "type": "flag", "value": True, "operator": "flag_evaluates_to"}
                ),
            ),
            flag(2, "needed", groups(in_cohort(5, operator="in"))),
        ],
    )
    reading = understood(source)
    assert reading.lost == []
    cohorts = names(reading.wanted, Kind.COHORT)
    assert cohorts.index("outer") > max(cohorts.index("inner"), cohorts.index("list"))
    assert names(reading.wanted, Kind.FLAG) == ["needed", "needs"]
    inner = next(each for each in reading.wanted if each.name == "inner")
    [[leaf]] = [each["values"] for each in inner.body["filters"]["properties"]["values"]]
    assert leaf == {name: PRO[name] for name in ("key", "type", "value", "operator", "negation")}


def test_numbers_become_those_of_here_and_group_types_go_by_name() -> None:
    size = {"key": "size", "type": "group", "group_type_index": 0, "value": 5, "operator": "gt"}
    source = Definitions(
        group_types=[{"group_type": "company", "group_type_index": 0}],
        cohorts=[cohort(7, "inner", PRO), cohort(8, "outer", in_cohort(7))],
        flags=[
            flag(1, "a", groups(in_cohort(8, operator="in"))),
            flag(2, "b", groups({"key": "1", "type": "flag", "value": True})),
            flag(3, "c", groups(size, aggregation_group_type_index=0)),
        ],
    )
    reading = understood(source)
    assert (reading.lost, reading.group_types) == ([], {0: "company"})
    numbers = Numbers(group_types={0: 3})
    bodies = {}
    for number, wanted in enumerate(reading.wanted):
        bodies[wanted.name] = decided(wanted, There(), numbers, {}).body
        numbers.learn(wanted, 100 + number)
    outer = bodies["outer"]["filters"]["properties"]["values"][0]["values"][0]
    assert outer["value"] == numbers.of[Kind.COHORT][7]
    of_flag = {key: bodies[key]["filters"]["groups"][0]["properties"][0] for key in "abc"}
    assert of_flag["a"]["value"] == numbers.of[Kind.COHORT][8]
    assert of_flag["b"]["key"] == str(numbers.of[Kind.FLAG][1])
    assert of_flag["c"]["group_type_index"] == 3
    assert bodies["c"]["filters"]["aggregation_group_type_index"] == 3


def test_what_cannot_be_copied_is_said_by_name() -> None:
    new = {"key": "a", "type": "person", "value": "x", "operator": "sounds_like"}
    source = Definitions(
        cohorts=[
            cohort(1, "active users", DID),
            cohort(2, "of those", in_cohort(1)),
            cohort(3, "oldest", filters=None, groups=[{"days": "30", "action_id": 4}]),
            cohort(4, "circle", in_cohort(5)),
            cohort(5, "round", in_cohort(4)),
        ],
        flags=[
            flag(1, "behaving", groups(in_cohort(2, operator="in"))),
            flag(2, "needs", groups({"key": "1", "type": "flag", "value": True})),
            flag(3, "unheard", groups(new)),
            flag(4, "sealed", is_remote_configuration=True, has_encrypted_payloads=True),
            flag(5, "a key!"),
            flag(6, "survey-targeting-5a"),
            flag(7, "gone", deleted=True),
        ],
        features=[
            {"id": "0190", "name": "Bird", "stage": "beta", "feature_flag": flag(3, "unheard")}
        ],
        surveys=[
            {"id": "0191", "name": "NPS", "targeting_flag": flag(6, "survey-targeting-5a")},
            {**SURVEY, "linked_flag_id": 3},
            {**SURVEY, "name": "Odd", "questions": [{"type": "hum", "question": "?"}]},
        ],
        experiments=[{"id": 3, "name": "Colours"}],
    )
    assert understood(source).wanted == []
    assert lost(source) == {
        "active users": "filters.properties.values[0].values[0].type: Cohorts ask about persons "
        "and other cohorts.",
        "of those": "It asks for 'active users', which is not copied.",
        "oldest": "filters.properties.values[0].type: Cohorts ask about persons and other cohorts.",
        "circle": "It asks for itself, through others.",
        "round": "It asks for itself, through others.",
        "behaving": "It asks for 'of those', which is not copied.",
        "needs": "It asks for 'behaving', which is not copied.",
        "unheard": 'filters.groups[0].properties[0].operator: "sounds_like" is no operator for a '
        "property.",
        "sealed": "Its payload is encrypted, and the source tells it to nobody: make it by hand.",
        "a key!": "key: Only letters, numbers, hyphens (-) & underscores (_) are allowed.",
        "Bird": "Its flag is not copied.",
        "NPS": "type: There is no type None here.",
        "How is it?": "Its linked flag is not copied.",
        "Odd": 'questions[0].type: "hum" is not a valid choice.',
        "Colours": "Its flag is not copied.",
    }


def test_a_cohort_of_the_oldest_form_is_read() -> None:
    source = cohort(1, "old", filters=None, groups=[{"properties": [PRO]}, {"properties": [PRO]}])
    [made] = understood(Definitions(cohorts=[source])).wanted
    definition = made.body["filters"]["properties"]
    assert (definition["type"], [each["type"] for each in definition["values"]]) == (
        "OR",
        ["AND", "AND"],
    )


def test_a_feature_makes_its_flag_follow_what_people_choose() -> None:
    enrolled = {
        "key": "$feature_enrollment/bird",
        "type": "person",
        "value": ["true"],
        "operator": "exact",
    }
    older = groups(PRO, super_groups=[{"properties": [enrolled], "rollout_percentage": 100}])
    feature = {
        "id": "0190d1f5-11aa-0000-7b1c-3f2a8f6e0001",
        "name": "Bird",
        "description": "",
        "stage": "beta",
        "documentation_url": "",
        "payload": {},
        "created_at": "2024-07-23T09:13:45Z",
    }
    variants = {"variants": [{"key": "a", "rollout_percentage": 100}]}
    source = Definitions(
        flags=[flag(1, "bird", older), flag(2, "many", groups(multivariate=variants))],
        features=[
            feature | {"feature_flag": flag(1, "bird", older)},
            feature | {"id": "b", "name": "Many", "feature_flag": flag(2, "many")},
            feature | {"id": "c", "name": "Nobody's", "feature_flag": None},
            feature
            | {"id": "d", "name": "Script", "feature_flag": flag(1, "bird", older)}
            | {"documentation_url": "javascript:alert(1)"},
        ],
    )
    reading = understood(source)
    bird, _, made = reading.wanted
    assert bird.body["filters"].keys() == {"groups", "feature_enrollment"}
    assert bird.body["filters"]["feature_enrollment"] is True
    assert (made.name, made.body["feature_flag_id"]) == ("Bird", 1)
    assert [(each.name, each.text) for each in reading.lost] == [
        ("Many", "Its flag has variants, which features here cannot have."),
        ("Nobody's", "Its flag is not copied."),
        ("Script", "documentation_url: Enter a valid URL."),
    ]


def test_a_survey_comes_with_who_is_chosen_and_without_its_own_flags() -> None:
    chosen = groups(in_cohort(7, operator="in"))
    source = Definitions(
        cohorts=[cohort(7, "pro", PRO)],
        flags=[flag(3, "linked"), flag(99, "survey-targeting-9f3c-custom")],
        surveys=[
            {
                **SURVEY,
                "linked_flag_id": 3,
                "targeting_flag": {"id": 98, "key": "survey-targeting-x", "filters": chosen},
            }
        ],
    )
    reading = understood(source)
    assert reading.lost == []
    assert names(reading.wanted, Kind.FLAG) == ["linked"]
    numbers = Numbers()
    for number, wanted in enumerate(reading.wanted):
        body = decided(wanted, There(), numbers, {}).body
        numbers.learn(wanted, 100 + number)
    assert body["linked_flag_id"] == numbers.of[Kind.FLAG][3]
    [asked] = body["targeting_flag_filters"]["groups"][0]["properties"]
    assert asked["value"] == numbers.of[Kind.COHORT][7]
    for name in ("questions", "conditions", "appearance", "start_date", "schedule"):
        assert body[name] == SURVEY[name]
    assert body.keys().isdisjoint({"id", "internal_targeting_flag", "created_by"})


def test_a_survey_that_is_here_is_known_by_its_name() -> None:
    [wanted] = understood(Definitions(surveys=[SURVEY])).wanted
    question = {**SURVEY["questions"][0], "id": "another"}
    stored = {
        **SURVEY,
        "id": "here",
        "start_date": "2024-08-01T00:00:00Z",
        "questions": [question],
    }
    there = There(items={Kind.SURVEY: [stored]})
    assert decided(wanted, there, Numbers(), {}).action is Action.SAME
    there = There(items={Kind.SURVEY: [{**stored, "questions": []}]})
    assert decided(wanted, there, Numbers(), {}).differences == ["questions"]


def test_who_answered_a_survey_there_has_answered_it_here() -> None:
    told = {
        "$survey_id": "there",
        "$survey_responded/there": True,
        "$survey_dismissed/there/2": True,
        "$survey_responded/unknown": True,
        "$set": {"$survey_responded/there": True},
        "$survey_response_q1": "9",
    }
    assert with_survey_ids(told, {"there": "here"}) == {
        "$survey_id": "here",
        "$survey_responded/here": True,
        "$survey_dismissed/here/2": True,
        "$survey_responded/unknown": True,
        "$set": {"$survey_responded/here": True},
        "$survey_response_q1": "9",
    }


EXPERIMENT: dict[str, Any] = {
    "id": 31,
    "name": "Colours",
    "description": "",
    "start_date": "2025-01-01T00:00:00Z",
    "end_date": None,
    "feature_flag_key": "colours",
    "feature_flag": None,
    "holdout": None,
    "holdout_id": None,
    "exposure_cohort": None,
    "parameters": {
        "feature_flag_variants": [{"key": "control", "rollout_percentage": 50}],
        "aggregation_group_type_index": 0,
        "recommended_sample_size": 100,
    },
    "secondary_metrics": [],
    "saved_metrics": [{"id": 4, "saved_metric": 9, "metadata": {"type": "primary"}}],
    "filters": {},
    "archived": False,
    "deleted": False,
    "created_by": USER,
    "created_at": "2024-12-23T09:13:45.118000Z",
    "type": "product",
    "metrics": [
        {
            "kind": "ExperimentMetric",
            "metric_type": "funnel",
            "name": "Bought",
            "series": [
                {
                    "kind": "EventsNode",
                    "event": "bought",
                    "properties": [{"key": "id", "type": "cohort", "value": 7, "operator": "in"}],
                }
            ],
        },
        {
            "kind": "ExperimentMetric",
            "metric_type": "mean",
            "name": "By action",
            "source": {"kind": "ActionsNode", "id": 3},
        },
    ],
    "metrics_secondary": [],
    "stats_config": {"method": "odd"},
    "conclusion": None,
    "conclusion_comment": None,
}


def colours(**more: Any) -> dict[str, Any]:
    variants = [{"key": key, "rollout_percentage": 50} for key in ("control", "test")]
    return flag(5, "colours", groups(multivariate={"variants": variants}), **more)


def test_an_experiment_comes_over_its_flag_with_what_can_be_measured() -> None:
    source = Definitions(
        group_types=[{"group_type": "company", "group_type_index": 0}],
        cohorts=[cohort(7, "pro", PRO)],
        flags=[colours()],
        experiments=[EXPERIMENT],
    )
    reading = understood(source)
    assert [(each.name, each.text) for each in reading.notes] == [
        (
            "Colours",
            "Without the metric 'By action': \"ActionsNode\" cannot be counted here: an EventsNode "
            "can.",
        ),
        (
            "Colours",
            'Without its stats_config: "odd" is not possible here: bayesian and frequentist are.',
        ),
        ("Colours", "Without the metrics that it shares with others."),
    ]
    numbers = Numbers(group_types={0: 2})
    for number, wanted in enumerate(reading.wanted):
        made = decided(wanted, There(), numbers, {}).body
        numbers.learn(wanted, 100 + number)
    assert (made["feature_flag_key"], made["start_date"]) == ("colours", "2025-01-01T00:00:00Z")
    assert made["parameters"] == {
        "aggregation_group_type_index": 2,
        "recommended_sample_size": 100,
    }
    [metric] = made["metrics"]
    assert metric["series"][0]["properties"][0]["value"] == numbers.of[Kind.COHORT][7]


def test_an_experiment_does_not_switch_on_a_flag_that_is_off() -> None:
    off = Definitions(flags=[colours(active=False)], experiments=[EXPERIMENT])
    assert lost(off) == {"Colours": "It runs while its flag is off, which it would switch on here."}
    plain = Definitions(flags=[flag(5, "colours")], experiments=[EXPERIMENT])
    assert "at least 2 variants" in lost(plain)["Colours"]
    ended = {**EXPERIMENT, "end_date": "2025-02-01T00:00:00Z", "conclusion": "won"}
    [_, made] = understood(Definitions(flags=[colours(active=False)], experiments=[ended])).wanted
    assert made.body["conclusion"] == "won"
    stored = {
        **ended,
        "id": 77,
        "metrics": made.body["metrics"],
        "stats_config": {},
        "exposure_criteria": {},
        "conclusion_comment": "",
    }
    there = There(items={Kind.EXPERIMENT: [stored]})
    numbers = Numbers(group_types={0: 0})
    numbers.of[Kind.COHORT][7] = 7
    assert decided(made, there, numbers, {}).differences == []


def wanted_flag(**filters: Any) -> Wanted:
    [made] = understood(Definitions(flags=[flag(1, "beta", groups(**filters))])).wanted
    return made


def test_what_is_here_is_known_by_key_and_told_by_its_difference() -> None:
    wanted = wanted_flag(payloads={"true": '{"a":  1}'}, multivariate=None)
    stored = {
        **wanted.body,
        "id": 40,
        "filters": {**groups(payloads={"true": '{"a": 1}'}), "multivariate": None},
    }
    there = There(items={Kind.FLAG: [stored]})
    same = decided(wanted, there, Numbers(), {})
    assert (same.action, same.id) == (Action.SAME, 40)
    there = There(items={Kind.FLAG: [{**stored, "active": False, "tags": []}]})
    other = decided(wanted, there, Numbers(), {})
    assert (other.action, other.differences) == (Action.DIFFERS, ["active", "tags"])


def test_cohorts_of_one_name_are_told_apart_by_what_they_ask_and_by_earlier_runs() -> None:
    free = {**PRO, "value": ["free"]}
    source = Definitions(cohorts=[cohort(1, "x", PRO), cohort(2, "x", free), cohort(3, "x", PRO)])
    first, second, third = understood(source).wanted
    stored: list[Mapping[str, Any]] = [
        {
            "id": 11,
            "name": "x",
            "is_static": False,
            "filters": second.body["filters"],
            "description": "",
        },
        {
            "id": 12,
            "name": "x",
            "is_static": False,
            "filters": first.body["filters"],
            "description": "",
        },
    ]
    there, numbers = There(items={Kind.COHORT: stored}), Numbers()
    found = []
    for wanted in (first, second, third):
        decision = decided(wanted, there, numbers, {})
        numbers.learn(wanted, decision.id)
        found.append((decision.action, decision.id))
    assert found == [(Action.SAME, 12), (Action.SAME, 11), (Action.CREATE, None)]
    known = decided(first, there, Numbers(), {1: 11})
    assert (known.action, known.id, known.differences) == (Action.DIFFERS, 11, ["filters"])
