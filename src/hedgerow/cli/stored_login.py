"""The service that `hedgerow login` has chosen, with its key, in the config folder of the user."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from hedgerow.errors import OperatorError

FILE_MODE, FOLDER_MODE = 0o600, 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogin:
    url: str
    key: str


def get_login_path() -> Path:
    """Return $XDG_CONFIG_HOME/hedgerow/login.json, by default below ~/.config."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    root = Path(folder) if os.path.isabs(folder) else Path.home() / ".config"
    return root / "hedgerow" / "login.json"


def read_login() -> StoredLogin | None:
    """Return the stored login, None if there is none."""
    path = get_login_path()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return StoredLogin(url=str(found["url"]), key=str(found["key"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise OperatorError(f"{path} cannot be read. Log in again with `hedgerow login`.") from None


def write_login(login: StoredLogin) -> Path:
    """Store a login, readable by this user only. It replaces the one before."""
    path = get_login_path()
    temporary = path.with_suffix(".new")
    try:
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        with open(temporary, "x", opener=_open_private, encoding="utf-8") as file:
            json.dump(asdict(login), file)
        temporary.replace(path)
    except OSError as error:
        raise OperatorError(f"{path} cannot be written: {error.strerror or error}.") from None
    return path


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


def delete_login() -> StoredLogin | None:
    """Delete the stored login, and return it."""
    found = read_login()
    get_login_path().unlink(missing_ok=True)
    return found
