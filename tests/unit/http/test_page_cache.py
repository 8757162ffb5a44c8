from hedgerow.http.page_cache import KEY_BYTES, PageCache


def test_a_page_is_found_by_its_key_until_it_is_replaced() -> None:
    pages = PageCache()
    assert pages.get("a") is None
    pages.put("a", b"one")
    pages.put("a", b"two")
    assert pages.get("a") == b"two"


def test_the_page_that_was_not_used_for_longest_goes_first() -> None:
    pages = PageCache(max_bytes=2 * (KEY_BYTES + 10))
    pages.put("a", b"a" * 10)
    pages.put("b", b"b" * 10)
    pages.get("a")
    pages.put("c", b"c" * 10)
    assert [pages.get(key) is not None for key in "abc"] == [True, False, True]


def test_a_page_larger_than_everything_is_not_kept() -> None:
    pages = PageCache(max_bytes=KEY_BYTES + 10)
    pages.put("a", b"a" * 11)
    assert pages.get("a") is None


def test_many_small_pages_are_bounded_too() -> None:
    pages = PageCache(max_bytes=10 * KEY_BYTES)
    for number in range(1000):
        pages.put(number, b"")
    assert sum(pages.get(number) is not None for number in range(1000)) == 10
