"""Fields that an import does not know are left out, and named."""

from typing import Any

from hedgerow.importers.flagsmith import convert_flagsmith
from hedgerow.importers.model import ConversionResult
from hedgerow.importers.posthog import PostHogDefinitions, convert_posthog
from hedgerow.importers.unleash import convert_unleash

PRO = {"key": "plan", "type": "person", "value": ["pro"], "operator": "exact"}
HALVES = [{"key": key, "rollout_percentage": 50} for key in ("control", "test")]


def list_unknown(result: ConversionResult) -> list[str]:
    """Return the names of items with the paths of their unknown fields."""
    assert result.skipped == []
    before, after = "Imported without ", ", which Hedgerow does not know."
    return [
        f"{note.name} {note.text.removeprefix(before).removesuffix(after)}"
        for note in result.notes
        if note.text.startswith(before) and note.text.endswith(after)
    ]


def convert(**items: Any) -> ConversionResult:
    return convert_posthog(PostHogDefinitions(**items))


def test_flag_of_posthog() -> None:
    condition = {"properties": [PRO | {"novelty": 1}], "rollout_percentage": 5, "shade": "red"}
    filters = {"groups": [condition], "unset": None}
    result = convert(
        flags=[{"id": 1, "key": "beta", "filters": filters, "schedule": {"at": 1}, "empty": []}]
    )
    assert list_unknown(result) == [
        "beta filters.groups[0].shade",
        "beta filters.groups[0].properties[0].novelty",
        "beta schedule",
    ]
    [item] = result.items
    assert item.body["filters"] == {"groups": [{"properties": [PRO], "rollout_percentage": 5}]}


def test_cohort_of_posthog() -> None:
    properties = {"type": "AND", "values": [PRO | {"when": "now"}]}
    result = convert(
        cohorts=[{"id": 1, "name": "pros", "filters": {"properties": properties}, "size": 9}]
    )
    assert list_unknown(result) == ["pros filters.properties.values[0].when", "pros size"]


def test_survey_of_posthog() -> None:
    question = {"id": "q", "type": "open", "question": "Why?", "mood": "good"}
    survey = {"id": "1", "name": "Why", "type": "popover", "questions": [question]}
    targeting = {"filters": {"groups": [{"properties": [PRO], "moon": "full"}]}}
    result = convert(surveys=[survey | {"targeting_flag": targeting, "tone": "warm"}])
    assert list_unknown(result) == [
        "Why questions[0].mood",
        "Why targeting_flag.groups[0].moon",
        "Why tone",
    ]


def test_experiment_of_posthog() -> None:
    filters = {"groups": [{"properties": []}], "multivariate": {"variants": HALVES}}
    experiment = {
        "id": 3,
        "name": "Button",
        "feature_flag_key": "button",
        "parameters": {"luck": 7},
        "metrics": [{"metric_type": "mean", "source": {"event": "buy", "shape": "round"}}],
        "stats_config": {"method": "bayesian", "prior": 1},
        "mood": "good",
    }
    result = convert(
        flags=[{"id": 1, "key": "button", "filters": filters}], experiments=[experiment]
    )
    assert list_unknown(result) == [
        "Button parameters.luck",
        "Button metrics[0].source.shape",
        "Button stats_config.prior",
        "Button mood",
    ]


def test_strategy_of_unleash() -> None:
    region = {"contextName": "region", "operator": "IN", "values": ["eu"], "validFrom": "later"}
    strategy = {
        "name": "flexibleRollout",
        "featureName": "f",
        "parameters": {"rollout": "5", "stickiness": "default", "groupId": "f", "moon": "full"},
        "constraints": [region],
        "unset": None,
    }
    document = {
        "features": [{"name": "f", "type": "release", "enabled": True, "schedule": "later"}],
        "featureStrategies": [strategy],
    }
    assert list_unknown(convert_unleash(document, None)) == [
        "f schedule",
        "f strategy flexibleRollout.parameters.moon",
        "f strategy flexibleRollout.constraints[0].validFrom",
    ]


def test_feature_of_flagsmith() -> None:
    feature = {"name": "f", "enabled": True, "value": None, "schedule": "later", "unset": None}
    assert list_unknown(convert_flagsmith([feature])) == ["f schedule"]
