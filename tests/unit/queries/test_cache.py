from datetime import UTC, datetime, timedelta

import pytest

from hedgerow.projects.model import ProjectId
from hedgerow.queries.cache import (
    MAX_ENTRY_BYTES,
    OVERHEAD_BYTES,
    CachedResult,
    Freshness,
    ResultCache,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PROJECT = ProjectId(1)


def make_result(size: int = 2, state: int = 1) -> CachedResult[bytes]:
    return CachedResult(result=b"x" * size, size=size, state=state, at=NOW)


def test_cache_is_bounded_and_keeps_recently_used_results() -> None:
    cache = ResultCache[bytes](max_bytes=3 * (OVERHEAD_BYTES + 100))
    for name in "abc":
        cache.put((PROJECT, name), make_result(100))
    assert cache.get((PROJECT, "a")) is not None
    cache.put((PROJECT, "d"), make_result(100))
    assert [name for name in "abcd" if cache.get((PROJECT, name))] == ["a", "c", "d"]


def test_result_replaces_the_previous_one_and_its_size() -> None:
    cache = ResultCache[bytes](max_bytes=2 * (OVERHEAD_BYTES + 100))
    for _ in range(5):
        cache.put((PROJECT, "a"), make_result(100))
    cache.put((PROJECT, "b"), make_result(100))
    assert cache.get((PROJECT, "a")) is not None
    assert cache.get((PROJECT, "b")) is not None


def test_result_that_is_too_large_is_not_cached_and_drops_the_old_one() -> None:
    cache = ResultCache[bytes]()
    cache.put((PROJECT, "a"), make_result())
    cache.put((PROJECT, "a"), make_result(MAX_ENTRY_BYTES))
    assert cache.get((PROJECT, "a")) is None


def test_results_are_separate_for_each_project() -> None:
    cache = ResultCache[bytes]()
    cache.put((PROJECT, "a"), make_result())
    assert cache.get((ProjectId(2), "a")) is None


@pytest.mark.parametrize(
    ("state", "age_s", "is_fresh"), [(1, 59, True), (2, 0, False), (None, 0, False), (1, 60, False)]
)
async def test_result_is_fresh_until_a_change_or_its_maximum_age(
    state: int | None, age_s: int, is_fresh: bool
) -> None:
    async def fetch_state() -> int | None:
        return state

    fresh = Freshness(max_age=timedelta(seconds=60))
    found = await fresh.is_fresh(make_result(), fetch_state, NOW + timedelta(seconds=age_s))
    assert found is is_fresh
