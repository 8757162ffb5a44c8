"""The sources of definitions: an origin, a key, and the project that the key opens."""

import hashlib
from dataclasses import dataclass

from hedgerow.http.auth.personal_key import CURRENT
from hedgerow.lib.tokens import hash_token
from hedgerow.projects.model import SECRET_KEY_PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSource:
    """`project` is the id in the path; a secret key opens its own project."""

    url: str
    key: str
    project: str

    @property
    def definitions_path(self) -> str:
        return f"/api/projects/{self.project}/edge/definitions/"

    @property
    def stream_path(self) -> str:
        return f"/api/projects/{self.project}/edge/stream/"

    @property
    def mask(self) -> str:
        """The key in messages."""
        return f"{self.key[:4]}…{self.key[-4:]}"

    @property
    def file_name(self) -> str:
        text = f"{self.url}\n{self.key}\n{self.project}"
        return f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    @property
    def secret_hashes(self) -> tuple[str, ...]:
        """The hash of a secret key, with which server SDKs may call the edge too."""
        return (hash_token(self.key),) if self.key.startswith(SECRET_KEY_PREFIX) else ()


def build_sources(url: str, keys: tuple[str, ...]) -> list[EdgeSource]:
    """Build a source for each key. A personal key may be followed by `:` and a project id."""
    parts = (each.partition(":") for each in keys)
    return [EdgeSource(url=url, key=key, project=project or CURRENT) for key, _, project in parts]
