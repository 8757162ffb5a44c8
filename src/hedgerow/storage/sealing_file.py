"""The keys that seal secrets, in a file beside the data that only its owner can read.

One key per line, the newest first. Losing the file means losing the secrets it sealed.
"""

import contextlib
import os
from pathlib import Path

from hedgerow.errors import Unready
from hedgerow.lib.sealing import SealingKeys, new_sealing_key

NAME = "sealing.key"


def sealing_keys(given: str, folder: Path, *, make: bool = True) -> SealingKeys:
    """The keys that were given, or those of the folder's file, which is made when there is none."""
    path = folder / NAME
    if not given and make:
        _ensure(path)
    source = "HEDGEROW_SEALING_KEYS" if given else str(path)
    try:
        return SealingKeys(given.replace(",", " ").split() or path.read_text().split())
    except ValueError:
        raise Unready(
            f"{source} does not hold sealing keys: each is 32 bytes in URL-safe base64."
        ) from None
    except OSError as error:
        raise Unready(f"The sealing key in {path} cannot be read: {error.strerror}.") from None


def _ensure(path: Path) -> None:
    """Make the file whole or not at all, also when two processes start at once."""
    if path.exists():
        return
    draft = path.with_name(f".{NAME}-{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(new_sealing_key() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    except OSError as error:
        raise Unready(f"The sealing key cannot be kept in {path}: {error.strerror}.") from None
    finally:
        draft.unlink(missing_ok=True)
