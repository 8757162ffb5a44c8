"""Promotions are all or nothing, whatever else happens, and products keep a project once."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert

from hedgerow.errors import Conflict, Invalid
from hedgerow.flags.edits import FlagFields
from hedgerow.flags.environments.matrix import EnvironmentProject, FlagMatrix, MatrixQuery
from hedgerow.flags.environments.promotion_plan import (
    FlagVersions,
    PromotionPlan,
    PromotionRequest,
)
from hedgerow.flags.environments.promotions import Promotions
from hedgerow.flags.evaluation.flag_cache import FlagCache
from hedgerow.flags.model import MAX_FLAGS, FlagDefinitions
from hedgerow.lib.threads import run_in_thread
from hedgerow.projects.directory import Directory
from hedgerow.projects.model import Project
from hedgerow.projects.products import Environment, Products
from hedgerow.storage.flags.environments import SqlEnvironmentStore
from hedgerow.storage.projects.products import SqlProductStore
from hedgerow.storage.tables import flags
from tests.contract.api.world import DEFAULTS
from tests.contract.storage import test_experiments as experiments
from tests.contract.storage.conftest import (
    ACTOR,
    LATER,
    NOW,
    Stores,
    build_flag_services,
    record_statements,
)

ALL = PromotionRequest(keys=None)
BY = (ACTOR, LATER)


class SlowStore(SqlEnvironmentStore):
    """Lets something happen between a plan and its transaction."""

    async def before_write(self) -> None: ...

    async def write_projects(self, *arguments: Any) -> None:
        await self.before_write()
        await super().write_projects(*arguments)


class World:
    """Two environments, and a process that promotes flags."""

    def __init__(self, stores: Stores, source: Project, target: Project) -> None:
        self.stores, self.source, self.target = stores, source, target
        self.cache = FlagCache(stores.flags, run_in_thread)
        self.store = SlowStore(stores.flags)
        self.promotions = Promotions(self.store, self.cache, run_in_thread)
        self.ends = [
            EnvironmentProject(
                environment=Environment(name=name, project_id=project.id), project=project
            )
            for name, project in (("dev", source), ("live", target))
        ]

    async def promote(self, request: PromotionRequest = ALL) -> PromotionPlan:
        source, target = self.ends
        return await self.promotions.promote(source, target, request, BY, is_rehearsal=False)

    async def add_flags(self, project: Project, number: int, percentage: int) -> None:
        rows = [
            {
                **DEFAULTS["flags"],
                "project_id": project.id,
                "key": f"flag-{each:04}",
                "filters": {"groups": [{"rollout_percentage": percentage}]},
            }
            for each in range(number)
        ]
        await self.stores.database.write(lambda c: c.execute(insert(flags), rows).close())

    async def read(self, project: Project) -> FlagDefinitions:
        return await self.stores.flags.definitions(project.id, "UTC")


@pytest.fixture
async def world(stores: Stores) -> World:
    return World(stores, await stores.new_project("Dev"), await stores.new_project("Live"))


async def test_one_refused_flag_of_2000_leaves_everything(stores: Stores, world: World) -> None:
    await world.add_flags(world.source, MAX_FLAGS - 1, 50)
    await world.add_flags(world.target, MAX_FLAGS - 1, 10)
    service = experiments.build_service(stores)
    await service.create(world.target, "runs", {"name": "E", "start_date": NOW}, ACTOR, NOW)
    [made] = build_flag_services(stores)
    variants = [{"key": "other", "rollout_percentage": 100}]
    filters = {"groups": [{}], "multivariate": {"variants": variants}}
    await made.create(world.source, FlagFields(key="runs", filters=filters), ACTOR, NOW)
    before = await world.read(world.target)
    entries = await stores.count_entries()
    with pytest.raises(Invalid, match=r"^runs: filters.multivariate.variants: Variants cannot"):
        await world.promote()
    assert await world.read(world.target) == before
    assert await stores.count_entries() == entries
    others = [flag.key for flag in before.flags if flag.key != "runs"][:100]
    plan = await world.promote(PromotionRequest(keys=others))
    assert [step.after.key for step in plan.flags.changed] == others
    after = {flag.key: flag for flag in (await world.read(world.target)).flags}
    assert {key for key, flag in after.items() if flag.version == 2} == {*others}
    assert await stores.count_entries() == entries + len(others)


async def test_many_new_flags_are_stored_with_few_statements(world: World) -> None:
    await world.add_flags(world.source, 500, 50)
    with record_statements() as statements:
        plan = await world.promote()
    assert (len(plan.flags.created), len(statements) < 100) == (500, True)
    made = (await world.read(world.target)).flags
    assert [flag.key for flag in made] == [step.after.key for step in plan.flags.created]
    [service] = build_flag_services(world.stores)
    fields = FlagFields(key="next", filters={"groups": [{}]})
    added = await service.create(world.target, fields, ACTOR, NOW)
    assert added.id not in {flag.id for flag in made}


async def test_target_that_changes_meanwhile_is_planned_again(stores: Stores, world: World) -> None:
    await world.add_flags(world.source, 2, 50)
    await world.add_flags(world.target, 2, 10)
    [service] = build_flag_services(stores)
    other = next(each for each in (await world.read(world.target)).flags if each.key[-1] == "1")
    names = ["meanwhile"]

    async def rename() -> None:
        while names:
            fields = FlagFields(name=names.pop())
            await service.change(world.target, other.id, fields, seen=None, actor=ACTOR, now=NOW)

    world.store.before_write = rename  # type: ignore[method-assign]
    await world.promote(replace(ALL, parts=["conditions"]))
    after = {flag.key: flag for flag in (await world.read(world.target)).flags}
    assert after[other.key].name == "meanwhile"
    assert [flag.filters["groups"][0]["rollout_percentage"] for flag in after.values()] == [50, 50]
    names.append("again")
    seen = {key: FlagVersions(source=1, target=flag.version) for key, flag in after.items()}
    with pytest.raises(Conflict, match="These flags have changed since you looked: flag-0001"):
        await world.promote(replace(ALL, versions=seen))


async def test_matrix_of_many_flags_reads_each_project_once(world: World) -> None:
    await world.add_flags(world.source, 500, 50)
    await world.add_flags(world.target, 500, 10)
    matrix = FlagMatrix(world.cache, run_in_thread)
    query = MatrixQuery(baseline="dev", only_drifting=True, limit=100, offset=450)
    rows, count = await matrix.list_rows(world.ends, query, lambda row: row)
    assert (len(rows), count) == (50, 500)
    assert rows[0].drift == "live: conditions differ from dev"
    with record_statements() as statements:
        await matrix.list_rows(world.ends, query, lambda row: row)
    assert len([each for each in statements if each.startswith("SELECT")]) <= len(world.ends)


async def test_project_belongs_to_one_product_and_leaves_it_when_deleted(stores: Stores) -> None:
    one, two = await stores.new_project("One"), await stores.new_project("Two")
    directory = Directory(stores.directory, lambda: NOW, lambda: 0.0)
    await directory.refresh()
    products = Products(SqlProductStore(stores.database), directory)
    chosen = [
        Environment(name=name, project_id=each.id)
        for name, each in zip("ab", (one, two), strict=True)
    ]
    made = await products.create("Shop", chosen, ACTOR, NOW)
    with pytest.raises(Invalid, match="belongs to the product 'Shop' already"):
        await products.create("Other", chosen[:1], ACTOR, NOW)
    assert await products.find_of_project(two.id) == (made, chosen[1])
    await stores.projects.delete_project(one.id, ACTOR, NOW)
    [left] = await products.list_products()
    assert list(left.environments) == chosen[1:]
    entries = await stores.list_entries(scope="Product")
    assert [each.entry.activity for each in entries] == ["created"]
