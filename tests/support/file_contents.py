"""Search for text in all files of a folder."""

import os
from contextlib import suppress
from pathlib import Path


def read_files(folder: Path) -> str:
    """Files and folders may be removed meanwhile."""
    texts = []
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                texts.append(Path(root, name).read_bytes().decode("latin-1"))
    return "".join(texts)


def find_any_text(texts: list[str], content: str) -> bool:
    """Whether a part of a long text is in the content: files may be written in pieces."""
    return any(text[at : at + 64] in content for text in texts for at in range(0, 8000, 500))
