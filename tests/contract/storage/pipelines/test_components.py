"""Component ids are assigned once, also by concurrent processes."""

import asyncio
from collections.abc import Iterable

from hedgerow.pipelines.builtin import BUILTIN_COMPONENTS
from hedgerow.plugin.component import Component, Family
from hedgerow.storage.connect import DatabaseLocation, open_database
from hedgerow.storage.migrations.apply import prepare_database
from hedgerow.storage.pipelines.components import FIRST_PACKAGE_COMPONENT_ID, SqlComponentStore
from tests.contract.storage.conftest import FIRST, NOW, Stores


def build_components(*keys: str) -> list[Component]:
    return [
        Component(key=key, family=Family.DESTINATION, name=key, description="", version="1")
        for key in keys
    ]


async def fetch_ids(stores: Stores, *keys: str) -> dict[str, int]:
    given = await stores.components.component_ids(build_components(*keys), NOW)
    return {key: given[key] for key in keys}


async def register_in_another_process(
    place: DatabaseLocation, components: Iterable[Component]
) -> object:
    database = open_database(place)
    try:
        return await SqlComponentStore(database).component_ids(components, NOW)
    finally:
        await database.close()


async def test_component_ids_start_after_the_built_in_ones(stores: Stores) -> None:
    assert await fetch_ids(stores, "b", "a") == {
        "b": FIRST_PACKAGE_COMPONENT_ID,
        "a": FIRST_PACKAGE_COMPONENT_ID + 1,
    }
    assert max(BUILTIN_COMPONENTS) < FIRST_PACKAGE_COMPONENT_ID


async def test_component_id_is_stable_when_packages_are_added(stores: Stores) -> None:
    first = await fetch_ids(stores, "a", "b")
    assert await fetch_ids(stores, "c") == {"c": FIRST_PACKAGE_COMPONENT_ID + 2}
    assert await fetch_ids(stores, "b", "d", "a") == first | {"d": FIRST_PACKAGE_COMPONENT_ID + 3}


async def test_component_id_survives_a_restart(stores: Stores) -> None:
    first = await fetch_ids(stores, "a", "b")
    assert await register_in_another_process(stores.location, build_components("b", "a")) == first


async def test_registering_nothing_writes_nothing(stores: Stores) -> None:
    assert await stores.components.component_ids([], NOW) == {}


async def test_concurrent_processes_agree_on_component_ids(place: DatabaseLocation) -> None:
    prepare_database(place, FIRST, lambda: NOW)
    keys_by_process = [
        build_components("a", "b", "c"),
        build_components("c", "b", "a"),
        build_components("d", "a"),
        build_components("e", "d"),
    ]
    await asyncio.gather(
        *(
            register_in_another_process(place, keys_of_process)
            for keys_of_process in keys_by_process
        )
    )
    final = await register_in_another_process(place, build_components("a"))
    assert isinstance(final, dict)
    assert sorted(final) == ["a", "b", "c", "d", "e"]
    assert sorted(final.values()) == list(
        range(FIRST_PACKAGE_COMPONENT_ID, FIRST_PACKAGE_COMPONENT_ID + 5)
    )
