"""Links in responses use the forwarded address of trusted proxies only."""

from pathlib import Path

from tests.support.live import LiveServer

FORWARDED = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "flags.example.com"}


def _next_link(server: LiveServer, headers: dict[str, str]) -> str:
    with server.client() as client:
        assert client.post("/api/projects/", json={"name": "Another"}).status_code == 201
        page = client.get("/api/projects/", params={"limit": 1}, headers=headers).json()
    link = page["next"]
    assert isinstance(link, str)
    return link


def test_forwarded_headers_of_an_untrusted_client_are_ignored(live: LiveServer) -> None:
    assert _next_link(live, FORWARDED) == f"{live.address}/api/projects/?limit=1&offset=1"


def test_forwarded_headers_of_a_trusted_proxy_are_used(tmp_path: Path) -> None:
    with LiveServer(tmp_path, trusted_proxies="10.0.0.0/8,127.0.0.1") as server:
        public = "https://flags.example.com/api/projects/?limit=1&offset=1"
        assert _next_link(server, FORWARDED) == public
        assert _next_link(server, {}) == f"{server.address}/api/projects/?limit=1&offset=1"
