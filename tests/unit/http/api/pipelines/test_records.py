from hedgerow.http.api.pipelines.records import PAGE_KEY_BYTES, PageCache


def test_page_is_found_by_its_key_until_replaced() -> None:
    pages = PageCache()
    assert pages.get("a") is None
    pages.put("a", b"one")
    pages.put("a", b"two")
    assert pages.get("a") == b"two"


def test_least_recently_used_page_is_evicted() -> None:
    pages = PageCache(max_bytes=2 * (PAGE_KEY_BYTES + 10))
    pages.put("a", b"a" * 10)
    pages.put("b", b"b" * 10)
    pages.get("a")
    pages.put("c", b"c" * 10)
    assert [pages.get(key) is not None for key in "abc"] == [True, False, True]


def test_page_larger_than_the_cache_is_not_stored() -> None:
    pages = PageCache(max_bytes=PAGE_KEY_BYTES + 10)
    pages.put("a", b"a" * 11)
    assert pages.get("a") is None


def test_number_of_small_pages_is_bounded() -> None:
    pages = PageCache(max_bytes=10 * PAGE_KEY_BYTES)
    for number in range(1000):
        pages.put(number, b"")
    assert sum(pages.get(number) is not None for number in range(1000)) == 10
