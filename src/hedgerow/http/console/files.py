"""The built files of the console, read once and kept in memory.

`make console` builds them; the wheel contains them. Each exists also compressed, as NAME.br and
NAME.gz, and its name contains a hash of its content.
"""

import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
SHELL = "index.html"
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
    """`shell` is the HTML page, None if the console is not built."""

    shell: str | None
    files: Mapping[str, ConsoleFile]


def read_files(folder: Path = FOLDER) -> ConsoleFiles:
    """Read the built console. Without one, there is no shell and no file."""
    try:
        contents = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    except FileNotFoundError:
        contents = {}
    shell = contents.pop(SHELL, None)
    return ConsoleFiles(
        shell=None if shell is None else shell.decode(),
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
