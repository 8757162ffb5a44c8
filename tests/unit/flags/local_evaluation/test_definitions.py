"""The definitions for local evaluation, and their parity with server evaluation."""

from typing import Any

import pytest

from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.local_evaluation.cache import LocalEvaluationCache
from hedgerow.flags.local_evaluation.definitions import (
    MAX_CHAIN_KEYS,
    MAX_SETS,
    SERVER_CONDITION,
    SdkProfile,
    build_local_definitions,
)
from hedgerow.flags.model import Bucketing, Flag, FlagDefinitions
from hedgerow.lib import jsonio
from hedgerow.lib.threads import run_in_thread
from hedgerow.persons.model import Cohort
from tests.support.call_counter import count_calls
from tests.unit.flags.factories import (
    build_filters,
    depends_on,
    in_cohort,
    make_cohort,
    make_flag,
    prop,
)
from tests.unit.flags.stores import FakeFlagStore
from tests.unit.projects.factories import make_project

WITHOUT_COHORTS = SdkProfile.OLDER_WITHOUT_COHORTS
each_profile = pytest.mark.parametrize("profile", SdkProfile)


def local_definitions(
    *flags: Flag, cohorts: tuple[Cohort, ...] = (), profile: SdkProfile = SdkProfile.CURRENT
) -> dict[str, Any]:
    definitions = FlagDefinitions(
        generation=1, flags=flags, cohorts=cohorts, group_types={"company": 0}, timezone="UTC"
    )
    # Through JSON, like the response to an SDK.
    answer: dict[str, Any] = jsonio.decode(
        jsonio.encode(build_local_definitions(definitions, profile))
    )
    return answer


def local_groups(filters: Any, *cohorts: Cohort) -> Any:
    answer = local_definitions(make_flag(filters), cohorts=cohorts, profile=WITHOUT_COHORTS)
    assert answer["cohorts"] == {}
    return answer["flags"][0]["filters"]["groups"]


@each_profile
def test_definition_has_the_fields_that_sdks_need(profile: SdkProfile) -> None:
    flag = make_flag(name="A flag", version=3, evaluation_contexts=("web",), tags=("secret",))
    assert local_definitions(flag, profile=profile) == {
        "flags": [
            {
                "id": 1,
                "team_id": 1,
                "name": "A flag",
                "key": "flag-1",
                "filters": {"groups": [{}]},
                "deleted": False,
                "active": True,
                "ensure_experience_continuity": False,
                "has_encrypted_payloads": False,
                "version": 3,
                "evaluation_runtime": "all",
                "evaluation_tags": ["web"],
                "bucketing_identifier": "distinct_id",
            }
        ],
        "group_type_mapping": {"0": "company"},
        "cohorts": {},
    }


@each_profile
def test_inactive_flags_are_included_and_remote_configurations_are_not(
    profile: SdkProfile,
) -> None:
    answer = local_definitions(
        make_flag(id=1, active=False),
        make_flag(id=2, is_remote_configuration=True),
        make_flag(id=3, deleted=True),
        profile=profile,
    )
    assert [(each["key"], each["active"]) for each in answer["flags"]] == [("flag-1", False)]


@each_profile
def test_survey_flags_are_left_out_and_their_dependents_need_the_server(
    profile: SdkProfile,
) -> None:
    dependency = {"key": "1", "type": "flag", "operator": "flag_evaluates_to", "value": True}
    answer = local_definitions(
        make_flag(id=1, key="survey-targeting-1-custom"),
        make_flag({"groups": [{"properties": [dependency]}]}, id=2),
        profile=profile,
    )
    [flag] = answer["flags"]
    assert flag["key"] == "flag-2"
    assert flag["filters"]["groups"][0]["properties"][0]["dependency_chain"] == []


@pytest.mark.parametrize(
    "filters", [[1], None, "x", {}, {"groups": 7}, {"groups": [7]}, {"groups": [{"properties": 7}]}]
)
def test_invalid_stored_filters_are_left_out(filters: Any) -> None:
    assert local_definitions(make_flag(filters), profile=WITHOUT_COHORTS)["flags"] == []


def test_nested_cohorts_are_included_without_static_ones() -> None:
    inner = {"type": "AND", "values": [prop("plan", "pro")]}
    outer = {"type": "OR", "values": [in_cohort(1), in_cohort(3), in_cohort(2)]}
    cohorts = (make_cohort(1, inner), make_cohort(2, outer), make_cohort(3), make_cohort(4, inner))
    flag = make_flag(build_filters({"properties": [in_cohort(2)]}))
    for profile in (SdkProfile.CURRENT, SdkProfile.OLDER):
        answer = local_definitions(flag, cohorts=cohorts, profile=profile)
        assert answer["cohorts"] == {"1": inner, "2": outer}


def test_empty_cohort_needs_the_server() -> None:
    flag = make_flag(build_filters({"properties": [in_cohort(1)]}))
    nothing = Cohort(**{name: getattr(make_cohort(1, {}), name) for name in Cohort.__slots__})
    assert local_definitions(flag, cohorts=(nothing,))["cohorts"] == {}


def test_cohorts_are_expanded_into_conditions() -> None:
    pro, big, near = prop("plan", "pro"), prop("size", 9, "gt"), prop("country", "NO")
    cohort = make_cohort(
        1,
        {
            "type": "OR",
            "values": [
                {"type": "AND", "values": [pro | {"negation": False}, big]},
                {"type": "OR", "values": [near]},
            ],
        },
    )
    alone = {"properties": [in_cohort(1)], "rollout_percentage": 20, "variant": "a"}
    first, last = {"properties": [pro]}, {"properties": [big]}
    assert local_groups(build_filters(first, alone, last), cohort) == [
        first,
        alone | {"properties": [pro, big]},
        alone | {"properties": [near]},
        last,
    ]
    assert local_groups(build_filters({"properties": [big, in_cohort("1")]}), cohort) == [
        {"properties": [big, pro, big]},
        {"properties": [big, near]},
    ]


MANY = {"type": "OR", "values": [prop("n", n) for n in range(MAX_SETS + 1)]}


@pytest.mark.parametrize(
    ("filter", "cohort"),
    [
        (in_cohort(1), make_cohort(1)),
        (in_cohort(2), make_cohort(1)),
        (in_cohort(1, "not_in"), make_cohort(1, {"type": "AND", "values": [prop("a", 1)]})),
        (in_cohort(1), make_cohort(1, {"type": "AND", "values": [prop("a", 1, negation=True)]})),
        (in_cohort(1), make_cohort(1, MANY)),
        (in_cohort(1), make_cohort(1, {"type": "AND", "values": [in_cohort(1)]})),
        (in_cohort(1), make_cohort(1, {"type": "XOR", "values": [prop("a", 1)]})),
        (in_cohort(1), make_cohort(1, {"type": "AND", "values": [{"type": "behavioral"}]})),
    ],
)
def test_cohort_that_cannot_be_expanded_needs_the_server(
    filter: dict[str, Any], cohort: Cohort
) -> None:
    condition = {"properties": [filter]}
    assert local_groups(build_filters(condition), cohort) == [condition]


@pytest.mark.parametrize(
    ("filters", "fields", "by_current", "by_older"),
    [
        ({"feature_enrollment": True}, {}, True, True),
        ({"super_groups": [{"properties": [prop("a", 1)]}]}, {}, True, True),
        ({"holdout_groups": [{"rollout_percentage": 10}]}, {}, True, True),
        ({"holdout": {"id": 1, "exclusion_percentage": 10}}, {}, False, True),
        ({"early_exit": True}, {}, False, True),
        ({"groups": [{"aggregation_group_type_index": 0}]}, {}, False, True),
        ({}, {"bucketing_identifier": Bucketing.DEVICE_ID}, False, True),
        ({"aggregation_group_type_index": 0}, {}, False, False),
    ],
)
def test_flag_that_sdks_evaluate_wrongly_needs_the_server(
    filters: Any, fields: Any, by_current: bool, by_older: bool
) -> None:
    flag = make_flag({"groups": [{}]} | filters, **fields)
    for profile, needs_server in zip(SdkProfile, (by_current, by_older, by_older), strict=True):
        [one] = local_definitions(flag, profile=profile)["flags"]
        # Only SDKs without cohorts need another mark.
        by_continuity = needs_server and profile is SdkProfile.OLDER_WITHOUT_COHORTS
        assert one["ensure_experience_continuity"] is by_continuity
        if profile is not SdkProfile.OLDER_WITHOUT_COHORTS:
            assert (one["filters"]["groups"] == [SERVER_CONDITION]) is needs_server
            removed = {"holdout", "super_groups", "early_exit"} if needs_server else set()
            assert removed.isdisjoint(one["filters"])


@pytest.mark.parametrize("profile", SdkProfile)
def test_experience_continuity_is_marked_for_every_sdk(profile: SdkProfile) -> None:
    flag = make_flag({"groups": [{}]}, ensure_experience_continuity=True)
    [one] = local_definitions(flag, profile=profile)["flags"]
    assert (one["ensure_experience_continuity"], one["filters"]["groups"]) == (True, [{}])


def chains(*flags: Flag) -> dict[str, Any]:
    return {
        flag["key"]: [
            (filter["key"], filter["dependency_chain"])
            for group in flag["filters"]["groups"]
            for filter in group.get("properties", ())
        ]
        for flag in local_definitions(*flags)["flags"]
    }


def make_dependent(id: int, *needed: int, **fields: Any) -> Flag:
    return make_flag(
        build_filters({"properties": [depends_on(each) for each in needed]}), id, **fields
    )


def test_dependency_has_its_key_and_its_chain() -> None:
    assert chains(
        make_dependent(4, 3, 1), make_dependent(3, 2), make_dependent(2, 1), make_flag(id=1)
    ) == {
        "flag-4": [("flag-3", ["flag-1", "flag-2", "flag-3"]), ("flag-1", ["flag-1"])],
        "flag-3": [("flag-2", ["flag-1", "flag-2"])],
        "flag-2": [("flag-1", ["flag-1"])],
        "flag-1": [],
    }


def test_dependency_that_cannot_be_evaluated_needs_the_server() -> None:
    found = chains(
        make_dependent(1, 2),
        make_flag(id=2, active=False),
        make_dependent(3, 9),
        make_dependent(4, 5),
        make_dependent(5, 4),
    )
    assert found["flag-1"] == [("flag-2", [])]
    assert found["flag-3"] == [("9", [])]
    assert found["flag-4"] == [("flag-5", [])]


def test_definitions_can_be_parsed_by_typed_sdks() -> None:
    """Go and C# expect whole percentages, Rust and C# a value and a type in every filter."""
    is_set, plain = {"key": "plan", "operator": "is_set"}, {"key": "id", "value": None}
    halves = [{"key": "a", "rollout_percentage": 50.0}, {"key": "b", "rollout_percentage": 49.5}]
    flag = make_flag(
        {
            "groups": [
                {"properties": [is_set, in_cohort(1)], "rollout_percentage": 20.0},
                {"properties": None, "rollout_percentage": 0.5},
                {"rollout_percentage": None},
            ],
            "multivariate": {"variants": halves},
        }
    )
    requested = {"type": "OR", "values": [{"type": "AND", "values": [is_set, plain]}]}
    answer = local_definitions(flag, cohorts=(make_cohort(1, requested),))
    is_set = {"type": "person", "value": "is_set", "key": "plan", "operator": "is_set"}
    filters = answer["flags"][0]["filters"]
    assert filters == {
        "groups": [
            {"properties": [is_set, in_cohort(1)], "rollout_percentage": 20},
            {"properties": None, "rollout_percentage": 0.5},
            {"rollout_percentage": None},
        ],
        "multivariate": {"variants": [{"key": "a", "rollout_percentage": 50}, halves[1]]},
    }
    # 20 equals 20.0 in Python, but not in other languages.
    assert jsonio.encode(filters).count(b".0") == 0
    person = {"type": "person", **plain}
    assert answer["cohorts"] == {
        "1": {"type": "OR", "values": [{"type": "AND", "values": [is_set, person]}]}
    }


async def test_response_is_built_once_per_change() -> None:
    made = 0

    async def count_runs(work: Any) -> Any:
        nonlocal made
        made += 1
        return work()

    store = FakeFlagStore(make_flag())
    flag_cache = FlagCache(store, run_in_thread)
    local, project = LocalEvaluationCache(flag_cache, count_runs), make_project()
    first = await local.get(project, SdkProfile.CURRENT)
    read = list(store.calls)
    assert [await local.get(project, SdkProfile.CURRENT) for _ in range(3)] == [first] * 3
    assert local.get_cached(project, SdkProfile.CURRENT) is first
    assert (made, store.calls) == (1, read)
    store.put(make_flag(active=False))
    await flag_cache.refresh_changed()
    second = await local.get(project, SdkProfile.CURRENT)
    assert second.etag != first.etag
    store.put(make_flag(active=True))
    await flag_cache.refresh_changed()
    assert await local.get(project, SdkProfile.CURRENT) == first
    assert made == 3


@pytest.mark.parametrize("kind", ["AND", "OR"])
def test_nested_cohorts_are_inlined_within_limits(kind: str) -> None:
    """Each level names the previous one four times. An SDK asks the server for the largest."""
    cohorts = [make_cohort(0, {"type": kind, "values": [prop("plan", "pro")]})]
    for id in range(1, 12):
        cohorts.append(make_cohort(id, {"type": kind, "values": [in_cohort(id - 1)] * 4}))
    found: list[Any] = []

    def build(id: int) -> Any:
        return local_groups({"groups": [{"properties": [in_cohort(id)]}]}, *cohorts)

    assert count_calls(lambda: found.append(build(11))) < 50_000
    assert found == [[{"properties": [in_cohort(11)]}]]
    assert sum(len(group["properties"]) for group in build(2)) == 16


def test_all_flags_share_a_limit_of_inlined_cohorts() -> None:
    cohort = make_cohort(1, {"type": "OR", "values": [prop("plan", "x" * 1_000_000)]})
    flags = [make_flag({"groups": [{"properties": [in_cohort(1)]}]}, id=id) for id in range(1, 30)]
    body = jsonio.encode(local_definitions(*flags, cohorts=(cohort,), profile=WITHOUT_COHORTS))
    assert 5 << 20 < len(body) < 12 << 20


def test_dependency_chains_are_limited_in_total() -> None:
    """Layers of flags that each depend on the whole layer below."""
    flags = [make_flag(id=id) for id in range(1, 41)]
    for id in range(41, 121):
        below = range((id - 1) // 40 * 40 - 39, (id - 1) // 40 * 40 + 1)
        filters = {"groups": [{"properties": [depends_on(each) for each in below]}]}
        flags.append(make_flag(filters, id=id))
    found = local_definitions(*flags)["flags"]
    chains = [
        filter["dependency_chain"]
        for flag in found[40:]
        for filter in flag["filters"]["groups"][0]["properties"]
    ]
    assert len(chains) == 80 * 40
    assert 0 < sum(map(len, chains)) <= MAX_CHAIN_KEYS
