"""Copies of the definitions on disk, from which an edge process starts while its origin is away."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from hedgerow.edge.sources import EdgeSource
from hedgerow.flags.edge.document import EdgeDocument, InvalidDocument, decode_document

FOLDER = "edge"


class StoredCopy(msgspec.Struct, frozen=True, kw_only=True):
    """`saved_at_s` is the Unix time at which the origin confirmed the document."""

    etag: str
    saved_at_s: float
    document: msgspec.Raw


class UnusableCopy(Exception):
    """The file cannot be read, or its content not be used."""


class DocumentCopies:
    """One file per source, readable by its owner only. It has no key of the origin."""

    def __init__(self, data_dir: Path, folder: str = FOLDER) -> None:
        self._folder = data_dir / folder

    def load(self, source: EdgeSource) -> tuple[EdgeDocument, StoredCopy] | None:
        """Return the last document, None if there is none. Raises UnusableCopy."""
        return self._load(self._folder / source.file_name)

    def _load(self, path: Path) -> tuple[EdgeDocument, StoredCopy] | None:
        try:
            copy = msgspec.json.decode(path.read_bytes(), type=StoredCopy)
            return decode_document(bytes(copy.document)), copy
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeError, InvalidDocument) as error:
            raise UnusableCopy(f"{path}: {error}") from None

    def load_all(self) -> Iterator[tuple[EdgeDocument, StoredCopy] | UnusableCopy]:
        """Yield the documents of all sources."""
        for path in sorted(self._folder.glob("*.json")):
            try:
                found = self._load(path)
            except UnusableCopy as error:
                yield error
            else:
                if found is not None:
                    yield found

    def keep_only(self, sources: Iterable[EdgeSource]) -> None:
        """Remove the documents of other sources. Raises OSError."""
        kept = {each.file_name for each in sources}
        for path in self._folder.glob("*.json"):
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def save(self, source: EdgeSource, body: bytes, etag: str, now_s: float) -> None:
        """Replace the copy as a whole: a crash leaves the old or the new one. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / source.file_name
        new = path.with_suffix(f".{os.getpid()}.new")
        copy = StoredCopy(etag=etag, saved_at_s=now_s, document=msgspec.Raw(body))
        try:
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(copy))
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
