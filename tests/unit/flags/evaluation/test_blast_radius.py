"""The blast radius of a condition."""

from typing import Any

import pytest

from hedgerow.errors import Invalid, Unavailable
from hedgerow.flags.evaluation.blast_radius import BlastRadius, BlastRadiusCounter
from hedgerow.lib.threads import run_in_thread
from hedgerow.persons.cohort_graph import MAX_LEVELS
from tests.unit.fake_time import START
from tests.unit.flags.factories import group_prop, in_cohort, make_cohort, make_flag, prop
from tests.unit.flags.stores import FakeFlagStore, FakePersonScanner, build_flag_cache
from tests.unit.projects.factories import make_project


class BlastRadiusFixture:
    def __init__(self, **definitions: Any) -> None:
        flags = FakeFlagStore()
        flags.put(make_flag(id=1), **definitions)
        self.persons = FakePersonScanner()
        self.flag_cache = build_flag_cache(flags)
        self.counter = BlastRadiusCounter(self.flag_cache, self.persons, run_in_thread)

    async def count(self, *properties: Any, group: int | None = None) -> tuple[int, int]:
        return await self.count_condition({"properties": list(properties)}, group)

    async def count_condition(self, condition: Any, group: int | None = None) -> tuple[int, int]:
        found = await self.counter.count(make_project(), condition, group, START)
        assert isinstance(found, BlastRadius)
        return found.affected, found.total


async def test_blast_radius_of_an_empty_project_is_zero() -> None:
    fixture = BlastRadiusFixture()
    assert await fixture.count(prop("plan", "pro")) == (0, 0)
    assert await fixture.count(group=0) == (0, 0)


@pytest.mark.parametrize("condition", [{}, {"properties": []}, {"properties": None}])
async def test_condition_without_filters_includes_every_person(condition: Any) -> None:
    fixture = BlastRadiusFixture()
    fixture.persons.people = [{}, {"plan": "pro"}]
    assert await fixture.count_condition(condition) == (2, 2)


async def test_condition_requires_all_filters() -> None:
    fixture = BlastRadiusFixture()
    fixture.persons.people = [{"plan": "pro", "n": 1}, {"plan": "pro", "n": 2}, {"n": 2}]
    assert await fixture.count(prop("plan", "pro")) == (2, 3)
    assert await fixture.count(prop("plan", "pro"), prop("n", 1, "gt")) == (1, 3)
    assert await fixture.count(prop("plan", operator="is_not_set")) == (1, 3)


async def test_groups_of_one_type_are_counted() -> None:
    fixture = BlastRadiusFixture()
    fixture.persons.put_company("acme", size=50)
    fixture.persons.put_company("other", size=5)
    fixture.persons.put_company("team", type_index=1, size=50)
    assert await fixture.count(group_prop(0, "size", 10, "gt"), group=0) == (1, 2)
    assert await fixture.count(group_prop(0, "$group_key", "acme"), group=0) == (1, 2)
    assert await fixture.count(group_prop(1, "size", 10, "gt"), group=1) == (1, 1)


async def test_dynamic_cohort_is_evaluated_for_all_persons() -> None:
    pros = {"type": "OR", "values": [prop("plan", "pro"), prop("plan", "team")]}
    fixture = BlastRadiusFixture(cohorts=[make_cohort(1, pros)])
    fixture.persons.people = [{"plan": "pro"}, {"plan": "team"}, {"plan": "free"}, {}]
    assert await fixture.count(in_cohort(1)) == (2, 4)
    assert await fixture.count(in_cohort(1, "not_in")) == (2, 4)


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
async def test_invalid_condition_is_refused(properties: Any) -> None:
    fixture = BlastRadiusFixture()
    fixture.persons.people = [{}]
    with pytest.raises(Invalid) as caught:
        await fixture.count_condition({"properties": properties})
    assert caught.value.attr is not None
    assert caught.value.attr.startswith("condition")


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
async def test_unusual_filter_is_counted_or_refused(filter: Any) -> None:
    fixture = BlastRadiusFixture()
    fixture.persons.people = [{"plan": "pro"}, {"plan": [1]}, {"plan": None}, {}]
    try:
        affected, total = await fixture.count(filter)
    except Invalid:
        return
    assert total == 4
    assert 0 <= affected <= 4


async def test_cohort_chain_is_refused_beyond_the_maximum_depth() -> None:
    chain = [make_cohort(1, {"type": "OR", "values": [prop("plan", "pro")]})]
    chain += [make_cohort(id, in_cohort(id - 1)) for id in range(2, 161)]
    fixture = BlastRadiusFixture(cohorts=chain)
    fixture.persons.people = [{"plan": "pro"}, {}]
    assert await fixture.count(in_cohort(MAX_LEVELS - 1)) == (1, 2)
    for too_deep in (MAX_LEVELS, 160):
        with pytest.raises(Invalid) as caught:
            await fixture.count(prop("plan", "pro"), in_cohort(too_deep))
        assert caught.value.attr == "condition.properties[1].value"


async def test_count_adds_no_predicates_to_the_snapshot() -> None:
    """Many different conditions must not fill the memory."""
    fixture = BlastRadiusFixture()
    snapshot = await fixture.flag_cache.snapshot(make_project())
    before = len(snapshot.predicates._predicates)
    for n in range(50):
        await fixture.count(prop("plan", str(n)))
    assert len(snapshot.predicates._predicates) == before


async def test_unavailable_persons_raise_an_error() -> None:
    fixture = BlastRadiusFixture()
    fixture.persons.failures["scan_persons"] = 1
    with pytest.raises(Unavailable):
        await fixture.count()
