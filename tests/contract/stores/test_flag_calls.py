"""How often flags were called: counted for flags that there are, and for few answers of each."""

import asyncio
from datetime import datetime

from hedgerow.storage import flag_calls
from hedgerow.storage.flag_calls import MAX_RESPONSES
from tests.contract.stores.conftest import DEFAULT_PROJECT, LATER, NOW, Stores
from tests.contract.stores.test_flags import put_flag


async def count(
    stores: Stores, calls: dict[tuple[str, str], int], now: datetime = NOW
) -> dict[str, int]:
    """The counts of a-flag after these calls."""
    await stores.database.write(
        lambda connection: flag_calls.count(connection, DEFAULT_PROJECT, calls, now)
    )
    return dict(await stores.flags.call_counts(DEFAULT_PROJECT, "a-flag"))


async def test_calls_add_up_by_answer(stores: Stores) -> None:
    flag = await put_flag(stores)
    assert await count(stores, {("a-flag", "true"): 2, ("a-flag", "blue"): 1}) == {
        "blue": 1,
        "true": 2,
    }
    assert await count(stores, {("a-flag", "true"): 3}, LATER) == {"blue": 1, "true": 5}
    stored = await stores.flags.flag(DEFAULT_PROJECT, flag.id)
    assert stored is not None
    assert stored.last_called_at == LATER


async def test_calls_of_flags_that_are_not_there_are_not_kept(stores: Stores) -> None:
    assert await count(stores, {("a-flag", "true"): 2}) == {}


async def test_whoever_makes_up_answers_fills_no_table(stores: Stores) -> None:
    await put_flag(stores)
    made_up = {("a-flag", f"answer {number:03}"): 1 for number in range(MAX_RESPONSES + 50)}
    kept = await count(stores, made_up)
    assert len(kept) == MAX_RESPONSES
    again = await count(stores, {("a-flag", "answer 001"): 1, ("a-flag", "another"): 1})
    assert again == kept | {"answer 001": 2}


async def test_several_workers_count_beside_each_other(stores: Stores) -> None:
    """Each in the order in which calls came to it."""
    for key in ("a-flag", "b-flag"):
        await put_flag(stores, key=key)
    calls = [(key, f"answer {n}") for key in ("a-flag", "b-flag") for n in range(20)]
    orders = [calls, calls[::-1]] * 4
    await asyncio.gather(*(count(stores, dict.fromkeys(order, 1)) for order in orders))
    expected = {f"answer {n}": 8 for n in range(20)}
    assert await stores.flags.call_counts(DEFAULT_PROJECT, "a-flag") == expected
    assert await stores.flags.call_counts(DEFAULT_PROJECT, "b-flag") == expected
