"""The console over HTTP: its page, its files, and what is served without a build."""

import re

import httpx
import pytest

from hedgerow.http.console.files import FOLDER
from tests.support.live import LiveServer

PAGES = (
    "/",
    "/login",
    "/signup/abc",
    "/shared_dashboard/abc",
    "/project/1/feature_flags/12?tab=code",
    "/project/1/",
)
POLICY = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'self' 'nonce-{0}'; "
    "connect-src 'self'; img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; "
    "base-uri 'none'; require-trusted-types-for 'script'"
)


def load(live: LiveServer, path: str, **headers: str) -> httpx.Response:
    with live.client(key=None) as client:
        return client.get(path, headers=headers)


def require_build() -> None:
    if not (FOLDER / "index.html").is_file():
        pytest.skip("the console is not built: run `make console`")


@pytest.mark.parametrize("path", PAGES)
def test_each_page_has_a_policy_with_a_nonce_of_its_own(live: LiveServer, path: str) -> None:
    first, second = load(live, path), load(live, path)
    nonces = re.findall(r'nonce="([^"]+)"', first.text)
    assert first.status_code == 200
    assert first.headers["content-type"] == "text/html; charset=utf-8"
    assert set(nonces) == {nonces[0]}
    assert first.headers["content-security-policy"] == POLICY.format(nonces[0])
    assert nonces[0] not in second.text
    assert first.headers["cache-control"] == "no-store"
    assert first.headers["referrer-policy"] == "same-origin"
    assert first.headers["x-frame-options"] == "DENY"
    assert first.headers["x-content-type-options"] == "nosniff"
    assert "/api/docs/" in first.text


def test_page_without_a_build_says_what_is_missing(live: LiveServer) -> None:
    if (FOLDER / "index.html").is_file():
        pytest.skip("the console is built")
    assert "make console" in load(live, "/").text


def test_files_of_the_page_are_compressed_and_immutable(live: LiveServer) -> None:
    require_build()
    names = re.findall(r'(?:src|href)="(/console/[^"]+)"', load(live, "/").text)
    assert len(names) >= 2
    for name in names:
        plain = load(live, name, **{"Accept-Encoding": "identity"})
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert plain.headers["vary"] == "Accept-Encoding"
        for encoding in ("br", "gzip"):
            packed = load(live, name, **{"Accept-Encoding": encoding})
            assert packed.headers["content-encoding"] == encoding
            assert packed.headers["content-type"] == plain.headers["content-type"]
            assert int(packed.headers["content-length"]) < len(plain.content)


def test_first_load_is_small(live: LiveServer) -> None:
    """The page and the files that it names: the budget of the flag list is 150 KB."""
    require_build()
    page = load(live, "/")
    names = re.findall(r'(?:src|href)="(/console/[^"]+)"', page.text)
    files = [load(live, name, **{"Accept-Encoding": "gzip"}) for name in names]
    size = len(page.content) + sum(int(each.headers["content-length"]) for each in files)
    assert size <= 150_000
    assert len(files) <= 15
