"""Fair queues."""

import asyncio
from collections import Counter

import pytest

from hedgerow.lib.workers.fair_queue import MIN_REMEMBERED_KEYS, Places, Starts, Turns


def _take_turns(turns: Turns[str], waiting: str, number: int, cost: float = 1) -> str:
    taken = ""
    for _ in range(number):
        key = turns.choose(waiting)
        turns.charge(key, cost)
        taken += key
    return taken


def test_keys_that_wait_take_turns() -> None:
    assert _take_turns(Turns(), "abc", 6) == "abcabc"


def test_a_key_that_waits_alone_has_every_turn() -> None:
    assert _take_turns(Turns(), "a", 3) == "aaa"


def test_a_newcomer_is_next_however_much_the_others_have_had() -> None:
    turns = Turns[str]()
    _take_turns(turns, "ab", 1000)
    assert _take_turns(turns, "abc", 3) == "cab"


def test_a_key_that_was_away_does_not_make_up_for_it() -> None:
    turns = Turns[str]()
    _take_turns(turns, "abc", 3)
    _take_turns(turns, "ab", 1000)
    assert Counter(_take_turns(turns, "abc", 30)) == {"a": 10, "b": 10, "c": 10}


def test_a_weight_is_the_share_of_a_key_that_waits() -> None:
    turns = Turns[str](lambda key: 3 if key == "a" else 1)
    assert Counter(_take_turns(turns, "ab", 40)) == {"a": 30, "b": 10}


def test_expensive_work_costs_more_turns() -> None:
    turns = Turns[str]()
    taken = Counter[str]()
    for _ in range(110):
        key = turns.choose("ab")
        turns.charge(key, 10 if key == "a" else 1)
        taken[key] += 1
    assert taken == {"a": 10, "b": 100}


def test_sort_has_the_next_key_first() -> None:
    turns = Turns[str]()
    turns.charge("a", 5)
    turns.charge("b", 2)
    assert turns.sort("abc") == ["c", "b", "a"]


def test_keys_that_are_not_owed_anything_are_forgotten() -> None:
    turns = Turns[int]()
    for key in range(100 * MIN_REMEMBERED_KEYS):
        turns.charge(key, 0.5)
        turns.charge(-1, 1)
    assert len(turns._ends) <= 2 * MIN_REMEMBERED_KEYS


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class _Work:
    """Holds places until `end` names those to leave."""

    def __init__(self, places: Places[str]) -> None:
        self._places = places
        self.running = ""
        self._ends: dict[str, list[asyncio.Event]] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, keys: str) -> str:
        """Start work, and return what runs then."""
        self.tasks += [asyncio.create_task(self._run(key)) for key in keys]
        await _settle()
        return self.running

    async def end(self, keys: str) -> str:
        for key in keys:
            self._ends[key].pop(0).set()
        await _settle()
        return self.running

    async def _run(self, key: str) -> None:
        async with self._places.hold(key):
            self.running += key
            end = asyncio.Event()
            self._ends.setdefault(key, []).append(end)
            await end.wait()
            self.running = self.running.replace(key, "", 1)


async def test_a_key_alone_gets_half_of_the_places_and_the_next_one_finds_some() -> None:
    work = _Work(Places(8))
    assert await work.start("a" * 20) == "aaaa"
    assert await work.start("b" * 20) == "aaaabb"
    assert await work.start("c" * 20) == "aaaabbc"
    assert await work.start("d" * 20) == "aaaabbcd"


async def test_a_freed_place_goes_to_a_key_without_any() -> None:
    work = _Work(Places(4))
    assert await work.start("aaaabbbb") == "aab"
    assert await work.start("c") == "aabc"
    assert await work.start("d") == "aabc"
    assert await work.end("a") == "abcd"


async def test_per_key_limits_a_key_that_is_alone() -> None:
    assert await _Work(Places(8, per_key=2)).start("aaaa") == "aa"


async def test_one_place_serves_keys_in_turns() -> None:
    work = _Work(Places(1))
    served = await work.start("aaaabb")
    for _ in range(5):
        served += await work.end(served[-1])
    assert served == "ababaa"


async def test_whoever_gives_up_waiting_leaves_its_place_to_others() -> None:
    places = Places[str](1)
    work = _Work(places)
    await work.start("abc")
    work.tasks[1].cancel()
    await _settle()
    assert await work.end("a") == "c"
    assert await work.end("c") == ""
    assert (places.running, places.waiting) == (0, 0)


async def test_a_place_that_arrives_with_a_cancellation_is_not_lost() -> None:
    places = Places[str](1)
    await places.acquire("a")
    waiting = asyncio.create_task(places.acquire("b"))
    await _settle()
    places.release("a")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (places.running, places.waiting) == (0, 0)


async def _start(starts: Starts[str], keys: str) -> list[str]:
    """Start work of these keys, and return what began in each iteration of the loop."""
    begun: list[str] = []

    async def run(key: str) -> None:
        await starts.wait(key)
        begun[-1] += key

    tasks = [asyncio.create_task(run(key)) for key in keys]
    while not all(task.done() for task in tasks):
        begun.append("")
        await asyncio.sleep(0)
    return [each for each in begun if each]


async def test_a_few_pieces_of_work_begin_in_an_iteration() -> None:
    assert [len(each) for each in await _start(Starts(3), "a" * 10)] == [3, 3, 3, 1]


async def test_keys_take_turns_to_begin() -> None:
    assert "".join(await _start(Starts(2), "aaaaaabb")) == "aababaaa"


async def test_work_begins_at_once_after_an_idle_iteration() -> None:
    starts = Starts[str](2)
    await _start(starts, "aaaa")
    await _settle()
    async with asyncio.timeout(0):
        await starts.wait("a")
        await starts.wait("a")


async def test_work_that_is_cancelled_takes_no_turn() -> None:
    starts = Starts[str](1)
    begun: list[int] = []

    async def run(number: int) -> None:
        await starts.wait("a")
        begun.append(number)

    tasks = [asyncio.create_task(run(number)) for number in range(4)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    await asyncio.wait(tasks)
    assert begun == [0, 1, 3]
    assert tasks[2].cancelled()


async def test_nothing_begins_after_expensive_work() -> None:
    starts, iterations = Starts[str](2), 0
    await starts.wait("a", cost=8)
    beginning = asyncio.create_task(starts.wait("b"))
    while not beginning.done():
        await asyncio.sleep(0)
        iterations += 1
    assert iterations > 3
