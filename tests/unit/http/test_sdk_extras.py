from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from starlette.types import Message

from hedgerow.http import errors
from hedgerow.http.sdk_extras import router


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.js").write_text("secret")
    folder = tmp_path / "scripts"
    (folder / "1.2.3").mkdir(parents=True)
    (folder / "array.js").write_text("any()")
    (folder / "surveys.js").write_text("any()")
    (folder / "1.2.3" / "surveys.js").write_text("own()")
    (folder / "notes.txt").write_text("notes")
    return folder


async def get(folder: Path, path: str) -> tuple[int, dict[bytes, bytes], bytes]:
    api = FastAPI(routes=router.routes)
    api.state.rooms = SimpleNamespace(sdk_scripts=folder)
    errors.install(api)
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    path += "/"  # as the front door passes paths on
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
    }
    await api(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], dict(sent[0]["headers"]), body


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/static/array.js", b"any()"),
        ("/static/1.2.3/surveys.js", b"own()"),
        ("/static/9.9.9/surveys.js", b"any()"),
        ("/array/phc_x/array.js", b"any()"),
    ],
)
async def test_a_script_comes_from_the_folder_of_its_version_or_from_the_folder(
    folder: Path, path: str, body: bytes
) -> None:
    status, headers, found = await get(folder, path)
    assert (status, found) == (200, body)
    assert headers[b"content-type"].startswith(b"text/javascript")
    assert headers[b"access-control-allow-origin"] == b"*"


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
async def test_nothing_else_is_ever_served(folder: Path, path: str) -> None:
    status, _, body = await get(folder, path)
    assert status == 404
    assert b"secret" not in body
