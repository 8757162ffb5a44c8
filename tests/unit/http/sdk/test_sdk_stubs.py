from pathlib import Path
from unittest.mock import MagicMock

import pytest
from starlette.applications import Starlette

from hedgerow.http.auth.access import Authenticator
from hedgerow.http.route_tables import build_routes
from hedgerow.http.sdk.sdk_stubs import ScriptEndpoints
from tests.unit.http.asgi import http_scope, send_request


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "secret.js").write_text("secret")
    directory = tmp_path / "scripts"
    (directory / "1.2.3").mkdir(parents=True)
    (directory / "array.js").write_text("any()")
    (directory / "surveys.js").write_text("any()")
    (directory / "1.2.3" / "surveys.js").write_text("own()")
    (directory / "notes.txt").write_text("notes")
    return directory


async def get(directory: Path, path: str) -> tuple[int, dict[str, str], bytes]:
    table = build_routes(
        [ScriptEndpoints(directory)], Authenticator(MagicMock(), MagicMock(), MagicMock())
    )
    response = await send_request(Starlette(routes=[table]), http_scope("GET", path + "/"))
    return response.status, response.headers, response.body


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/static/array.js", b"any()"),
        ("/static/1.2.3/surveys.js", b"own()"),
        ("/static/9.9.9/surveys.js", b"any()"),
        ("/array/phc_x/array.js", b"any()"),
    ],
)
async def test_script_comes_from_the_directory_of_its_version_or_the_base_directory(
    directory: Path, path: str, body: bytes
) -> None:
    status, headers, found = await get(directory, path)
    assert (status, found) == (200, body)
    assert headers["content-type"].startswith("text/javascript")
    assert headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    "path",
    [
        "/static/none.js",
        "/static/notes.txt",
        "/static/..%2Fsecret.js",
        "/static/../secret.js",
        "/static/.hidden.js",
        "/static/1.2.3/../../secret.js",
        "/static/x\x00.js",
    ],
)
async def test_no_other_file_is_served(directory: Path, path: str) -> None:
    status, _, body = await get(directory, path)
    assert status == 404
    assert b"secret" not in body


@pytest.mark.parametrize("path", ["/static/linked.js", "/static/2.0.0/secret.js"])
async def test_links_out_of_the_directory_are_not_followed(directory: Path, path: str) -> None:
    (directory / "linked.js").symlink_to(directory.parent / "secret.js")
    (directory / "2.0.0").symlink_to(directory.parent)
    status, _, body = await get(directory, path)
    assert status == 404
    assert b"secret" not in body


async def test_links_within_the_directory_are_followed(directory: Path) -> None:
    (directory / "linked.js").symlink_to("array.js")
    (directory / "latest").symlink_to("1.2.3")
    (directory / "loop.js").symlink_to("loop.js")
    assert (await get(directory, "/static/linked.js"))[2] == b"any()"
    assert (await get(directory, "/static/latest/surveys.js"))[2] == b"own()"
    assert (await get(directory, "/static/loop.js"))[0] == 404


async def test_directory_may_be_a_link(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(directory)
    assert (await get(tmp_path / "current", "/static/array.js"))[2] == b"any()"
