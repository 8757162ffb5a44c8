"""Saved insights are stored with the dashboards that show them."""

from dataclasses import replace
from typing import Any

from sqlalchemy import insert, select

from hedgerow.dashboards.model import DashboardId, InsightId, InsightWithTiles, SavedInsight
from hedgerow.dashboards.store import InsightFilter, InsightWrite, InsightWriteContext
from hedgerow.projects.activity import ActivityEntry
from hedgerow.projects.model import ProjectId
from hedgerow.storage.dashboards.insights import SqlInsightStore
from hedgerow.storage.tables import dashboard_tiles, dashboards
from tests.contract.storage.conftest import ACTOR, LATER, NOW, Stores

QUERY = {"kind": "TrendsQuery", "series": [{"kind": "EventsNode", "event": "größer"}]}
ALL = InsightFilter(limit=100, offset=0)


def new_insight(project_id: ProjectId, short_id: str, **fields: Any) -> SavedInsight:
    insight = SavedInsight(
        id=InsightId(0),
        project_id=project_id,
        short_id=short_id,
        name=short_id,
        derived_name="",
        description="",
        query=QUERY,
        favorited=False,
        saved=True,
        tags=["a", "ü"],
        deleted=False,
        created_by="ann",
        created_at=NOW,
        last_modified_by="ann",
        last_modified_at=NOW,
        updated_at=NOW,
    )
    return replace(insight, **fields)


def record(insight: SavedInsight) -> ActivityEntry:
    return ActivityEntry(
        scope="Insight",
        item_id=str(insight.id),
        item_name=insight.name,
        activity="created",
        actor=ACTOR,
        project_id=insight.project_id,
    )


async def write(
    store: SqlInsightStore, insight: SavedInsight, shown_on: list[DashboardId] | None = None
) -> InsightWithTiles:
    def decide(context: InsightWriteContext) -> InsightWrite:
        assert set(shown_on or ()) <= set(context.dashboards)
        return InsightWrite(insight=insight, dashboards=shown_on, build_entry=record)

    return await store.write_insight(insight.project_id, decide, LATER)


async def new_dashboard(stores: Stores, project_id: ProjectId, **fields: Any) -> DashboardId:
    values = {
        **{"project_id": project_id, "name": "D", "description": "", "pinned": False},
        **{"deleted": False, "tags": [], "filters": {}, "restriction_level": 21},
        **{"creation_mode": "default", "created_by": "ann", "created_at": NOW},
        **{"last_modified_by": "ann", "last_modified_at": NOW, **fields},
    }
    adding = insert(dashboards).values(values).returning(dashboards.c.id)
    return DashboardId(await stores.database.write(lambda c: c.execute(adding).scalar_one()))


async def test_insight_round_trips(stores: Stores) -> None:
    project, other = await stores.new_project("A"), await stores.new_project("B")
    store = SqlInsightStore(stores.database)
    entries = await stores.count_entries()
    made = await write(store, new_insight(project.id, "Abcd1234"))
    assert made.insight == new_insight(project.id, "Abcd1234", id=made.insight.id)
    assert await stores.count_entries() == entries + 1
    assert await store.insight(project.id, made.insight.id) == made
    assert await store.find_by_short_id(project.id, "Abcd1234") == made
    assert await store.insight(other.id, made.insight.id) is None
    assert await store.find_by_short_id(other.id, "Abcd1234") is None
    # The same short id in another project, as after a copy.
    await write(store, new_insight(other.id, "Abcd1234"))
    assert await store.insights(project.id, ALL) == ([made], 1)
    gone = await write(store, replace(made.insight, deleted=True))
    assert await store.insights(project.id, ALL) == ([], 0)
    assert await store.insight(project.id, made.insight.id) == gone


async def test_lists_are_filtered_and_ordered(stores: Stores) -> None:
    project = await stores.new_project()
    store = SqlInsightStore(stores.database)
    board = await new_dashboard(stores, project.id)
    node = {"kind": "DataVisualizationNode", "source": {"kind": "HogQLQuery", "query": "select 1"}}
    first = await write(
        store,
        new_insight(
            project.id, "a", name="50% of Signups", saved=False, query=node, tags=['"grün"\\', "a"]
        ),
    )
    second = await write(
        store,
        new_insight(project.id, "b", favorited=True, last_modified_at=LATER, created_by="bob"),
        [board],
    )

    async def names(**wanted: Any) -> list[str]:
        found, count = await store.insights(project.id, replace(ALL, **wanted))
        assert count == len(found)
        return [each.insight.short_id for each in found]

    assert await names() == ["b", "a"]
    assert await names(order="id") == ["a", "b"]
    assert await names(search="50% of signups") == ["a"]
    assert await names(search="5_%") == []
    assert await names(saved=True) == ["b"]
    assert await names(favorited=True) == ["b"]
    assert await names(tags=["a"]) == ["b", "a"]
    assert await names(tags=['"grün"\\', "%"]) == ["a"]
    assert await names(tags=["grün", "A", ""]) == []
    assert await names(query_kind="HogQLQuery") == ["a"]
    assert await names(query_kind="TrendsQuery") == ["b"]
    assert await names(short_id="a") == ["a"]
    assert await names(created_by="bob") == ["b"]
    assert await names(dashboard_ids=[board]) == ["b"]
    page, count = await store.insights(project.id, replace(ALL, limit=1, offset=1))
    assert (page, count) == ([first], 2)
    assert [tile.dashboard_id for tile in second.tiles] == [board]


async def test_dashboards_of_an_insight_are_replaced(stores: Stores) -> None:
    project = await stores.new_project()
    store = SqlInsightStore(stores.database)
    boards = [await new_dashboard(stores, project.id) for _ in range(3)]
    deleted = await new_dashboard(stores, project.id, deleted=True)
    made = await write(store, new_insight(project.id, "a"), boards[:2])
    changed = await write(store, made.insight, boards[1:])
    assert [tile.dashboard_id for tile in changed.tiles] == boards[1:]
    assert changed.tiles[0] == made.tiles[1]
    assert (await write(store, made.insight)).tiles == changed.tiles
    await stores.database.write(
        lambda c: c.execute(dashboard_tiles.update().values(dashboard_id=deleted))
    )
    assert (await write(store, made.insight)).tiles == []
    assert (await write(store, made.insight, [])).tiles == []
    rows = await stores.database.read(lambda c: c.execute(select(dashboard_tiles)).all())
    assert rows == []
