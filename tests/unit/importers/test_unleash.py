"""Convert an Unleash export."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.importers.model import ConversionResult
from hedgerow.importers.unleash import convert_unleash


def feature(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"about {name}",
        "type": "release",
        "project": "default",
        "stale": False,
        "impressionData": False,
        "archived": False,
        **more,
    }


def strategy(feature: str, name: str = "flexibleRollout", **more: Any) -> dict[str, Any]:
    parameters = {"groupId": feature, "rollout": "50", "stickiness": "default"}
    return {
        "name": name,
        "id": f"{feature}-{name}",
        "featureName": feature,
        "title": None,
        "parameters": parameters if name == "flexibleRollout" else {},
        "constraints": [],
        "variants": [],
        "disabled": False,
        "segments": [],
        **more,
    }


def constraint(operator: str, name: str = "region", *values: str, **more: Any) -> dict[str, Any]:
    return {
        "contextName": name,
        "operator": operator,
        "values": list(values),
        "inverted": False,
        "caseInsensitive": False,
        **more,
    }


def export(*strategies: Any, features: Any = None, **more: Any) -> dict[str, Any]:
    names = dict.fromkeys(each["featureName"] for each in strategies)
    features = features or [feature(name) for name in names]
    return {
        "features": features,
        "featureStrategies": list(strategies),
        "featureEnvironments": [
            {
                "name": each["name"],
                "featureName": each["name"],
                "environment": "production",
                "enabled": True,
                "variants": [],
            }
            for each in features
        ],
        "contextFields": [],
        "featureTags": [],
        "segments": [],
        "tagTypes": [],
        "dependencies": [],
        **more,
    }


def filters(reading: ConversionResult) -> Any:
    [only] = reading.items
    return only.body["filters"]


def convert(*constraints: Any, **more: Any) -> Any:
    """Return the filters that constraints become, and the notes."""
    reading = convert_unleash(export(strategy("f", constraints=list(constraints)), **more), None)
    [group] = filters(reading)["groups"]
    found = [(each["key"], each["operator"], each["value"]) for each in group["properties"]]
    return found, [each.text for each in reading.notes]


def test_strategies_become_condition_sets() -> None:
    document = export(
        strategy("f", constraints=[constraint("IN", "region", "eu", "us")]),
        strategy("f", "userWithId", parameters={"userIds": "ann, ben,"}),
        strategy("f", "gradualRolloutUserId", parameters={"percentage": "12.5", "groupId": "f"}),
        strategy("f", "default"),
        featureTags=[{"featureName": "f", "tagType": "simple", "tagValue": "old"}],
    )
    reading = convert_unleash(document, "production")
    assert (reading.skipped, reading.notes) == ([], [])
    [made] = reading.items
    assert {name: made.body[name] for name in ("key", "name", "active", "tags")} == {
        "key": "f",
        "name": "about f",
        "active": True,
        "tags": ["old"],
    }

    def of(key: str, *values: str) -> list[dict[str, Any]]:
        return [{"key": key, "type": "person", "operator": "exact", "value": list(values)}]

    assert made.body["filters"]["groups"] == [
        {"properties": of("region", "eu", "us"), "rollout_percentage": 50},
        {"properties": of("distinct_id", "ann", "ben"), "rollout_percentage": 100},
        {"properties": [], "rollout_percentage": 12.5},
        {"properties": [], "rollout_percentage": 100},
    ]


@pytest.mark.parametrize(
    ("operator", "more", "expected"),
    [
        ("IN", {}, ("exact", ["a", "b"])),
        ("NOT_IN", {}, ("is_not", ["a", "b"])),
        ("IN", {"inverted": True}, ("is_not", ["a", "b"])),
        ("STR_CONTAINS", {}, ("regex", "(?:a|b)")),
        ("STR_STARTS_WITH", {"caseInsensitive": True}, ("regex", "(?i)^(?:a|b)")),
        ("STR_ENDS_WITH", {"inverted": True}, ("not_regex", "(?:a|b)$")),
        ("NUM_EQ", {"value": "5"}, ("between", ["5", "5"])),
        ("NUM_GTE", {"value": "5"}, ("gte", "5")),
        (
            "DATE_AFTER",
            {"value": "2026-01-01T00:00:00Z"},
            ("is_date_after", "2026-01-01T00:00:00Z"),
        ),
        ("SEMVER_LT", {"value": "1.2.3"}, ("semver_lt", "1.2.3")),
    ],
)
def test_constraints_become_filters(operator: str, more: Any, expected: Any) -> None:
    values = () if "value" in more else ("a", "b")
    assert convert(constraint(operator, "region", *values, **more)) == ([("region", *expected)], [])


def test_inverted_comparison_does_not_match_a_missing_property() -> None:
    found, notes = convert(constraint("NUM_GT", "age", value="5", inverted=True))
    assert found == [("age", "lte", "5")]
    assert notes == ["Persons without age match in Unleash and do not match here."]


def test_segments_become_filters() -> None:
    segment = {"id": 4, "name": "eu", "constraints": [constraint("IN", "region", "eu")]}
    document = export(
        strategy("f", segments=[4], constraints=[constraint("IN", "plan", "pro")]),
        segments=[segment],
    )
    [group] = filters(convert_unleash(document, None))["groups"]
    assert [each["key"] for each in group["properties"]] == ["plan", "region"]
    assert [
        each.text for each in convert_unleash(export(strategy("f", segments=[4])), None).skipped
    ] == ["Imported without its strategy flexibleRollout: the export lacks its segment 4."]


def test_variants_keep_their_weights_and_payloads() -> None:
    variants = [
        {
            "name": "a",
            "weight": 333,
            "payload": {"type": "string", "value": "green"},
            "stickiness": "default",
        },
        {"name": "b", "weight": 333, "payload": {"type": "json", "value": '{"x": 1}'}},
        {"name": "c", "weight": 334, "payload": {"type": "number", "value": "7"}},
    ]
    made = filters(convert_unleash(export(strategy("f", variants=variants)), None))
    assert made["multivariate"]["variants"] == [
        {"key": "a", "rollout_percentage": 33.3},
        {"key": "b", "rollout_percentage": 33.3},
        {"key": "c", "rollout_percentage": 33.4},
    ]
    assert made["payloads"] == {"a": '"green"', "b": '{"x": 1}', "c": "7"}


def test_variant_overrides_become_conditions() -> None:
    document = export(strategy("f"))
    document["featureEnvironments"][0]["variants"] = [
        {"name": "a", "weight": 500, "overrides": [{"contextName": "userId", "values": ["ann"]}]},
        {"name": "b", "weight": 500},
    ]
    first, second = filters(convert_unleash(document, None))["groups"]
    assert (first["variant"], first["properties"][0]["key"]) == ("a", "distinct_id")
    assert (second["rollout_percentage"], "variant" in second) == (50, False)


def test_dependencies_are_filters_of_every_condition_set() -> None:
    document = export(
        strategy("child"),
        strategy("child", "default"),
        strategy("parent"),
        dependencies=[
            {"feature": "child", "dependencies": [{"feature": "parent", "enabled": True}]}
        ],
    )
    reading = convert_unleash(document, None)
    parent, child = reading.items
    assert (parent.name, child.name) == ("parent", "child")
    assert [
        [(each["key"], each["value"]) for each in group["properties"]]
        for group in child.body["filters"]["groups"]
    ] == [[(str(parent.source_id), True)]] * 2


def test_strategies_and_dependencies_inside_of_a_feature_count() -> None:
    """As in exports of Unleash 3 and responses of the client API: without them, a flag would be on
    for everyone."""
    parent = feature("parent", enabled=True, strategies=[strategy("parent", "default")])
    child = feature(
        "child",
        enabled=True,
        strategies=[{"name": "flexibleRollout", "parameters": {"rollout": "50"}}],
        dependencies=[{"feature": "parent", "enabled": True, "variants": []}],
    )
    [_, converted] = convert_unleash({"version": 1, "features": [parent, child]}, None).items
    [group] = converted.body["filters"]["groups"]
    assert group["rollout_percentage"] == 50
    assert [each["type"] for each in group["properties"]] == ["flag"]


def test_strategies_inside_of_environments_count() -> None:
    """As in responses of the admin API: without them, a flag would be on for everyone."""
    rollout = {"name": "flexibleRollout", "parameters": {"rollout": "5"}, "colour": "red"}
    environments = [
        {"name": "dev", "enabled": False, "strategies": [{"name": "default"}]},
        {
            "name": "production",
            "enabled": True,
            "strategies": [rollout],
            "releasePlans": [{"a": 1}],
        },
    ]
    document = {"features": [feature("f", environments=environments)]}
    with pytest.raises(Invalid, match="Choose one with --environment: dev, production"):
        convert_unleash(document, None)
    converted = convert_unleash(document, "production")
    [dev], [production] = convert_unleash(document, "dev").items, converted.items
    assert (dev.body["active"], production.body["active"]) == (False, True)
    assert dev.body["filters"]["groups"][0]["rollout_percentage"] == 100
    assert production.body["filters"]["groups"][0]["rollout_percentage"] == 5
    assert [note.text.split(",")[0] for note in converted.notes] == [
        "Imported without environment.releasePlans",
        "Imported without strategy flexibleRollout.colour",
    ]


def test_unsupported_parts_are_skipped_with_a_reason() -> None:
    document = export(
        strategy("by-ip", "remoteAddress", parameters={"IPs": "10.0.0.1"}),
        strategy("now", constraints=[constraint("DATE_AFTER", "currentTime", value="2026-01-01")]),
        strategy("some", "applicationHostname"),
        strategy("some", "default"),
        strategy("torn", variants=[{"name": "a", "weight": 1000}]),
        strategy("torn", "default"),
        strategy("session", parameters={"rollout": "10", "stickiness": "sessionId"}),
        strategy("off", disabled=True),
        strategy("team.flag"),
        features=[
            *(feature(name) for name in ("by-ip", "now", "some", "torn", "session", "off")),
            feature("team.flag"),
            feature("team flag"),
            feature("old", archived=True),
            feature("bare"),
        ],
    )
    reading = convert_unleash(document, None)
    assert {each.name: each.text for each in reading.skipped} == {
        "by-ip": "Imported without its strategy remoteAddress: it has no equivalent here.",
        "now": "Imported without its strategy flexibleRollout: it uses currentTime, which is not a "
        "person property.",
        "torn": "Its strategies have different variants.",
        "team flag": "Its key would be team-flag, as that of team.flag.",
        "old": "It is archived.",
    }
    assert {each.name: each.text for each in reading.notes} == {
        "some": "Imported without its strategy applicationHostname: it has no equivalent here.",
        "session": "It buckets by sessionId; here it buckets by distinct id.",
        "team.flag": "Its key here is team-flag: keys have letters, digits, _ and - only.",
    }
    rollouts = {
        each.name: [group["rollout_percentage"] for group in each.body["filters"]["groups"]]
        for each in reading.items
    }
    assert rollouts == {
        "some": [100],
        "session": [10],
        "off": [0],
        "team-flag": [50],
        "bare": [100],
    }


def test_environment_must_be_named_if_there_are_several() -> None:
    document = export(
        strategy("f", environment="production"), strategy("f", "default", environment="dev")
    )
    document["featureEnvironments"].append(
        {"featureName": "f", "environment": "dev", "enabled": False, "variants": []}
    )
    with pytest.raises(Invalid, match="Choose one with --environment: dev, production"):
        convert_unleash(document, None)
    with pytest.raises(Invalid, match="There is no environment staging"):
        convert_unleash(document, "staging")
    [dev], [production] = (convert_unleash(document, name).items for name in ("dev", "production"))
    assert (dev.body["active"], production.body["active"]) == (False, True)
    assert dev.body["filters"]["groups"][0]["rollout_percentage"] == 100
    assert production.body["filters"]["groups"][0]["rollout_percentage"] == 50


@pytest.mark.parametrize("document", [None, [], {}, {"features": {}}, "x"])
def test_another_document_is_rejected(document: Any) -> None:
    with pytest.raises(Invalid, match="not an Unleash export"):
        convert_unleash(document, None)
