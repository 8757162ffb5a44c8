"""Decisions: the selected flags, the loaded data, and the result without a database."""

from collections.abc import Mapping
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.flags.evaluation.budget import EvaluationPacer
from hedgerow.flags.evaluation.decide import Decider, EvaluationRequest, FlagDecision
from hedgerow.flags.model import Flag, Runtime
from hedgerow.persons.model import DISTINCT_ID_MAX_CHARS
from tests.unit.fake_time import START
from tests.unit.flags.factories import (
    MATCH_NONE,
    build_filters,
    depends_on,
    find_identifier,
    group_prop,
    in_cohort,
    make_cohort,
    make_flag,
    prop,
)
from tests.unit.flags.stores import FakeEvaluationDataStore, FakeFlagStore, build_flag_cache
from tests.unit.projects.factories import make_project

PRO = build_filters({"properties": [prop("plan", "pro")]})
HALF = build_filters({"rollout_percentage": 50})


class DeciderFixture:
    def __init__(self, *flags: Flag, **definitions: Any) -> None:
        self.flags = FakeFlagStore()
        self.flags.put(*flags, **definitions)
        self.data = FakeEvaluationDataStore()
        self.decider = Decider(build_flag_cache(self.flags), self.data, EvaluationPacer())

    async def decision(self, id: str = "ann", **requested: Any) -> FlagDecision:
        return await self.decider.decide(
            make_project(), EvaluationRequest(distinct_id=id, **requested), START
        )

    async def values(self, id: str = "ann", **requested: Any) -> Mapping[str, bool | str]:
        """Return the values of a decision without errors, by flag key."""
        decision = await self.decision(id, **requested)
        assert not decision.has_errors
        return values_of(decision)


def values_of(decision: FlagDecision) -> dict[str, bool | str]:
    return {
        outcome.flag.key: outcome.value for outcome in decision.outcomes if not outcome.has_failed
    }


async def test_sufficient_request_loads_no_stored_data() -> None:
    fixture = DeciderFixture(
        make_flag(id=1),
        make_flag(HALF, id=2),
        make_flag(PRO, id=3),
        make_flag(PRO, id=4, active=False),
        make_flag(build_filters({"properties": [prop("distinct_id", "ann")]}), id=5),
    )
    values = await fixture.values(person_properties={"plan": "pro"})
    assert (values["flag-1"], values["flag-3"], values["flag-4"]) == (True, True, False)
    assert values["flag-5"] is True
    assert fixture.data.calls == []


async def test_missing_properties_are_loaded_once_for_all_flags() -> None:
    fixture = DeciderFixture(make_flag(PRO, id=1), make_flag(MATCH_NONE, id=2), make_flag(id=3))
    fixture.data.put("ann", plan="pro")
    assert await fixture.values() == {"flag-1": True, "flag-2": False, "flag-3": True}
    assert fixture.data.calls == ["load"]
    assert (await fixture.values("bob"))["flag-1"] is False


async def test_request_properties_override_stored_ones_by_key() -> None:
    both = build_filters({"properties": [prop("plan", "pro"), prop("team", "red")]})
    fixture = DeciderFixture(make_flag(both))
    fixture.data.put("ann", plan="free", team="red")
    assert await fixture.values(person_properties={"plan": "pro"}) == {"flag-1": True}
    assert await fixture.values(person_properties={"plan": None}) == {"flag-1": False}


async def test_location_of_a_request_replaces_the_stored_one_as_a_whole() -> None:
    """The address is known to be in the US, but not in which city."""
    paris = build_filters({"properties": [prop("$geoip_city_name", "Paris")]})
    placed = build_filters({"properties": [prop("$geoip_city_name", "", operator="is_set")]})
    us = build_filters({"properties": [prop("$geoip_country_code", "US")]})
    fixture = DeciderFixture(make_flag(paris, id=1), make_flag(placed, id=2), make_flag(us, id=3))
    fixture.data.put("ann", **{"$geoip_city_name": "Paris", "$geoip_country_code": "FR"})
    assert list((await fixture.values()).values()) == [True, True, False]
    values = await fixture.values(geoip=lambda: {"$geoip_country_code": "US"})
    assert list(values.values()) == [False, False, True]
    values = await fixture.values(
        geoip=lambda: {"$geoip_country_code": "US"}, person_properties={"$geoip_city_name": "Paris"}
    )
    assert list(values.values()) == [True, True, True]
    assert list((await fixture.values(geoip=lambda: {})).values()) == [True, True, False]


async def test_distinct_id_is_truncated_before_the_lookup() -> None:
    fixture = DeciderFixture(make_flag(PRO))
    fixture.data.put("x" * DISTINCT_ID_MAX_CHARS, plan="pro")
    assert await fixture.values("x" * (DISTINCT_ID_MAX_CHARS + 5)) == {"flag-1": True}


async def test_unavailable_store_fails_only_flags_that_need_it() -> None:
    fixture = DeciderFixture(make_flag(id=1), make_flag(PRO, id=2), make_flag(MATCH_NONE, id=4))
    fixture.data.failures["load"] = 2
    decision = await fixture.decision(person_properties={"absent": "y"})
    assert decision.has_errors
    assert values_of(decision) == {"flag-1": True, "flag-4": False}
    assert not (await fixture.decision(person_properties={"plan": "x", "absent": 1})).has_errors
    assert (await fixture.decision()).has_errors
    assert not (await fixture.decision()).has_errors


async def test_dependent_of_a_flag_without_data_fails() -> None:
    fixture = DeciderFixture(
        make_flag(PRO, id=1), make_flag(build_filters({"properties": [depends_on(1, False)]}), id=2)
    )
    fixture.data.failures["load"] = 1
    decision = await fixture.decision()
    assert (values_of(decision), decision.has_errors) == ({}, True)
    assert await fixture.values() == {"flag-1": False, "flag-2": True}


async def test_broken_flag_fails_alone() -> None:
    fixture = DeciderFixture(make_flag({"groups": 5}, id=1), make_flag(id=2))
    decision = await fixture.decision()
    assert decision.has_errors
    assert values_of(decision) == {"flag-2": True}
    assert not (await fixture.decision(flag_keys=frozenset({"flag-2"}))).has_errors


async def test_decision_needs_definitions_once() -> None:
    fixture = DeciderFixture(make_flag())
    fixture.flags.failures["definitions"] = 1
    with pytest.raises(Unavailable):
        await fixture.decision()
    assert await fixture.values() == {"flag-1": True}
    fixture.flags.failures["generation"] = fixture.flags.failures["definitions"] = 9
    assert await fixture.values() == {"flag-1": True}


async def test_groups_are_matched_by_type_name() -> None:
    big = build_filters({"properties": [group_prop(0, "size", 10, "gt")]})
    fixture = DeciderFixture(
        make_flag({**big, "aggregation_group_type_index": 0}), group_types={"company": 0, "team": 1}
    )
    fixture.data.groups[0, "acme"] = {"size": 50}
    assert await fixture.values(groups={"company": "acme"}) == {"flag-1": True}
    assert fixture.data.requested == [("ann", {0: "acme"})]
    assert await fixture.values(groups={"company": "other"}) == {"flag-1": False}
    assert await fixture.values(groups={"unknown": "acme"}) == {"flag-1": False}
    assert await fixture.values() == {"flag-1": False}
    group_properties = {"company": {"size": 5}, "unknown": {"size": 99}}
    assert await fixture.values(groups={"company": "acme"}, group_properties=group_properties) == {
        "flag-1": False
    }


async def test_static_cohorts_are_loaded_and_dynamic_ones_are_evaluated() -> None:
    fixture = DeciderFixture(
        make_flag(build_filters({"properties": [in_cohort(1)]}), id=1),
        make_flag(build_filters({"properties": [in_cohort(2)]}), id=2),
        make_flag(build_filters({"properties": [in_cohort(1, "not_in")]}), id=3),
        cohorts=[make_cohort(1), make_cohort(2, {"type": "AND", "values": [prop("plan", "pro")]})],
    )
    fixture.data.put("ann")
    fixture.data.cohorts["ann"] = frozenset({1})
    pro = {"plan": "pro"}
    assert await fixture.values(person_properties=pro) == {
        "flag-1": True,
        "flag-2": True,
        "flag-3": False,
    }
    assert await fixture.values("bob") == {"flag-1": False, "flag-2": False, "flag-3": True}


def make_continuity_flag(id: int = 1, **fields: Any) -> Flag:
    return make_flag(HALF, id=id, ensure_experience_continuity=True, **fields)


IN, OUT = find_identifier("flag-1.", 0, 0.5), find_identifier("flag-1.", 0.5, 1)


async def test_continuity_flag_keeps_its_value_after_login() -> None:
    fixture = DeciderFixture(make_continuity_flag())
    fixture.data.put(OUT)
    assert await fixture.values(OUT) == {"flag-1": False}
    assert await fixture.values(OUT, anonymous_id=IN) == {"flag-1": True}
    assert fixture.data.hash_keys[OUT] == {"flag-1": IN}
    assert await fixture.values(OUT) == {"flag-1": True}


async def test_first_login_sets_the_hash_key() -> None:
    fixture = DeciderFixture(make_continuity_flag())
    fixture.data.put(OUT)
    await fixture.values(OUT, anonymous_id=IN)
    later = find_identifier("flag-1.", 0.6, 1)
    assert await fixture.values(OUT, anonymous_id=later) == {"flag-1": True}
    assert fixture.data.hash_keys[OUT] == {"flag-1": IN}


async def test_unknown_person_is_bucketed_by_the_anonymous_id() -> None:
    fixture = DeciderFixture(make_continuity_flag())
    assert await fixture.values(OUT, anonymous_id=IN) == {"flag-1": True}
    assert await fixture.values(OUT) == {"flag-1": False}


async def test_unknown_person_uses_the_hash_key_of_the_anonymous_person() -> None:
    """Contract 1.3: overrides of all persons found are read; the anonymous person had one."""
    fixture = DeciderFixture(make_continuity_flag())
    fixture.data.put(OUT)
    await fixture.values(OUT, anonymous_id=IN)
    assert await fixture.values("stranger", anonymous_id=OUT) == {"flag-1": True}


async def test_hash_key_of_the_distinct_id_wins() -> None:
    fixture = DeciderFixture(make_continuity_flag())
    fixture.data.put("ann")
    fixture.data.put("anon")
    fixture.data.hash_keys["ann"]["flag-1"] = IN
    fixture.data.hash_keys["anon"]["flag-1"] = OUT
    assert await fixture.values("ann", anonymous_id="anon") == {"flag-1": True}
    assert await fixture.values("anon", anonymous_id="ann") == {"flag-1": False}


async def test_every_continuity_flag_gets_a_hash_key() -> None:
    fixture = DeciderFixture(
        make_continuity_flag(1),
        make_continuity_flag(2),
        make_continuity_flag(3, active=False),
        make_flag(HALF, id=4),
    )
    fixture.data.put("ann")
    await fixture.values("ann", anonymous_id="anon", flag_keys=frozenset({"flag-1"}))
    assert fixture.data.hash_keys["ann"] == {"flag-1": "anon", "flag-2": "anon"}


async def test_hash_keys_are_not_saved_without_continuity_flags() -> None:
    fixture = DeciderFixture(make_flag(HALF))
    await fixture.values("ann", anonymous_id="anon")
    assert fixture.data.calls == []


async def test_login_does_not_affect_flags_without_continuity() -> None:
    fixture = DeciderFixture(make_flag(id=1), make_continuity_flag(2))
    fixture.data.put("ann")
    await fixture.values("ann", anonymous_id="anon", flag_keys=frozenset({"flag-1"}))
    assert fixture.data.calls == []


async def test_stored_hash_keys_are_not_saved_again() -> None:
    fixture = DeciderFixture(make_continuity_flag())
    fixture.data.put(OUT)
    await fixture.values(OUT, anonymous_id=IN)
    await fixture.values(OUT, anonymous_id=IN)
    assert fixture.data.calls.count("save_hash_keys") == 1
    await fixture.values("stranger", anonymous_id="unknown")
    assert fixture.data.calls.count("save_hash_keys") == 1


@pytest.mark.parametrize(("kind", "plan", "is_in"), [("OR", "pro", True), ("AND", "free", False)])
async def test_cohort_is_decided_by_known_properties(kind: str, plan: str, is_in: bool) -> None:
    """The known one of two properties decides."""
    definition = {"type": kind, "values": [prop("email", "a@b.c"), prop("plan", "pro")]}
    fixture = DeciderFixture(
        make_flag(build_filters({"properties": [in_cohort(1)]})),
        cohorts=[make_cohort(1, definition)],
    )
    assert await fixture.values(person_properties={"plan": plan}) == {"flag-1": is_in}
    assert fixture.data.calls == []


async def test_flag_without_continuity_is_bucketed_by_distinct_id() -> None:
    fixture = DeciderFixture(make_flag(HALF), make_continuity_flag(2))
    fixture.data.put(OUT)
    assert (await fixture.values(OUT, anonymous_id=IN))["flag-1"] is False


async def test_failed_save_of_a_hash_key_fails_only_its_flags() -> None:
    fixture = DeciderFixture(make_continuity_flag(), make_flag(id=2))
    fixture.data.put(OUT)
    fixture.data.failures["save_hash_keys"] = fixture.data.failures["load"] = 1
    decision = await fixture.decision(OUT, anonymous_id=IN)
    assert decision.has_errors
    assert values_of(decision)["flag-2"] is True


async def test_evaluation_contexts_select_flags() -> None:
    fixture = DeciderFixture(
        make_flag(id=1),
        make_flag(id=2, evaluation_contexts=("web", "app")),
        make_flag(id=3, evaluation_contexts=("docs",)),
    )
    assert await fixture.values(contexts=frozenset({"app", "tv"})) == {
        "flag-1": True,
        "flag-2": True,
    }
    assert list(await fixture.values(contexts=frozenset({"tv"}))) == ["flag-1"]
    assert list(await fixture.values()) == ["flag-1", "flag-2", "flag-3"]


@pytest.mark.parametrize(
    ("runtime", "decided"),
    [
        (None, [1]),
        (Runtime.ALL, [1, 2, 3]),
        (Runtime.CLIENT, [1, 2]),
        (Runtime.SERVER, [1, 3]),
    ],
)
async def test_runtime_selects_flags(runtime: Runtime | None, decided: list[int]) -> None:
    fixture = DeciderFixture(
        make_flag(id=1),
        make_flag(id=2, evaluation_runtime=Runtime.CLIENT),
        make_flag(id=3, evaluation_runtime=Runtime.SERVER),
    )
    assert list(await fixture.values(runtime=lambda: runtime)) == [f"flag-{id}" for id in decided]


async def test_flag_keys_select_flags_and_their_dependencies() -> None:
    chain = [make_flag(id=1)] + [
        make_flag(build_filters({"properties": [depends_on(id - 1)]}), id=id) for id in (2, 3)
    ]
    fixture = DeciderFixture(*chain, make_flag(id=4))
    assert await fixture.values(flag_keys=frozenset({"flag-3", "unknown"})) == {
        "flag-1": True,
        "flag-2": True,
        "flag-3": True,
    }
    assert await fixture.values(flag_keys=frozenset({"flag-1"})) == {"flag-1": True}
    assert await fixture.values(flag_keys=frozenset()) == {}


async def test_excluded_flag_is_off_for_its_dependents() -> None:
    """Contract 1.4, 1: left out by its runtime, it counts as false."""
    fixture = DeciderFixture(
        make_flag(id=1, evaluation_runtime=Runtime.SERVER),
        make_flag(build_filters({"properties": [depends_on(1)]}), id=2),
        make_flag(build_filters({"properties": [depends_on(1, False)]}), id=3),
    )
    keys = frozenset({"flag-2", "flag-3"})
    values = await fixture.values(runtime=lambda: Runtime.CLIENT, flag_keys=keys)
    assert values == {"flag-2": False, "flag-3": True}


async def test_survey_flags_can_be_requested_alone() -> None:
    fixture = DeciderFixture(
        make_flag(id=1, key="survey-targeting-a"), make_flag(id=2, key="a-survey-targeting-")
    )
    assert list(await fixture.values(only_surveys=True)) == ["survey-targeting-a"]


async def test_runtime_is_detected_only_if_a_flag_uses_it() -> None:
    def runtime() -> Runtime:
        raise AssertionError("unexpected call of runtime")

    assert await DeciderFixture(make_flag()).values(runtime=runtime) == {"flag-1": True}


@pytest.mark.parametrize(
    ("flags", "cohorts", "loaded_parts"),
    [
        ([make_flag(PRO)], [], {"cohorts": False, "hash_keys": False}),
        ([make_flag(PRO)], [make_cohort(1)], {"cohorts": True, "hash_keys": False}),
        (
            [make_flag(HALF, ensure_experience_continuity=True)],
            [],
            {"cohorts": False, "hash_keys": True},
        ),
    ],
    ids=["neither", "static cohorts", "hash keys"],
)
async def test_cohorts_and_hash_keys_are_loaded_only_if_a_flag_uses_them(
    flags: list[Flag], cohorts: list[Any], loaded_parts: dict[str, bool]
) -> None:
    fixture = DeciderFixture(*flags, cohorts=cohorts)
    await fixture.values()
    assert fixture.data.loaded_parts == loaded_parts


async def test_nothing_is_loaded_for_flags_that_are_not_requested() -> None:
    fixture = DeciderFixture(make_flag(PRO, id=1), make_flag(id=2))
    assert await fixture.values(flag_keys=frozenset({"flag-2"})) == {"flag-2": True}
    assert fixture.data.calls == []
