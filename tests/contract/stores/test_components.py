"""The numbers of components: given once, never twice, whoever asks at the same time."""

import asyncio
from collections.abc import Iterable

from hedgerow.pipelines.component import Component
from hedgerow.pipelines.components import BUILT_IN
from hedgerow.pipelines.model import Family
from hedgerow.storage.components import FIRST_ID, ComponentRecords
from hedgerow.storage.connect import Place, open_database
from hedgerow.storage.migrate import prepare
from tests.contract.stores.conftest import FIRST, NOW, Stores


def named(*keys: str) -> list[Component]:
    return [
        Component(key=key, family=Family.DESTINATION, name=key, description="", version="1")
        for key in keys
    ]


async def numbers(stores: Stores, *keys: str) -> dict[str, int]:
    given = await stores.components.component_ids(named(*keys), NOW)
    return {key: given[key] for key in keys}


async def registered_by_another_process(place: Place, components: Iterable[Component]) -> object:
    database = open_database(place)
    try:
        return await ComponentRecords(database).component_ids(components, NOW)
    finally:
        await database.close()


async def test_numbers_begin_behind_those_of_the_built_in_ones(stores: Stores) -> None:
    assert await numbers(stores, "b", "a") == {"b": FIRST_ID, "a": FIRST_ID + 1}
    assert max(BUILT_IN) < FIRST_ID


async def test_a_number_is_kept_whatever_is_installed_later(stores: Stores) -> None:
    first = await numbers(stores, "a", "b")
    assert await numbers(stores, "c") == {"c": FIRST_ID + 2}
    assert await numbers(stores, "b", "d", "a") == first | {"d": FIRST_ID + 3}


async def test_a_number_is_kept_over_a_restart(stores: Stores) -> None:
    first = await numbers(stores, "a", "b")
    assert await registered_by_another_process(stores.place, named("b", "a")) == first


async def test_nothing_to_register_touches_nothing(stores: Stores) -> None:
    assert await stores.components.component_ids([], NOW) == {}


async def test_processes_that_start_at_once_agree_on_every_number(place: Place) -> None:
    prepare(place, FIRST, NOW)
    wishes = [named("a", "b", "c"), named("c", "b", "a"), named("d", "a"), named("e", "d")]
    await asyncio.gather(*(registered_by_another_process(place, wish) for wish in wishes))
    final = await registered_by_another_process(place, named("a"))
    assert isinstance(final, dict)
    assert sorted(final) == ["a", "b", "c", "d", "e"]
    assert sorted(final.values()) == list(range(FIRST_ID, FIRST_ID + 5))
