"""What SDKs are told for evaluating flags by themselves, and whether they then agree with us."""

from typing import Any

import pytest

from hedgerow.flags.board import FlagCache
from hedgerow.flags.local import MAX_SETS, Audience, local_definitions
from hedgerow.flags.local_board import LocalBoard
from hedgerow.flags.model import Bucketing, Definitions, Flag
from hedgerow.lib import jsonio
from hedgerow.lib.threads import in_daemon_thread
from hedgerow.persons.model import Cohort
from tests.unit.flags.stores import ListFlags
from tests.unit.flags.world import (
    a_cohort,
    a_flag,
    depends_on,
    in_cohort,
    of_groups,
    prop,
)
from tests.unit.projects.world import a_project

WITHOUT = Audience.OLDER_WITHOUT_COHORTS
each_audience = pytest.mark.parametrize("audience", Audience)


def told(
    *flags: Flag, cohorts: tuple[Cohort, ...] = (), audience: Audience = Audience.CURRENT
) -> dict[str, Any]:
    given = Definitions(
        generation=1, flags=flags, cohorts=cohorts, group_types={"company": 0}, timezone="UTC"
    )
    # As an SDK gets it: through JSON.
    answer: dict[str, Any] = jsonio.decode(jsonio.encode(local_definitions(given, audience)))
    return answer


def groups_told(filters: Any, *cohorts: Cohort) -> Any:
    answer = told(a_flag(filters), cohorts=cohorts, audience=WITHOUT)
    assert answer["cohorts"] == {}
    return answer["flags"][0]["filters"]["groups"]


@each_audience
def test_a_flag_is_told_with_what_sdks_need(audience: Audience) -> None:
    flag = a_flag(name="A flag", version=3, evaluation_contexts=("web",), tags=("secret",))
    assert told(flag, audience=audience) == {
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


@each_audience
def test_inactive_flags_are_told_and_remote_configurations_are_not(audience: Audience) -> None:
    answer = told(
        a_flag(id=1, active=False),
        a_flag(id=2, is_remote_configuration=True),
        a_flag(id=3, deleted=True),
        audience=audience,
    )
    assert [(each["key"], each["active"]) for each in answer["flags"]] == [("flag-1", False)]


@each_audience
def test_flags_of_surveys_are_not_told_and_who_depends_on_one_asks_us(audience: Audience) -> None:
    asks = {"key": "1", "type": "flag", "operator": "flag_evaluates_to", "value": True}
    answer = told(
        a_flag(id=1, key="survey-targeting-1-custom"),
        a_flag({"groups": [{"properties": [asks]}]}, id=2),
        audience=audience,
    )
    [flag] = answer["flags"]
    assert flag["key"] == "flag-2"
    assert flag["filters"]["groups"][0]["properties"][0]["dependency_chain"] == []


@pytest.mark.parametrize(
    "filters", [[1], None, "x", {}, {"groups": 7}, {"groups": [7]}, {"groups": [{"properties": 7}]}]
)
def test_what_was_stored_by_a_mistake_is_left_out(filters: Any) -> None:
    assert told(a_flag(filters), audience=WITHOUT)["flags"] == []


def test_cohorts_are_told_down_to_those_that_they_ask_for_without_lists_of_persons() -> None:
    inner = {"type": "AND", "values": [prop("plan", "pro")]}
    outer = {"type": "OR", "values": [in_cohort(1), in_cohort(3), in_cohort(2)]}
    cohorts = (a_cohort(1, inner), a_cohort(2, outer), a_cohort(3), a_cohort(4, inner))
    flag = a_flag(of_groups({"properties": [in_cohort(2)]}))
    for audience in (Audience.CURRENT, Audience.OLDER):
        answer = told(flag, cohorts=cohorts, audience=audience)
        assert answer["cohorts"] == {"1": inner, "2": outer}


def test_a_cohort_that_asks_nothing_is_for_the_server() -> None:
    flag = a_flag(of_groups({"properties": [in_cohort(1)]}))
    nothing = Cohort(**{name: getattr(a_cohort(1, {}), name) for name in Cohort.__slots__})
    assert told(flag, cohorts=(nothing,))["cohorts"] == {}


def test_without_cohorts_conditions_say_the_same() -> None:
    pro, big, near = prop("plan", "pro"), prop("size", 9, "gt"), prop("country", "NO")
    cohort = a_cohort(
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
    assert groups_told(of_groups(first, alone, last), cohort) == [
        first,
        alone | {"properties": [pro, big]},
        alone | {"properties": [near]},
        last,
    ]
    assert groups_told(of_groups({"properties": [big, in_cohort("1")]}), cohort) == [
        {"properties": [big, pro, big]},
        {"properties": [big, near]},
    ]


MANY = {"type": "OR", "values": [prop("n", n) for n in range(MAX_SETS + 1)]}


@pytest.mark.parametrize(
    ("filter", "cohort"),
    [
        (in_cohort(1), a_cohort(1)),
        (in_cohort(2), a_cohort(1)),
        (in_cohort(1, "not_in"), a_cohort(1, {"type": "AND", "values": [prop("a", 1)]})),
        (in_cohort(1), a_cohort(1, {"type": "AND", "values": [prop("a", 1, negation=True)]})),
        (in_cohort(1), a_cohort(1, MANY)),
        (in_cohort(1), a_cohort(1, {"type": "AND", "values": [in_cohort(1)]})),
        (in_cohort(1), a_cohort(1, {"type": "XOR", "values": [prop("a", 1)]})),
        (in_cohort(1), a_cohort(1, {"type": "AND", "values": [{"type": "behavioral"}]})),
    ],
)
def test_a_cohort_that_conditions_cannot_say_is_left_to_the_server(
    filter: dict[str, Any], cohort: Cohort
) -> None:
    condition = {"properties": [filter]}
    assert groups_told(of_groups(condition), cohort) == [condition]


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
        ({}, {"ensure_experience_continuity": True}, True, True),
    ],
)
def test_what_an_sdk_would_get_wrong_it_asks_the_server(
    filters: Any, fields: Any, by_current: bool, by_older: bool
) -> None:
    flag = a_flag({"groups": [{}]} | filters, **fields)
    for audience, is_asked in zip(Audience, (by_current, by_older, by_older), strict=True):
        [one] = told(flag, audience=audience)["flags"]
        assert one["ensure_experience_continuity"] is is_asked


def chains(*flags: Flag) -> dict[str, Any]:
    return {
        flag["key"]: [
            (filter["key"], filter["dependency_chain"])
            for group in flag["filters"]["groups"]
            for filter in group.get("properties", ())
        ]
        for flag in told(*flags)["flags"]
    }


def needing(id: int, *needed: int, **fields: Any) -> Flag:
    return a_flag(of_groups({"properties": [depends_on(each) for each in needed]}), id, **fields)


def test_a_dependency_is_told_by_key_with_all_that_comes_before_it() -> None:
    assert chains(needing(4, 3, 1), needing(3, 2), needing(2, 1), a_flag(id=1)) == {
        "flag-4": [("flag-3", ["flag-1", "flag-2", "flag-3"]), ("flag-1", ["flag-1"])],
        "flag-3": [("flag-2", ["flag-1", "flag-2"])],
        "flag-2": [("flag-1", ["flag-1"])],
        "flag-1": [],
    }


def test_a_dependency_that_cannot_be_evaluated_is_for_the_server() -> None:
    told_chains = chains(
        needing(1, 2), a_flag(id=2, active=False), needing(3, 9), needing(4, 5), needing(5, 4)
    )
    assert told_chains["flag-1"] == [("flag-2", [])]
    assert told_chains["flag-3"] == [("9", [])]
    assert told_chains["flag-4"] == [("flag-5", [])]


def test_sdks_in_languages_with_types_can_read_it() -> None:
    """Go and C# expect whole percentages, Rust and C# a value and a type in every filter."""
    is_set, plain = {"key": "plan", "operator": "is_set"}, {"key": "id", "value": None}
    halves = [{"key": "a", "rollout_percentage": 50.0}, {"key": "b", "rollout_percentage": 49.5}]
    flag = a_flag(
        {
            "groups": [
                {"properties": [is_set, in_cohort(1)], "rollout_percentage": 20.0},
                {"properties": None, "rollout_percentage": 0.5},
                {"rollout_percentage": None},
            ],
            "multivariate": {"variants": halves},
        }
    )
    asked = {"type": "OR", "values": [{"type": "AND", "values": [is_set, plain]}]}
    answer = told(flag, cohorts=(a_cohort(1, asked),))
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
    # 20 is 20.0 to Python, and not to others.
    assert jsonio.encode(filters).count(b".0") == 0
    person = {"type": "person", **plain}
    assert answer["cohorts"] == {
        "1": {"type": "OR", "values": [{"type": "AND", "values": [is_set, person]}]}
    }


async def test_the_answer_is_made_once_and_again_when_definitions_change() -> None:
    made = 0

    async def counted(work: Any) -> Any:
        nonlocal made
        made += 1
        return work()

    store = ListFlags(a_flag())
    board = FlagCache(store, in_daemon_thread)
    local, project = LocalBoard(board, counted), a_project()
    first = await local.told(project, Audience.CURRENT)
    read = list(store.calls)
    assert [await local.told(project, Audience.CURRENT) for _ in range(3)] == [first] * 3
    assert local.at_hand(project, Audience.CURRENT) is first
    assert (made, store.calls) == (1, read)
    store.put(a_flag(active=False))
    await board.watch()
    second = await local.told(project, Audience.CURRENT)
    assert second.etag != first.etag
    store.put(a_flag(active=True))
    await board.watch()
    assert await local.told(project, Audience.CURRENT) == first
    assert made == 3
