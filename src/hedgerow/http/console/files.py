"""The built files of the console, read once and kept in memory.

`make console` builds them; the wheel contains them. Each exists also compressed, as NAME.br and
NAME.gz, and its name contains a hash of its content.
"""

import asyncio
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hedgerow.lib.threads import run_in_thread

FOLDER = Path(__file__).parent / "static"
SHELL = "index.html"
API_DOCS = "api-docs.html"
# In order of preference.
ENCODINGS = {"br": ".br", "gzip": ".gz"}
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleFile:
    """`compressed` has the content by encoding."""

    media_type: str
    content: bytes
    compressed: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleFiles:
    """`shell` and `api_docs` are HTML pages, None if the console is not built."""

    shell: str | None
    api_docs: str | None
    files: Mapping[str, ConsoleFile]


class ConsoleFileCache:
    """The files, read on first use."""

    def __init__(self) -> None:
        self._files: ConsoleFiles | None = None
        self._lock = asyncio.Lock()

    async def load(self) -> ConsoleFiles:
        async with self._lock:
            if self._files is None:
                self._files = await run_in_thread(read_files)
            return self._files


def read_files(folder: Path = FOLDER) -> ConsoleFiles:
    """Read the built console. Without one, there is no shell and no file."""
    try:
        contents = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    except FileNotFoundError:
        contents = {}
    shell, api_docs = contents.pop(SHELL, None), contents.pop(API_DOCS, None)
    return ConsoleFiles(
        shell=None if shell is None else shell.decode(),
        api_docs=None if api_docs is None else api_docs.decode(),
        files={
            name: ConsoleFile(
                media_type=_find_media_type(name),
                content=content,
                compressed=_select_compressed(contents, name),
            )
            for name, content in contents.items()
            if not name.endswith(tuple(ENCODINGS.values()))
        },
    )


def _find_media_type(name: str) -> str:
    suffix = Path(name).suffix
    guessed = MEDIA_TYPES.get(suffix) or mimetypes.guess_type(name)[0]
    return guessed or "application/octet-stream"


def _select_compressed(contents: Mapping[str, bytes], name: str) -> Mapping[str, bytes]:
    return {
        encoding: contents[name + suffix]
        for encoding, suffix in ENCODINGS.items()
        if name + suffix in contents
    }
