"""The parts of a flag, and its rollout in words."""

from typing import Any

import pytest

from hedgerow.flags.environments.parts import (
    PARTS,
    build_shown_item,
    describe_rollout,
    digest_parts,
    find_part,
    merge_parts,
)
from hedgerow.flags.model import REDACTED
from tests.unit.flags.factories import MATCH_ALL, build_filters, make_flag, prop, variants

ONE = {
    "key": "f",
    "name": "One",
    "active": False,
    "archived": True,
    "tags": ["a"],
    "evaluation_runtime": "server",
    "filters": {
        "groups": [{"rollout_percentage": 1}],
        "early_exit": True,
        "multivariate": {"variants": []},
        "payloads": {"true": "1"},
    },
}
OTHER = {"key": "f", "filters": {"groups": []}}


@pytest.mark.parametrize("part", PARTS)
def test_merged_parts_come_from_the_source_and_others_stay(part: str) -> None:
    merged = merge_parts(OTHER, ONE, [part])
    digests = zip(PARTS, digest_parts(merged), digest_parts(ONE), digest_parts(OTHER), strict=True)
    for name, of_merged, of_source, of_target in digests:
        assert of_merged == (of_source if name == part else of_target), name
        assert of_source != of_target


def test_all_parts_are_the_whole_flag() -> None:
    assert merge_parts(OTHER, ONE, PARTS) == ONE
    assert merge_parts(ONE, OTHER, []) == ONE


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("active", "active"),
        ("archived", "active"),
        ("tags", "tags"),
        ("bucketing_identifier", "settings"),
        ("filters.groups[0].rollout_percentage", "conditions"),
        ("filters.holdout.id", "conditions"),
        ("filters.multivariate.variants[0].key", "variants"),
        ("filters.payloads.true", "payloads"),
    ],
)
def test_path_belongs_to_a_part(path: str, part: str) -> None:
    assert find_part(path) == part


def test_encrypted_payloads_are_not_shown() -> None:
    flag = make_flag(
        {**MATCH_ALL, "payloads": {"true": "cipher"}},
        is_remote_configuration=True,
        has_encrypted_payloads=True,
    )
    item = build_shown_item(flag, lambda kind, value, place: value)
    assert item["filters"]["payloads"] == {"true": REDACTED}
    assert item["has_encrypted_payloads"]


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        (MATCH_ALL, "100 % of everyone"),
        ({"groups": []}, "no conditions"),
        ("broken", "no conditions"),
        ({"groups": [{"rollout_percentage": "x"}]}, "100 % of everyone"),
        (
            build_filters({"properties": [prop("a", "b")], "rollout_percentage": 2.5}),
            "2.5 % of those who match 1 filter",
        ),
        (
            {"groups": [{"rollout_percentage": each} for each in range(5)]},
            "0 % of everyone; 1 % of everyone; 2 % of everyone; 2 more",
        ),
        ({**MATCH_ALL, "multivariate": variants(a=40, b=60)}, "100 % of everyone (a 40 %, b 60 %)"),
    ],
)
def test_rollout_in_words(filters: Any, words: str) -> None:
    assert describe_rollout(make_flag(filters)) == words
