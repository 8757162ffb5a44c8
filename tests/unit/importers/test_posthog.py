"""Convert responses of PostHog's API."""

from collections.abc import Mapping
from typing import Any

from hedgerow.importers.matching import IdMap, ImportAction, TargetState, decide_import
from hedgerow.importers.model import ImportItem, ResourceKind
from hedgerow.importers.posthog import PostHogDefinitions, convert_posthog
from hedgerow.importers.posthog_surveys import translate_survey_properties

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
    """Return an item of `GET /api/projects/:id/feature_flags/`."""
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


def names(items: Any, kind: ResourceKind) -> list[str]:
    return [each.name for each in items if each.kind is kind]


def list_skipped(source: PostHogDefinitions) -> dict[str, str]:
    return {each.name: each.text for each in convert_posthog(source).skipped}


def test_flag_keeps_everything_that_affects_its_value() -> None:
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
    reading = convert_posthog(PostHogDefinitions(flags=[source]))
    [made] = reading.items
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
    assert reading.skipped == []


def test_items_come_after_their_dependencies() -> None:
    source = PostHogDefinitions(
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
    reading = convert_posthog(source)
    assert reading.skipped == []
    cohorts = names(reading.items, ResourceKind.COHORT)
    assert cohorts.index("outer") > max(cohorts.index("inner"), cohorts.index("list"))
    assert names(reading.items, ResourceKind.FLAG) == ["needed", "needs"]
    inner = next(each for each in reading.items if each.name == "inner")
    [[leaf]] = [each["values"] for each in inner.body["filters"]["properties"]["values"]]
    assert leaf == {name: PRO[name] for name in ("key", "type", "value", "operator", "negation")}


def test_ids_are_translated_and_group_types_match_by_name() -> None:
    size = {"key": "size", "type": "group", "group_type_index": 0, "value": 5, "operator": "gt"}
    source = PostHogDefinitions(
        group_types=[{"group_type": "company", "group_type_index": 0}],
        cohorts=[cohort(7, "inner", PRO), cohort(8, "outer", in_cohort(7))],
        flags=[
            flag(1, "a", groups(in_cohort(8, operator="in"))),
            flag(2, "b", groups({"key": "1", "type": "flag", "value": True})),
            flag(3, "c", groups(size, aggregation_group_type_index=0)),
        ],
    )
    reading = convert_posthog(source)
    assert (reading.skipped, reading.group_types) == ([], {0: "company"})
    numbers = IdMap(group_types={0: 3})
    bodies = {}
    for number, item in enumerate(reading.items):
        bodies[item.name] = decide_import(item, TargetState(), numbers, {}).body
        numbers.add(item, 100 + number)
    outer = bodies["outer"]["filters"]["properties"]["values"][0]["values"][0]
    assert outer["value"] == numbers.ids[ResourceKind.COHORT][7]
    of_flag = {key: bodies[key]["filters"]["groups"][0]["properties"][0] for key in "abc"}
    assert of_flag["a"]["value"] == numbers.ids[ResourceKind.COHORT][8]
    assert of_flag["b"]["key"] == str(numbers.ids[ResourceKind.FLAG][1])
    assert of_flag["c"]["group_type_index"] == 3
    assert bodies["c"]["filters"]["aggregation_group_type_index"] == 3


def test_unsupported_items_are_skipped_with_a_reason() -> None:
    new = {"key": "a", "type": "person", "value": "x", "operator": "sounds_like"}
    source = PostHogDefinitions(
        cohorts=[
            cohort(1, "active users", {**DID, "value": "performed_event_regularly"}),
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
    assert convert_posthog(source).items == []
    assert list_skipped(source) == {
        "active users": "filters.properties.values[0].values[0].value: "
        "`performed_event_regularly` is not supported. It needs counts of each period, which are "
        "not kept. Expected one of: performed_event, performed_event_multiple, "
        "performed_event_first_time, performed_event_sequence, stopped_performing_event.",
        "of those": "It refers to 'active users', which is not imported.",
        "oldest": "It counts an action, and actions are not imported. Create both here.",
        "circle": "It refers to itself through other cohorts.",
        "round": "It refers to itself through other cohorts.",
        "behaving": "It refers to 'of those', which is not imported.",
        "needs": "It refers to 'behaving', which is not imported.",
        "unheard": 'filters.groups[0].properties[0].operator: "sounds_like" is no operator for a '
        "property.",
        "sealed": "Its payload is encrypted and cannot be read from the source: create the flag by "
        "hand.",
        "a key!": "key: Only letters, numbers, hyphens (-) & underscores (_) are allowed.",
        "Bird": "Its flag is not imported.",
        "NPS": "type: The type None has no equivalent here.",
        "How is it?": "Its linked flag is not imported.",
        "Odd": 'questions[0].type: "hum" is not a valid choice.',
        "Colours": "Its flag is not imported.",
    }


def test_cohort_of_the_oldest_format_is_converted() -> None:
    source = cohort(1, "old", filters=None, groups=[{"properties": [PRO]}, {"properties": [PRO]}])
    [made] = convert_posthog(PostHogDefinitions(cohorts=[source])).items
    definition = made.body["filters"]["properties"]
    assert (definition["type"], [each["type"] for each in definition["values"]]) == (
        "OR",
        ["AND", "AND"],
    )


def test_feature_makes_its_flag_follow_enrollment() -> None:
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
    source = PostHogDefinitions(
        flags=[flag(1, "bird", older), flag(2, "many", groups(multivariate=variants))],
        features=[
            feature | {"feature_flag": flag(1, "bird", older)},
            feature | {"id": "b", "name": "Many", "feature_flag": flag(2, "many")},
            feature | {"id": "c", "name": "Without flag", "feature_flag": None},
            feature
            | {"id": "d", "name": "Script", "feature_flag": flag(1, "bird", older)}
            | {"documentation_url": "javascript:alert(1)"},
        ],
    )
    reading = convert_posthog(source)
    bird, _, made = reading.items
    assert bird.body["filters"].keys() == {"groups", "feature_enrollment"}
    assert bird.body["filters"]["feature_enrollment"] is True
    assert (made.name, made.body["feature_flag_id"]) == ("Bird", 1)
    assert [(each.name, each.text) for each in reading.skipped] == [
        ("Many", "Its flag has variants, which early access features here do not support."),
        ("Without flag", "Its flag is not imported."),
        ("Script", "documentation_url: Enter a valid URL."),
    ]


def test_survey_keeps_its_targeting_and_drops_its_generated_flags() -> None:
    chosen = groups(in_cohort(7, operator="in"))
    source = PostHogDefinitions(
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
    reading = convert_posthog(source)
    assert reading.skipped == []
    assert names(reading.items, ResourceKind.FLAG) == ["linked"]
    numbers = IdMap()
    for number, item in enumerate(reading.items):
        body = decide_import(item, TargetState(), numbers, {}).body
        numbers.add(item, 100 + number)
    assert body["linked_flag_id"] == numbers.ids[ResourceKind.FLAG][3]
    [target] = body["targeting_flag_filters"]["groups"][0]["properties"]
    assert target["value"] == numbers.ids[ResourceKind.COHORT][7]
    for name in ("questions", "conditions", "appearance", "start_date", "schedule"):
        assert body[name] == SURVEY[name]
    assert body.keys().isdisjoint({"id", "internal_targeting_flag", "created_by"})


def test_survey_matches_by_name() -> None:
    [item] = convert_posthog(PostHogDefinitions(surveys=[SURVEY])).items
    question = {**SURVEY["questions"][0], "id": "another"}
    stored = {
        **SURVEY,
        "id": "here",
        "start_date": "2024-08-01T00:00:00Z",
        "questions": [question],
    }
    target = TargetState(items={ResourceKind.SURVEY: [stored]})
    assert decide_import(item, target, IdMap(), {}).action is ImportAction.SAME
    target = TargetState(items={ResourceKind.SURVEY: [{**stored, "questions": []}]})
    assert decide_import(item, target, IdMap(), {}).differences == ["questions"]


def test_survey_properties_get_the_ids_of_the_target() -> None:
    properties = {
        "$survey_id": "there",
        "$survey_responded/there": True,
        "$survey_dismissed/there/2": True,
        "$survey_responded/unknown": True,
        "$set": {"$survey_responded/there": True},
        "$survey_response_q1": "9",
    }
    assert translate_survey_properties(properties, {"there": "here"}) == {
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


def test_experiment_keeps_its_supported_metrics() -> None:
    source = PostHogDefinitions(
        group_types=[{"group_type": "company", "group_type_index": 0}],
        cohorts=[cohort(7, "pro", PRO)],
        flags=[colours()],
        experiments=[EXPERIMENT],
    )
    reading = convert_posthog(source)
    assert [(each.name, each.text) for each in reading.notes] == [
        (
            "Colours",
            "Imported without the metric 'By action': Actions are not imported. Create the action, "
            "then add the metric.",
        ),
        (
            "Colours",
            'Imported without its stats_config: "odd" is not supported. Expected one of: bayesian, '
            "frequentist.",
        ),
        ("Colours", "Imported without its shared metrics."),
    ]
    numbers = IdMap(group_types={0: 2})
    for number, item in enumerate(reading.items):
        made = decide_import(item, TargetState(), numbers, {}).body
        numbers.add(item, 100 + number)
    assert (made["feature_flag_key"], made["start_date"]) == ("colours", "2025-01-01T00:00:00Z")
    assert made["parameters"] == {
        "aggregation_group_type_index": 2,
        "recommended_sample_size": 100,
    }
    [metric] = made["metrics"]
    assert metric["series"][0]["properties"][0]["value"] == numbers.ids[ResourceKind.COHORT][7]


def test_experiment_does_not_turn_on_a_flag() -> None:
    off = PostHogDefinitions(flags=[colours(active=False)], experiments=[EXPERIMENT])
    reason = "It runs while its flag is off. Importing it would turn the flag on."
    assert list_skipped(off) == {"Colours": reason}
    plain = PostHogDefinitions(flags=[flag(5, "colours")], experiments=[EXPERIMENT])
    assert "at least 2 variants" in list_skipped(plain)["Colours"]
    ended = {**EXPERIMENT, "end_date": "2025-02-01T00:00:00Z", "conclusion": "won"}
    [_, made] = convert_posthog(
        PostHogDefinitions(flags=[colours(active=False)], experiments=[ended])
    ).items
    assert made.body["conclusion"] == "won"
    stored = {
        **ended,
        "id": 77,
        "metrics": made.body["metrics"],
        "stats_config": {},
        "exposure_criteria": {},
        "conclusion_comment": "",
    }
    target = TargetState(items={ResourceKind.EXPERIMENT: [stored]})
    numbers = IdMap(group_types={0: 0})
    numbers.ids[ResourceKind.COHORT][7] = 7
    assert decide_import(made, target, numbers, {}).differences == []


def make_import_item(**filters: Any) -> ImportItem:
    [made] = convert_posthog(PostHogDefinitions(flags=[flag(1, "beta", groups(**filters))])).items
    return made


def test_flag_matches_by_key_and_shows_its_differences() -> None:
    item = make_import_item(payloads={"true": '{"a":  1}'}, multivariate=None)
    stored = {
        **item.body,
        "id": 40,
        "filters": {**groups(payloads={"true": '{"a": 1}'}), "multivariate": None},
    }
    target = TargetState(items={ResourceKind.FLAG: [stored]})
    same = decide_import(item, target, IdMap(), {})
    assert (same.action, same.id) == (ImportAction.SAME, 40)
    target = TargetState(items={ResourceKind.FLAG: [{**stored, "active": False, "tags": []}]})
    other = decide_import(item, target, IdMap(), {})
    assert (other.action, other.differences) == (ImportAction.DIFFERS, ["active", "tags"])


def test_cohorts_with_the_same_name_match_by_definition_and_recorded_id() -> None:
    free = {**PRO, "value": ["free"]}
    source = PostHogDefinitions(
        cohorts=[cohort(1, "x", PRO), cohort(2, "x", free), cohort(3, "x", PRO)]
    )
    first, second, third = convert_posthog(source).items
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
    target, numbers = TargetState(items={ResourceKind.COHORT: stored}), IdMap()
    found = []
    for item in (first, second, third):
        decision = decide_import(item, target, numbers, {})
        numbers.add(item, decision.id)
        found.append((decision.action, decision.id))
    assert found == [(ImportAction.SAME, 12), (ImportAction.SAME, 11), (ImportAction.CREATE, None)]
    known = decide_import(first, target, IdMap(), {1: 11})
    assert (known.action, known.id, known.differences) == (ImportAction.DIFFERS, 11, ["filters"])
