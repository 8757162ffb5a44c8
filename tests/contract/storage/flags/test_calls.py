"""Flag calls are counted for existing flags, with a limited number of responses."""

import asyncio
from datetime import datetime

from hedgerow.storage.flags import calls as flag_calls
from hedgerow.storage.flags.calls import MAX_RESPONSES
from tests.contract.storage.conftest import DEFAULT_PROJECT, LATER, NOW, Stores
from tests.contract.storage.flags.test_flags import put_flag


async def count(
    stores: Stores, calls: dict[tuple[str, str], int], now: datetime = NOW
) -> dict[str, int]:
    """Add calls and return the counts of a-flag."""
    await stores.database.write(
        lambda connection: flag_calls.add_calls(connection, DEFAULT_PROJECT, calls, now)
    )
    return dict(await stores.flags.call_counts(DEFAULT_PROJECT, "a-flag"))


async def test_calls_are_summed_by_response(stores: Stores) -> None:
    flag = await put_flag(stores)
    assert await count(stores, {("a-flag", "true"): 2, ("a-flag", "blue"): 1}) == {
        "blue": 1,
        "true": 2,
    }
    assert await count(stores, {("a-flag", "true"): 3}, LATER) == {"blue": 1, "true": 5}
    stored = await stores.flags.flag(DEFAULT_PROJECT, flag.id)
    assert stored is not None
    assert stored.last_called_at == LATER


async def test_calls_of_unknown_flags_are_not_stored(stores: Stores) -> None:
    assert await count(stores, {("a-flag", "true"): 2}) == {}


async def test_number_of_responses_is_limited(stores: Stores) -> None:
    await put_flag(stores)
    made_up = {("a-flag", f"answer {number:03}"): 1 for number in range(MAX_RESPONSES + 50)}
    kept = await count(stores, made_up)
    assert len(kept) == MAX_RESPONSES
    again = await count(stores, {("a-flag", "answer 001"): 1, ("a-flag", "another"): 1})
    assert again == kept | {"answer 001": 2}


async def test_concurrent_workers_count_without_deadlock(stores: Stores) -> None:
    """Each worker adds calls in its own order."""
    for key in ("a-flag", "b-flag"):
        await put_flag(stores, key=key)
    calls = [(key, f"answer {n}") for key in ("a-flag", "b-flag") for n in range(20)]
    orders = [calls, calls[::-1]] * 4
    await asyncio.gather(*(count(stores, dict.fromkeys(order, 1)) for order in orders))
    expected = {f"answer {n}": 8 for n in range(20)}
    assert await stores.flags.call_counts(DEFAULT_PROJECT, "a-flag") == expected
    assert await stores.flags.call_counts(DEFAULT_PROJECT, "b-flag") == expected
