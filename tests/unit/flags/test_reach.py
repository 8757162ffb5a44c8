"""How many a condition reaches: everybody is counted once, and others are served meanwhile."""

import asyncio
from typing import Any

import pytest

from hedgerow.errors import Invalid, Unavailable
from hedgerow.flags.reach import AT_ONCE, Reach, Reaches
from hedgerow.persons.nesting import MAX_LEVELS
from tests.unit.fake_time import START
from tests.unit.flags.stores import ListFlags, ListPersons, a_board
from tests.unit.flags.world import a_cohort, a_flag, group_prop, in_cohort, prop
from tests.unit.projects.world import a_project


class World:
    def __init__(self, **definitions: Any) -> None:
        flags = ListFlags()
        flags.put(a_flag(id=1), **definitions)
        self.persons = ListPersons()
        self.board = a_board(flags)
        self.reaches = Reaches(self.board, self.persons)

    async def of(self, *properties: Any, group: int | None = None) -> tuple[int, int]:
        return await self.reach({"properties": list(properties)}, group)

    async def reach(self, condition: Any, group: int | None = None) -> tuple[int, int]:
        found = await self.reaches.of(a_project(), condition, group, START)
        assert isinstance(found, Reach)
        return found.affected, found.total


async def test_nobody_is_reached_where_nobody_is() -> None:
    world = World()
    assert await world.of(prop("plan", "pro")) == (0, 0)
    assert await world.of(group=0) == (0, 0)


@pytest.mark.parametrize("condition", [{}, {"properties": []}, {"properties": None}])
async def test_a_condition_without_filters_reaches_everybody(condition: Any) -> None:
    world = World()
    world.persons.people = [{}, {"plan": "pro"}]
    assert await world.reach(condition) == (2, 2)


async def test_all_filters_have_to_hold() -> None:
    world = World()
    world.persons.people = [{"plan": "pro", "n": 1}, {"plan": "pro", "n": 2}, {"n": 2}]
    assert await world.of(prop("plan", "pro")) == (2, 3)
    assert await world.of(prop("plan", "pro"), prop("n", 1, "gt")) == (1, 3)
    assert await world.of(prop("plan", operator="is_not_set")) == (1, 3)


@pytest.mark.parametrize("people", [AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE])
async def test_everybody_is_counted_once_however_many_they_are(people: int) -> None:
    world = World()
    world.persons.people = [{"even": n % 2 == 0} for n in range(people)]
    for n in range(people):
        world.persons.put_company(f"company-{n}", even=n % 2 == 0)
    half = (people + 1) // 2
    assert await world.of(prop("even", True)) == (half, people)
    assert await world.of(group_prop(0, "even", True), group=0) == (half, people)


async def test_groups_of_one_type_are_counted() -> None:
    world = World()
    world.persons.put_company("acme", size=50)
    world.persons.put_company("other", size=5)
    world.persons.put_company("team", type_index=1, size=50)
    assert await world.of(group_prop(0, "size", 10, "gt"), group=0) == (1, 2)
    assert await world.of(group_prop(0, "$group_key", "acme"), group=0) == (1, 2)
    assert await world.of(group_prop(1, "size", 10, "gt"), group=1) == (1, 1)


async def test_a_dynamic_cohort_is_asked_about_everybody() -> None:
    pros = {"type": "OR", "values": [prop("plan", "pro"), prop("plan", "team")]}
    world = World(cohorts=[a_cohort(1, pros)])
    world.persons.people = [{"plan": "pro"}, {"plan": "team"}, {"plan": "free"}, {}]
    assert await world.of(in_cohort(1)) == (2, 4)
    assert await world.of(in_cohort(1, "not_in")) == (2, 4)


@pytest.mark.parametrize(
    "properties",
    [
        5,
        "text",
        {"key": "plan"},
        [5],
        [None],
        [{}],
        [prop("plan", "x", "no such operator")],
        [prop("plan", "x", type="no such type")],
        [prop("plan", "x", type=["person"])],
        [in_cohort(99)],
        [in_cohort("no number")],
        [in_cohort({"a": 1})],
    ],
)
async def test_a_condition_that_cannot_be_read_is_refused(properties: Any) -> None:
    world = World()
    world.persons.people = [{}]
    with pytest.raises(Invalid) as refused:
        await world.reach({"properties": properties})
    assert refused.value.attr is not None
    assert refused.value.attr.startswith("condition")


@pytest.mark.parametrize(
    "filter",
    [
        group_prop(0, "size", 1),
        {"type": "flag", "key": "1", "operator": "flag_evaluates_to", "value": True},
        prop("plan", "(", "regex"),
        prop("plan", None),
        prop("plan", {"a": []}, "gt"),
        prop("plan", [1, 2], "semver_gt"),
    ],
)
async def test_odd_questions_are_answered_or_refused(filter: Any) -> None:
    world = World()
    world.persons.people = [{"plan": "pro"}, {"plan": [1]}, {"plan": None}, {}]
    try:
        affected, total = await world.of(filter)
    except Invalid:
        return
    assert total == 4
    assert 0 <= affected <= 4


async def test_a_chain_of_cohorts_is_counted_up_to_a_depth_and_refused_below() -> None:
    chain = [a_cohort(1, {"type": "OR", "values": [prop("plan", "pro")]})]
    chain += [a_cohort(id, in_cohort(id - 1)) for id in range(2, 161)]
    world = World(cohorts=chain)
    world.persons.people = [{"plan": "pro"}, {}]
    assert await world.of(in_cohort(MAX_LEVELS - 1)) == (1, 2)
    for too_deep in (MAX_LEVELS, 160):
        with pytest.raises(Invalid) as refused:
            await world.of(prop("plan", "pro"), in_cohort(too_deep))
        assert refused.value.attr == "condition.properties[1].value"


async def test_others_are_served_in_between() -> None:
    world = World()
    world.persons.people = [{}] * (AT_ONCE * 10)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await world.of()
    task.cancel()
    assert turns >= 10


async def test_a_question_leaves_the_snapshot_as_it_was() -> None:
    """Whoever asks many different questions must not fill the memory."""
    world = World()
    snapshot = await world.board.snapshot(a_project())
    before = len(snapshot.questions._questions)
    for n in range(50):
        await world.of(prop("plan", str(n)))
    assert len(snapshot.questions._questions) == before


async def test_persons_that_cannot_be_read_are_told() -> None:
    world = World()
    world.persons.away["some"] = 1
    with pytest.raises(Unavailable):
        await world.of()
