from datetime import UTC, datetime, timedelta

from hedgerow.projects.model import ProjectId
from hedgerow.queries.cache import MAX_ENTRY_BYTES, OVERHEAD_BYTES, Cache, Freshness, Kept

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PROJECT = ProjectId(1)


def kept(size: int = 2, state: int = 1) -> Kept[bytes]:
    return Kept(answer=b"x" * size, size=size, state=state, at=NOW)


def test_the_cache_holds_no_more_than_fits_and_keeps_what_was_asked_for_last() -> None:
    cache = Cache[bytes](max_bytes=3 * (OVERHEAD_BYTES + 100))
    for name in "abc":
        cache.put((PROJECT, name), kept(100))
    assert cache.get((PROJECT, "a")) is not None
    cache.put((PROJECT, "d"), kept(100))
    assert [name for name in "abcd" if cache.get((PROJECT, name))] == ["a", "c", "d"]


def test_an_answer_replaces_the_one_before_and_its_size() -> None:
    cache = Cache[bytes](max_bytes=2 * (OVERHEAD_BYTES + 100))
    for _ in range(5):
        cache.put((PROJECT, "a"), kept(100))
    cache.put((PROJECT, "b"), kept(100))
    assert cache.get((PROJECT, "a")) is not None
    assert cache.get((PROJECT, "b")) is not None


def test_what_is_too_large_is_not_kept_and_hides_nothing_older() -> None:
    cache = Cache[bytes]()
    cache.put((PROJECT, "a"), kept())
    cache.put((PROJECT, "a"), kept(MAX_ENTRY_BYTES))
    assert cache.get((PROJECT, "a")) is None


def test_projects_have_answers_of_their_own() -> None:
    cache = Cache[bytes]()
    cache.put((PROJECT, "a"), kept())
    assert cache.get((ProjectId(2), "a")) is None


def test_an_answer_is_fresh_while_nothing_changed_and_for_a_while() -> None:
    fresh = Freshness(max_age=timedelta(seconds=60))
    assert fresh.holds(kept(), 1, NOW + timedelta(seconds=59))
    assert not fresh.holds(kept(), 2, NOW)
    assert not fresh.holds(kept(), 1, NOW + timedelta(seconds=60))
