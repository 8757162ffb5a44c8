"""A decision: which flags it is about, what it reads, and what it says when it cannot read."""

from collections.abc import Mapping
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.flags.decide import Asked, Decider, Decision
from hedgerow.flags.model import DISTINCT_ID_MAX, Flag, Runtime
from tests.unit.fake_time import START
from tests.unit.flags.stores import ListFlags, ListSubjects, a_board
from tests.unit.flags.world import (
    NOBODY,
    a_cohort,
    a_flag,
    depends_on,
    group_prop,
    in_cohort,
    of_groups,
    prop,
    someone,
)
from tests.unit.projects.world import a_project

PRO = of_groups({"properties": [prop("plan", "pro")]})
HALF = of_groups({"rollout_percentage": 50})


class World:
    def __init__(self, *flags: Flag, **definitions: Any) -> None:
        self.flags = ListFlags()
        self.flags.put(*flags, **definitions)
        self.subjects = ListSubjects()
        self.decider = Decider(a_board(self.flags), self.subjects)

    async def decision(self, id: str = "ann", **asked: Any) -> Decision:
        return await self.decider.decide(a_project(), Asked(distinct_id=id, **asked), START)

    async def values(self, id: str = "ann", **asked: Any) -> Mapping[str, bool | str]:
        """The decision without errors, by flag."""
        decision = await self.decision(id, **asked)
        assert not decision.has_errors
        return values_of(decision)


def values_of(decision: Decision) -> dict[str, bool | str]:
    return {outcome.flag.key: outcome.value for outcome in decision.outcomes if not outcome.failed}


async def test_nothing_stored_is_read_when_the_request_says_enough() -> None:
    world = World(
        a_flag(id=1),
        a_flag(HALF, id=2),
        a_flag(PRO, id=3),
        a_flag(PRO, id=4, active=False),
        a_flag(of_groups({"properties": [prop("distinct_id", "ann")]}), id=5),
    )
    values = await world.values(person_properties={"plan": "pro"})
    assert (values["flag-1"], values["flag-3"], values["flag-4"]) == (True, True, False)
    assert values["flag-5"] is True
    assert world.subjects.calls == []


async def test_a_property_that_the_request_lacks_is_read_once_for_all_flags() -> None:
    world = World(a_flag(PRO, id=1), a_flag(NOBODY, id=2), a_flag(id=3))
    world.subjects.put("ann", plan="pro")
    assert await world.values() == {"flag-1": True, "flag-2": False, "flag-3": True}
    assert world.subjects.calls == ["subject"]
    assert (await world.values("bob"))["flag-1"] is False


async def test_what_the_request_says_lies_over_what_is_stored_key_by_key() -> None:
    both = of_groups({"properties": [prop("plan", "pro"), prop("team", "red")]})
    world = World(a_flag(both))
    world.subjects.put("ann", plan="free", team="red")
    assert await world.values(person_properties={"plan": "pro"}) == {"flag-1": True}
    assert await world.values(person_properties={"plan": None}) == {"flag-1": False}


async def test_an_id_is_cut_before_anybody_is_looked_for() -> None:
    world = World(a_flag(PRO))
    world.subjects.put("x" * DISTINCT_ID_MAX, plan="pro")
    assert await world.values("x" * (DISTINCT_ID_MAX + 5)) == {"flag-1": True}


async def test_while_persons_cannot_be_read_flags_that_do_without_are_right() -> None:
    world = World(a_flag(id=1), a_flag(PRO, id=2), a_flag(NOBODY, id=4))
    world.subjects.away["subject"] = 2
    decision = await world.decision(person_properties={"nobody": "else"})
    assert decision.has_errors
    assert values_of(decision) == {"flag-1": True, "flag-4": False}
    assert not (await world.decision(person_properties={"plan": "x", "nobody": 1})).has_errors
    assert (await world.decision()).has_errors
    assert not (await world.decision()).has_errors


async def test_a_flag_that_depends_on_one_that_waits_is_missing_too() -> None:
    world = World(
        a_flag(PRO, id=1), a_flag(of_groups({"properties": [depends_on(1, False)]}), id=2)
    )
    world.subjects.away["subject"] = 1
    decision = await world.decision()
    assert (values_of(decision), decision.has_errors) == ({}, True)
    assert await world.values() == {"flag-1": False, "flag-2": True}


async def test_a_broken_flag_is_an_error_and_the_others_are_right() -> None:
    world = World(a_flag({"groups": 5}, id=1), a_flag(id=2))
    decision = await world.decision()
    assert decision.has_errors
    assert values_of(decision) == {"flag-2": True}
    assert not (await world.decision(flag_keys=frozenset({"flag-2"}))).has_errors


async def test_without_any_definitions_a_decision_cannot_be_made() -> None:
    world = World(a_flag())
    world.flags.away["definitions"] = 1
    with pytest.raises(Unavailable):
        await world.decision()
    assert await world.values() == {"flag-1": True}
    world.flags.away["generation"] = world.flags.away["definitions"] = 9
    assert await world.values() == {"flag-1": True}


async def test_groups_count_by_the_names_of_their_types() -> None:
    big = of_groups({"properties": [group_prop(0, "size", 10, "gt")]})
    world = World(
        a_flag({**big, "aggregation_group_type_index": 0}), group_types={"company": 0, "team": 1}
    )
    world.subjects.groups[0, "acme"] = {"size": 50}
    assert await world.values(groups={"company": "acme"}) == {"flag-1": True}
    assert world.subjects.asked == [("ann", {0: "acme"})]
    assert await world.values(groups={"company": "other"}) == {"flag-1": False}
    assert await world.values(groups={"unknown": "acme"}) == {"flag-1": False}
    assert await world.values() == {"flag-1": False}
    given = {"company": {"size": 5}, "unknown": {"size": 99}}
    assert await world.values(groups={"company": "acme"}, group_properties=given) == {
        "flag-1": False
    }


async def test_static_cohorts_are_read_and_dynamic_ones_use_the_requests_properties() -> None:
    world = World(
        a_flag(of_groups({"properties": [in_cohort(1)]}), id=1),
        a_flag(of_groups({"properties": [in_cohort(2)]}), id=2),
        a_flag(of_groups({"properties": [in_cohort(1, "not_in")]}), id=3),
        cohorts=[a_cohort(1), a_cohort(2, {"type": "AND", "values": [prop("plan", "pro")]})],
    )
    world.subjects.put("ann")
    world.subjects.cohorts["ann"] = frozenset({1})
    pro = {"plan": "pro"}
    assert await world.values(person_properties=pro) == {
        "flag-1": True,
        "flag-2": True,
        "flag-3": False,
    }
    assert await world.values("bob") == {"flag-1": False, "flag-2": False, "flag-3": True}


def a_lasting_flag(id: int = 1, **fields: Any) -> Flag:
    return a_flag(HALF, id=id, ensure_experience_continuity=True, **fields)


IN, OUT = someone("flag-1.", 0, 0.5), someone("flag-1.", 0.5, 1)


async def test_who_logs_in_goes_on_as_they_were_before() -> None:
    world = World(a_lasting_flag())
    world.subjects.put(OUT)
    assert await world.values(OUT) == {"flag-1": False}
    assert await world.values(OUT, anonymous_id=IN) == {"flag-1": True}
    assert world.subjects.hash_keys[OUT] == {"flag-1": IN}
    assert await world.values(OUT) == {"flag-1": True}


async def test_the_first_of_several_logins_counts() -> None:
    world = World(a_lasting_flag())
    world.subjects.put(OUT)
    await world.values(OUT, anonymous_id=IN)
    later = someone("flag-1.", 0.6, 1)
    assert await world.values(OUT, anonymous_id=later) == {"flag-1": True}
    assert world.subjects.hash_keys[OUT] == {"flag-1": IN}


async def test_a_stranger_who_logs_in_counts_by_the_id_before() -> None:
    world = World(a_lasting_flag())
    assert await world.values(OUT, anonymous_id=IN) == {"flag-1": True}
    assert await world.values(OUT) == {"flag-1": False}


async def test_a_stranger_who_logs_in_counts_as_the_person_of_the_id_before_does() -> None:
    """Contract 1.3: overrides of all persons found are read; the anonymous person had one."""
    world = World(a_lasting_flag())
    world.subjects.put(OUT)
    await world.values(OUT, anonymous_id=IN)
    assert await world.values("stranger", anonymous_id=OUT) == {"flag-1": True}


async def test_the_override_of_the_distinct_ids_own_person_wins() -> None:
    world = World(a_lasting_flag())
    world.subjects.put("ann")
    world.subjects.put("anon")
    world.subjects.hash_keys["ann"]["flag-1"] = IN
    world.subjects.hash_keys["anon"]["flag-1"] = OUT
    assert await world.values("ann", anonymous_id="anon") == {"flag-1": True}
    assert await world.values("anon", anonymous_id="ann") == {"flag-1": False}


async def test_every_lasting_flag_gets_a_hash_key_asked_for_or_not() -> None:
    world = World(
        a_lasting_flag(1), a_lasting_flag(2), a_lasting_flag(3, active=False), a_flag(HALF, id=4)
    )
    world.subjects.put("ann")
    await world.values("ann", anonymous_id="anon", flag_keys=frozenset({"flag-1"}))
    assert world.subjects.hash_keys["ann"] == {"flag-1": "anon", "flag-2": "anon"}


async def test_without_lasting_flags_nothing_is_kept() -> None:
    world = World(a_flag(HALF))
    await world.values("ann", anonymous_id="anon")
    assert world.subjects.calls == []


async def test_a_login_concerns_nobody_who_asks_for_flags_that_do_not_last() -> None:
    world = World(a_flag(id=1), a_lasting_flag(2))
    world.subjects.put("ann")
    await world.values("ann", anonymous_id="anon", flag_keys=frozenset({"flag-1"}))
    assert world.subjects.calls == []


async def test_what_is_kept_already_is_not_written_again() -> None:
    world = World(a_lasting_flag())
    world.subjects.put(OUT)
    await world.values(OUT, anonymous_id=IN)
    await world.values(OUT, anonymous_id=IN)
    assert world.subjects.calls.count("keep_hash_keys") == 1
    await world.values("stranger", anonymous_id="nobody")
    assert world.subjects.calls.count("keep_hash_keys") == 1


@pytest.mark.parametrize(("kind", "plan", "is_in"), [("OR", "pro", True), ("AND", "free", False)])
async def test_a_cohort_is_decided_by_what_is_known_of_it(
    kind: str, plan: str, is_in: bool
) -> None:
    """One of two properties is not given, and the other one settles it."""
    definition = {"type": kind, "values": [prop("email", "a@b.c"), prop("plan", "pro")]}
    world = World(
        a_flag(of_groups({"properties": [in_cohort(1)]})), cohorts=[a_cohort(1, definition)]
    )
    assert await world.values(person_properties={"plan": plan}) == {"flag-1": is_in}
    assert world.subjects.calls == []


async def test_flags_that_do_not_last_count_by_the_distinct_id() -> None:
    world = World(a_flag(HALF), a_lasting_flag(2))
    world.subjects.put(OUT)
    assert (await world.values(OUT, anonymous_id=IN))["flag-1"] is False


async def test_a_hash_key_that_cannot_be_kept_is_an_error_and_the_others_are_right() -> None:
    world = World(a_lasting_flag(), a_flag(id=2))
    world.subjects.put(OUT)
    world.subjects.away["keep_hash_keys"] = world.subjects.away["subject"] = 1
    decision = await world.decision(OUT, anonymous_id=IN)
    assert decision.has_errors
    assert values_of(decision)["flag-2"] is True


async def test_of_flags_with_contexts_those_of_the_request_are_decided() -> None:
    world = World(
        a_flag(id=1),
        a_flag(id=2, evaluation_contexts=("web", "app")),
        a_flag(id=3, evaluation_contexts=("docs",)),
    )
    assert await world.values(contexts=frozenset({"app", "tv"})) == {"flag-1": True, "flag-2": True}
    assert list(await world.values(contexts=frozenset({"tv"}))) == ["flag-1"]
    assert list(await world.values()) == ["flag-1", "flag-2", "flag-3"]


@pytest.mark.parametrize(
    ("runtime", "decided"),
    [
        (None, [1]),
        (Runtime.ALL, [1, 2, 3]),
        (Runtime.CLIENT, [1, 2]),
        (Runtime.SERVER, [1, 3]),
    ],
)
async def test_of_flags_for_one_runtime_those_of_the_caller_are_decided(
    runtime: Runtime | None, decided: list[int]
) -> None:
    world = World(
        a_flag(id=1),
        a_flag(id=2, evaluation_runtime=Runtime.CLIENT),
        a_flag(id=3, evaluation_runtime=Runtime.SERVER),
    )
    assert list(await world.values(runtime=lambda: runtime)) == [f"flag-{id}" for id in decided]


async def test_flag_keys_choose_and_bring_what_they_depend_on() -> None:
    chain = [a_flag(id=1)] + [
        a_flag(of_groups({"properties": [depends_on(id - 1)]}), id=id) for id in (2, 3)
    ]
    world = World(*chain, a_flag(id=4))
    assert await world.values(flag_keys=frozenset({"flag-3", "unknown"})) == {
        "flag-1": True,
        "flag-2": True,
        "flag-3": True,
    }
    assert await world.values(flag_keys=frozenset({"flag-1"})) == {"flag-1": True}
    assert await world.values(flag_keys=frozenset()) == {}


async def test_a_flag_that_was_not_asked_for_is_off_to_those_that_depend_on_it() -> None:
    """Contract 1.4, 1: left out by its runtime, it counts as false."""
    world = World(
        a_flag(id=1, evaluation_runtime=Runtime.SERVER),
        a_flag(of_groups({"properties": [depends_on(1)]}), id=2),
        a_flag(of_groups({"properties": [depends_on(1, False)]}), id=3),
    )
    keys = frozenset({"flag-2", "flag-3"})
    values = await world.values(runtime=lambda: Runtime.CLIENT, flag_keys=keys)
    assert values == {"flag-2": False, "flag-3": True}


async def test_surveys_can_be_asked_for_alone() -> None:
    world = World(a_flag(id=1, key="survey-targeting-a"), a_flag(id=2, key="a-survey-targeting-"))
    assert list(await world.values(only_surveys=True)) == ["survey-targeting-a"]


async def test_nobody_is_asked_where_they_run_unless_a_flag_wants_to_know() -> None:
    def runtime() -> Runtime:
        raise AssertionError("nobody wants to know")

    assert await World(a_flag()).values(runtime=runtime) == {"flag-1": True}


@pytest.mark.parametrize(
    ("flags", "cohorts", "wanted"),
    [
        ([a_flag(PRO)], [], {"cohorts": False, "hash_keys": False}),
        ([a_flag(PRO)], [a_cohort(1)], {"cohorts": True, "hash_keys": False}),
        (
            [a_flag(HALF, ensure_experience_continuity=True)],
            [],
            {"cohorts": False, "hash_keys": True},
        ),
    ],
    ids=["neither", "static cohorts", "hash keys"],
)
async def test_cohorts_and_hash_keys_are_read_only_where_a_flag_could_ask(
    flags: list[Flag], cohorts: list[Any], wanted: dict[str, bool]
) -> None:
    world = World(*flags, cohorts=cohorts)
    await world.values()
    assert world.subjects.wanted == wanted


async def test_nothing_is_read_for_flags_that_nobody_asked_for() -> None:
    world = World(a_flag(PRO, id=1), a_flag(id=2))
    assert await world.values(flag_keys=frozenset({"flag-2"})) == {"flag-2": True}
    assert world.subjects.calls == []
