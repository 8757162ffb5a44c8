"""Asking a running service, with a personal key: for verbs that read what only it can open, and
for those that bring something.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import typer

from hedgerow.cli.options import settings_with
from hedgerow.errors import Invalid, Unready
from hedgerow.settings import Settings

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Where the service is [env HEDGEROW_SERVER_URL; default http://127.0.0.1:8000].",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="A personal key with the scope query:read [env HEDGEROW_PERSONAL_KEY].",
    ),
]
ServiceProjectOption = Annotated[
    int | None, typer.Option("--project", help="The project's id; else the key's first one.")
]

T = TypeVar("T")

EVERYWHERE = ("0.0.0.0", "::", "")
TIMEOUT_S = 60.0
# A service that is busy or away is asked again so often, after so many seconds.
PAUSES_S = (1, 2, 5, 10, 10, 30)


class Away(Unready):
    """The service does not answer at the moment. It may have said after how long to ask again."""

    def __init__(self, text: str, after_s: float = 0) -> None:
        super().__init__(text)
        self.after_s = after_s


def insisted(call: Callable[[], T]) -> T:
    """What a call gives that may be repeated, and is while the service is away."""
    for pause_s in PAUSES_S:
        try:
            return call()
        except Away as away:
            time.sleep(max(pause_s, away.after_s))
    return call()


class Service:
    """One project of a running service."""

    def __init__(self, url: str, key: str, project: int | None = None) -> None:
        self._url = url.rstrip("/")
        self._key = key
        self._base = f"{self._url}/api/projects/{project or '@current'}/"

    def query(
        self, text: str, values: Mapping[str, Any] | None = None, *, fresh: bool = False
    ) -> dict[str, Any]:
        """The answer to a query in HogQL. `fresh`: not one that is kept."""
        query = {"kind": "HogQLQuery", "query": text, "values": dict(values or {})}
        refresh = "force_blocking" if fresh else "blocking"
        answer: dict[str, Any] = self._call("query/", {"query": query, "refresh": refresh})
        return answer

    def _call(self, path: str, body: Any) -> Any:
        return self.ask("POST", path, body)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """What a path of the project answers; None for an empty answer."""
        return self._ask(method, self._base + path, body)

    def capture(self, project_key: str, events: Sequence[Any]) -> list[str]:
        """Send events of some time ago. Why those were refused that were. Away if all should be
        sent again later."""
        batch = {"api_key": project_key, "historical_migration": True, "batch": events}
        refused = self._ask("POST", f"{self._url}/batch/", batch).get("rejected", ())
        return [f"event {each.get('uuid')}: {each.get('detail')}" for each in refused]

    def _ask(self, method: str, url: str, body: Any) -> Any:
        request = Request(  # noqa: S310 - the settings allow http and https only
            url,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - as above
                text = answer.read()
                return json.loads(text) if text else None
        except HTTPError as error:
            raise self._refused(error) from None
        except (URLError, OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise Away(f"{self._url} does not answer: {reason}. Is the service running?") from None

    def _refused(self, error: HTTPError) -> Exception:
        try:
            told = json.load(error)
            detail, code = str(told["detail"]), str(told["code"])
        except (ValueError, KeyError, TypeError, OSError):
            return Away(f"{self._url} answers {error.code} {error.reason}: is it Hedgerow?")
        if error.code == 400:
            return Invalid(detail, code=code, attr=told.get("attr"))
        if error.code >= 500 or error.code == 429:
            said = error.headers.get("Retry-After", "")
            return Away(f"{self._url}: {detail}", float(said) if said.isdecimal() else 0)
        return Unready(f"{self._url}: {detail}")


def service_of(
    server: str | None, key: str | None, project: int | None, scope: str = "query:read"
) -> Service:
    """As options and settings say; Unready if no key is known."""
    settings = service_settings(server, key)
    if not settings.personal_key:
        raise Unready(
            "Say with which key to ask: --key, or HEDGEROW_PERSONAL_KEY. `hedgerow keys create "
            f"--label terminal --scope {scope}` makes one."
        )
    return Service(address(settings), settings.personal_key, project)


def service_settings(server: str | None, key: str | None, data: Path | None = None) -> Settings:
    return settings_with(server_url=server, personal_key=key, data=data)


def address(settings: Settings) -> str:
    host = "127.0.0.1" if settings.host in EVERYWHERE else settings.host
    host = f"[{host}]" if ":" in host else host
    return settings.server_url or f"http://{host}:{settings.port}"
