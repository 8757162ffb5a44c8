"""The file of encryption keys in the data directory, readable only by its owner.

One key per line, the newest first. Without the file, the secrets that it encrypted are lost.
"""

import contextlib
import os
from pathlib import Path

from hedgerow.errors import OperatorError
from hedgerow.lib.encryption import EncryptionKeys, generate_encryption_key

FILE_NAME = "encryption.key"
# The earlier name. Installations that have this file keep using it.
OLD_FILE_NAME = "sealing.key"


def load_encryption_keys(configured: str, folder: Path, *, create: bool = True) -> EncryptionKeys:
    """Return the configured keys, or those of the folder's key file.

    If there is no key file, create one, unless `create` is False.
    """
    path = find_key_file(folder)
    if not configured and create:
        _create_key_file(path)
    source = "HEDGEROW_ENCRYPTION_KEYS" if configured else str(path)
    try:
        return EncryptionKeys(configured.replace(",", " ").split() or path.read_text().split())
    except ValueError:
        raise OperatorError(
            f"{source} does not contain valid encryption keys. Expected 32 bytes in URL-safe "
            "base64 for each key."
        ) from None
    except OSError as error:
        raise OperatorError(
            f"Cannot read the encryption key in {path}: {error.strerror}."
        ) from None


def find_key_file(folder: Path) -> Path:
    """Return the path of the key file, under its old name if only that exists."""
    path, old = folder / FILE_NAME, folder / OLD_FILE_NAME
    return old if old.exists() and not path.exists() else path


def _create_key_file(path: Path) -> None:
    """Create the file atomically, also when two processes start at once."""
    if path.exists():
        return
    draft = path.with_name(f".{FILE_NAME}-{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(generate_encryption_key() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    except OSError as error:
        raise OperatorError(
            f"Cannot write the encryption key to {path}: {error.strerror}."
        ) from None
    finally:
        draft.unlink(missing_ok=True)
