"""Convert a Flagsmith export."""

from typing import Any

import pytest

from hedgerow.errors import Invalid
from hedgerow.importers.flagsmith import convert_flagsmith


def exported(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "default_enabled": False,
        "is_server_key_only": False,
        "initial_value": None,
        "value": None,
        "type": "unicode",
        "enabled": True,
        "multivariate": [],
        **more,
    }


def option(value: Any, part: float) -> dict[str, Any]:
    return {
        "percentage_allocation": part,
        "default_percentage_allocation": 0,
        "value": value,
        "type": "unicode",
    }


def state(name: str, **more: Any) -> dict[str, Any]:
    return {
        "feature": {"id": 15058, "name": name, "type": "STANDARD"},
        "enabled": True,
        "feature_state_value": None,
        "django_id": 78978,
        "feature_segment": None,
        "multivariate_feature_state_values": [],
        **more,
    }


def condition(operator: str, name: str, value: Any) -> dict[str, Any]:
    return {"operator": operator, "property_": name, "value": value}


def rule(kind: str, *conditions: Any, rules: Any = ()) -> dict[str, Any]:
    return {"type": kind, "rules": list(rules), "conditions": list(conditions)}


def segment(name: str, flag: dict[str, Any], *rules: Any) -> dict[str, Any]:
    return {"id": 16, "name": name, "rules": list(rules), "feature_states": [flag]}


def environment(*states: Any, segments: Any = ()) -> dict[str, Any]:
    return {
        "id": 12561,
        "api_key": "n9fbf9h3v4fFgH3U3ngWhb",
        "project": {"id": 5359, "name": "Shop", "segments": list(segments)},
        "feature_states": list(states),
    }


def bodies(document: Any) -> dict[str, Any]:
    return {each.name: each.body for each in convert_flagsmith(document).items}


def groups(*rules: Any) -> Any:
    """Return the condition sets of a flag that only one segment turns on."""
    own = segment("s", state("f"), rule("ALL", rules=rules))
    document = environment(state("f", enabled=False), segments=[own])
    reading = convert_flagsmith(document)
    assert not reading.items or reading.items[0].body["active"]
    if reading.skipped:
        return [each.text for each in reading.skipped]
    return [
        (
            [(each["key"], each["operator"], each["value"]) for each in group["properties"]],
            group["rollout_percentage"],
        )
        for group in reading.items[0].body["filters"]["groups"]
    ]


def test_values_become_payloads_and_multivariate_values_become_variants() -> None:
    found = bodies(
        [
            exported("plain"),
            exported("off", enabled=False, value="x"),
            exported("number", value=1234, type="int"),
            exported(
                "many",
                value="foo",
                multivariate=[option("bar", 30), option("a b", 20.5), option("never", 0)],
            ),
            exported("in all", value="x", multivariate=[option("x", 100)]),
        ]
    )
    assert found["plain"]["filters"] == {"groups": [{"properties": [], "rollout_percentage": 100}]}
    assert (found["off"]["active"], found["plain"]["active"]) == (False, True)
    assert found["off"]["filters"]["payloads"] == {"true": '"x"'}
    assert found["number"]["filters"]["payloads"] == {"true": "1234"}
    assert found["many"]["filters"]["multivariate"]["variants"] == [
        {"key": "control", "rollout_percentage": 49.5},
        {"key": "bar", "rollout_percentage": 30},
        {"key": "option-2", "rollout_percentage": 20.5},
    ]
    assert found["many"]["filters"]["payloads"] == {
        "control": '"foo"',
        "bar": '"bar"',
        "option-2": '"a b"',
    }
    assert found["in-all"]["filters"]["multivariate"]["variants"][0]["rollout_percentage"] == 0


def test_environment_document_gives_the_same_flags() -> None:
    many = [
        {"id": 1, "percentage_allocation": 30.0, "multivariate_feature_option": {"value": "baz"}},
        {"id": 2, "percentage_allocation": 0.0, "multivariate_feature_option": {"value": True}},
    ]
    found = bodies(
        environment(
            state("text", feature_state_value="foo"),
            state("off", enabled=False),
            state("many", feature_state_value="foo", multivariate_feature_state_values=many),
        )
    )
    assert found["text"]["filters"]["payloads"] == {"true": '"foo"'}
    assert [found[name]["active"] for name in ("text", "off", "many")] == [True, False, True]
    assert [each["key"] for each in found["many"]["filters"]["multivariate"]["variants"]] == [
        "control",
        "baz",
    ]


def test_segments_become_condition_sets() -> None:
    grown = rule("ANY", condition("GREATER_THAN_INCLUSIVE", "age", "21"))
    coloured = rule(
        "ANY", condition("EQUAL", "colour", "green"), condition("EQUAL", "colour", "blue")
    )
    assert groups(grown, coloured) == [
        ([("age", "gte", "21"), ("colour", "exact", "green")], 100),
        ([("age", "gte", "21"), ("colour", "exact", "blue")], 100),
    ]
    split = rule("ANY", condition("PERCENTAGE_SPLIT", "", "10"))
    assert groups(grown, split) == [([("age", "gte", "21")], 10)]
    none = rule("NONE", condition("CONTAINS", "email", "@x.y"), condition("IS_SET", "b", None))
    assert groups(none) == [
        ([("email", "not_regex", r"(?:@x\.y)"), ("b", "is_not_set", None)], 100)
    ]
    several = rule(
        "ALL",
        condition("IN", "c", "a,b"),
        condition("REGEX", "d", r"\d+"),
        condition("LESS_THAN", "e", "1.2.3:semver"),
    )
    assert groups(several) == [
        (
            [("c", "exact", ["a", "b"]), ("d", "regex", r"^(?:\d+)"), ("e", "semver_lt", "1.2.3")],
            100,
        )
    ]


def test_person_without_the_trait_does_not_match_a_negated_condition() -> None:
    other = (
        condition("NOT_EQUAL", "plan", "free"),
        condition("NOT_CONTAINS", "email", "@x"),
        condition("NOT_EQUAL", "version", "1.2.3:semver"),
    )
    assert groups(rule("ALL", *other)) == [
        (
            [
                ("plan", "is_not", "free"),
                ("plan", "is_set", "is_set"),
                ("email", "not_regex", "(?:@x)"),
                ("email", "is_set", "is_set"),
                ("version", "semver_neq", "1.2.3"),
                ("version", "is_set", "is_set"),
            ],
            100,
        )
    ]
    assert groups(rule("NONE", condition("EQUAL", "plan", "free"))) == [
        ([("plan", "is_not", "free")], 100)
    ]
    assert groups(rule("NONE", condition("NOT_EQUAL", "plan", "free"))) == [
        ([("plan", "exact", "free")], 100),
        ([("plan", "is_not_set", "is_not_set")], 100),
    ]


def test_unsupported_flags_are_skipped_with_a_reason() -> None:
    assert groups(rule("ALL", condition("MODULO", "n", "2|0"))) == [
        "Segment s: the operator MODULO has no equivalent here."
    ]
    wide = rule("ANY", *(condition("EQUAL", f"p{n}", "x") for n in range(5)))
    assert groups(wide, wide) == ["Segment s: it needs more than 20 condition sets."]
    assert groups(rule("NONE", condition("PERCENTAGE_SPLIT", "", "10"))) == [
        "Segment s: one of its conditions has no opposite operator here."
    ]
    simple = rule("ALL", condition("EQUAL", "a", "b"))
    document = environment(
        state("turned-off"),
        state("other-value", feature_state_value="a"),
        state("named"),
        segments=[
            segment("x", state("turned-off", enabled=False), simple),
            segment("y", state("other-value", feature_state_value="b"), simple),
        ],
    )
    document["identity_overrides"] = [{"identifier": "ann", "identity_features": [state("named")]}]
    reading = convert_flagsmith(document)
    assert {each.name: each.text for each in reading.skipped} == {
        "turned-off": "Segment x turns it off, and a condition here cannot turn a flag off.",
        "other-value": "Segment y gets a different value.",
    }
    assert [(each.name, each.text) for each in reading.notes] == [
        ("named", "Overrides for single identities are not imported.")
    ]
    odd = [
        exported("too much", multivariate=[option("a", 60), option("b", 60)]),
        exported("no part", multivariate=[option("a", 160)]),
        7,
        exported("ünder"),
    ]
    reading = convert_flagsmith(odd)
    assert {each.name: each.text for each in reading.skipped} == {
        "too much": "The percentages of its values add up to more than 100.",
        "no part": "160 is not a percentage from 0 to 100.",
        "number 3": "It is not a JSON object.",
    }
    assert [each.text for each in reading.notes] == [
        "Its key here is -nder: keys have letters, digits, _ and - only."
    ]


@pytest.mark.parametrize("document", [None, {}, {"features": []}, "x", {"feature_states": 1}])
def test_another_document_is_rejected(document: Any) -> None:
    with pytest.raises(Invalid, match="not a Flagsmith export"):
        convert_flagsmith(document)
