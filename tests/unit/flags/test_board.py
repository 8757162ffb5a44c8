"""Snapshots in memory: read when first asked for, replaced whole when something has changed."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hedgerow.errors import Unavailable
from hedgerow.flags.board import INLINE_VALUES, FlagCache
from hedgerow.flags.edits import FlagFields
from hedgerow.flags.flags import Flags
from hedgerow.flags.model import Flag
from hedgerow.flags.snapshot import Snapshot
from hedgerow.persons.model import Cohort
from hedgerow.projects.activity import Actor
from hedgerow.projects.model import Project
from tests.unit.fake_time import START
from tests.unit.flags.stores import ListFlags, a_board
from tests.unit.flags.world import EVERYBODY, a_cohort, a_flag, in_cohort, of_groups, prop
from tests.unit.projects.world import ONE, TWO, a_project

PROJECT = a_project(ONE)
OTHER = a_project(TWO, token="phc_another")
SOMEBODY = Actor(kind="key", id="k", name="a key", email="owner@example.com")


def keys(snapshot: Snapshot) -> list[str]:
    return [each.flag.key for each in snapshot.everything]


async def seen(board: FlagCache, project: Project = PROJECT) -> list[str]:
    return keys(await board.snapshot(project))


async def test_nothing_is_read_before_somebody_asks() -> None:
    store = ListFlags(a_flag())
    board = a_board(store)
    await board.watch()
    assert board.get_cached(PROJECT) is None
    assert store.calls == []


async def test_a_snapshot_is_read_once_and_then_at_hand() -> None:
    store = ListFlags(a_flag())
    board = a_board(store)
    first = await board.snapshot(PROJECT)
    store.calls.clear()
    assert await board.snapshot(PROJECT) is first
    assert board.get_cached(PROJECT) is first
    assert store.calls == []


async def test_a_project_without_flags_is_read_once_too() -> None:
    store = ListFlags()
    board = a_board(store)
    assert await seen(board) == []
    store.calls.clear()
    assert await seen(board) == []
    await board.watch()
    assert store.calls == ["generations"]


async def test_many_who_ask_first_at_once_share_one_reading() -> None:
    store = ListFlags(a_flag())
    board = a_board(store)
    found = await asyncio.gather(*(board.snapshot(PROJECT) for _ in range(20)))
    assert len({id(each) for each in found}) == 1
    assert store.calls.count("definitions") == 1


async def test_watching_sees_a_change_of_another_process() -> None:
    store = ListFlags(a_flag(id=1))
    board = a_board(store)
    await board.snapshot(PROJECT)
    store.put(a_flag(id=1), a_flag(id=2))
    assert await seen(board) == ["flag-1"]
    await board.watch()
    assert await seen(board) == ["flag-1", "flag-2"]


async def test_watching_costs_one_question_when_nothing_has_changed() -> None:
    store = ListFlags(a_flag())
    store.put(a_flag(), project_id=2)
    board = a_board(store)
    one, two = await board.snapshot(PROJECT), await board.snapshot(OTHER)
    store.calls.clear()
    await board.watch()
    assert store.calls == ["generations"]
    assert (board.get_cached(PROJECT), board.get_cached(OTHER)) == (one, two)


async def test_watching_reads_only_the_project_that_changed() -> None:
    store = ListFlags(a_flag())
    store.put(a_flag(), project_id=2)
    board = a_board(store)
    one, two = await board.snapshot(PROJECT), await board.snapshot(OTHER)
    store.put(project_id=2)
    store.calls.clear()
    await board.watch()
    assert store.calls.count("definitions") == 1
    assert board.get_cached(PROJECT) is one
    assert board.get_cached(OTHER) is not two


async def test_projects_that_nobody_asked_for_are_not_read() -> None:
    store = ListFlags(a_flag())
    board = a_board(store)
    await board.snapshot(PROJECT)
    store.put(a_flag(), project_id=2)
    store.calls.clear()
    await board.watch()
    assert store.calls == ["generations"]


async def test_a_change_of_a_cohort_or_group_type_is_a_new_snapshot() -> None:
    filters = of_groups({"properties": [in_cohort(1)]})
    store = ListFlags()
    store.put(a_flag(filters), cohorts=[a_cohort(1, prop("plan", "pro"))])
    board = a_board(store)
    before = await board.snapshot(PROJECT)
    store.put(a_flag(filters), cohorts=[a_cohort(1, prop("plan", "free"))])
    await board.watch()
    middle = await board.snapshot(PROJECT)
    store.put(a_flag(filters), group_types={"company": 0, "team": 1})
    await board.watch()
    after = await board.snapshot(PROJECT)
    assert len({id(each) for each in (before, middle, after)}) == 3
    assert after.definitions.group_types == {"company": 0, "team": 1}


async def test_what_did_not_change_is_not_compiled_again() -> None:
    store = ListFlags(a_flag(id=1))
    board = a_board(store)
    before = (await board.snapshot(PROJECT)).of("flag-1")
    store.put(a_flag(id=1), a_flag(id=2))
    assert (await board.refreshed(PROJECT)).of("flag-1") is before


async def test_another_time_zone_is_another_snapshot() -> None:
    store = ListFlags(a_flag())
    board = a_board(store)
    await board.snapshot(PROJECT)
    moved = replace(PROJECT, timezone="Asia/Tokyo")
    assert board.get_cached(moved) is None
    assert (await board.snapshot(moved)).definitions.timezone == "Asia/Tokyo"
    assert board.get_cached(moved) is not None


async def test_a_look_that_fails_leaves_the_snapshot_and_the_next_one_catches_up() -> None:
    store = ListFlags(a_flag(id=1))
    board = a_board(store)
    await board.snapshot(PROJECT)
    for call in ("generations", "generation", "definitions"):
        store.put(a_flag(id=1), a_flag(id=2))
        store.away[call] = 1
        with pytest.raises(Unavailable):
            await board.watch()
        assert board.get_cached(PROJECT) is not None
    await board.watch()
    assert await seen(board) == ["flag-1", "flag-2"]


async def test_a_project_that_cannot_be_read_does_not_keep_others_from_being_read() -> None:
    """One turn may fail; what it did not reach is reached by the next."""
    store = ListFlags(a_flag())
    store.put(project_id=2)
    board = a_board(store)
    await board.snapshot(PROJECT)
    await board.snapshot(OTHER)
    store.put(a_flag(id=1), a_flag(id=2))
    store.put(a_flag(id=3), project_id=2)
    store.away["definitions"] = 1
    with pytest.raises(Unavailable):
        await board.watch()
    await board.watch()
    assert await seen(board) == ["flag-1", "flag-2"]
    assert await seen(board, OTHER) == ["flag-3"]


async def test_a_first_look_that_fails_is_told_and_can_be_tried_again() -> None:
    store = ListFlags(a_flag())
    store.away["definitions"] = 1
    board = a_board(store)
    with pytest.raises(Unavailable):
        await board.snapshot(PROJECT)
    assert await seen(board) == ["flag-1"]


async def test_who_writes_a_flag_finds_it_at_once() -> None:
    store = ListFlags()
    board = a_board(store)
    room = Flags(store, board, OpenSealer())
    await board.snapshot(PROJECT)
    made = await room.create(PROJECT, FlagFields(key="new", filters=EVERYBODY), SOMEBODY, START)
    assert await seen(board) == ["new"]
    off = FlagFields(active=False)
    await room.change(PROJECT, made.id, off, seen=None, actor=SOMEBODY, now=START)
    at_hand = board.get_cached(PROJECT)
    assert at_hand is not None
    [flag] = at_hand.definitions.flags
    assert (flag.active, flag.version) == (False, 2)


async def test_who_refreshes_gets_what_was_stored_before_they_asked() -> None:
    """A reading that began before a change must not be what somebody gets who asks after it."""
    store = ListFlags(a_flag(id=1))
    board = a_board(store)
    began = asyncio.create_task(board.refreshed(PROJECT))
    while "definitions" not in store.calls:
        await asyncio.sleep(0)
    store.put(a_flag(id=1), a_flag(id=2))
    assert keys(await board.refreshed(PROJECT)) == ["flag-1", "flag-2"]
    await began
    assert await seen(board) == ["flag-1", "flag-2"]


async def test_a_project_that_cannot_be_read_keeps_no_other_from_being_refreshed() -> None:
    store = ListFlags(a_flag(id=1))
    store.put(a_flag(id=1), project_id=OTHER.id)
    board = a_board(store)
    await seen(board)
    await seen(board, OTHER)
    for project in (PROJECT, OTHER):
        store.put(a_flag(id=1), a_flag(id=2), project_id=project.id)
    store.away["definitions"] = 1
    with pytest.raises(Unavailable):
        await board.watch()
    assert sorted([await seen(board), await seen(board, OTHER)]) == [
        ["flag-1"],
        ["flag-1", "flag-2"],
    ]


def wide(conditions: int) -> Any:
    """Each condition is one value, beside the filters themselves and their list."""
    return of_groups(*({} for _ in range(conditions)))


@pytest.mark.parametrize(
    ("flags", "cohorts", "elsewhere"),
    [
        ([a_flag(wide(INLINE_VALUES - 2))], [], 0),
        ([a_flag(wide(INLINE_VALUES - 1))], [], 1),
        ([a_flag(EVERYBODY, id) for id in range(1, INLINE_VALUES // 3 + 1)], [], 0),
        ([a_flag(EVERYBODY, id) for id in range(1, INLINE_VALUES // 3 + 2)], [], 1),
        ([a_flag(of_groups({"properties": [prop("a", "x" * 100 * INLINE_VALUES)]}))], [], 1),
        ([], [a_cohort(1, {"type": "OR", "values": [prop("a", list(range(INLINE_VALUES)))]})], 1),
    ],
)
async def test_what_is_large_is_compiled_elsewhere(
    flags: list[Flag], cohorts: list[Cohort], elsewhere: int
) -> None:
    sent: list[Any] = []

    async def beside(make: Callable[[], Snapshot]) -> Snapshot:
        sent.append(make)
        return make()

    store = ListFlags()
    store.put(*flags, cohorts=cohorts)
    assert len(await seen(FlagCache(store, beside))) == len(flags)
    assert len(sent) == elsewhere


class OpenSealer:
    def seal(self, value: Any) -> str:
        return str(value)

    def unseal(self, sealed: str) -> Any:
        return sealed
