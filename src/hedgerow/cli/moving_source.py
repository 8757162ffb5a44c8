"""The project that somebody moves away from, asked one thing after the other.

The operator names the host, so it may be in a private network.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Self
from urllib.parse import quote, urlsplit

from hedgerow.errors import Unready
from hedgerow.importers.posthog import Definitions
from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.imports.instance import Instance, RefusedBy, is_address
from hedgerow.pipelines.imports.instance_events import events_of
from hedgerow.pipelines.imports.model import Portion
from hedgerow.pipelines.model import JobProblem
from hedgerow.pipelines.sending import CannotSend
from hedgerow.storage.guard import Guard
from hedgerow.storage.outbound import HttpOutbound

PAGE = 1000
# Where nobody answers, it is asked again after so many seconds.
PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)
# Who is let wait longer is told so.
TOLD_S = 30.0
# What a key needs there, by what is asked for.
SCOPES = {
    "groups_types/": "group:read",
    "groups/": "group:read",
    "cohorts/": "cohort:read",
    "feature_flags/": "feature_flag:read",
    "early_access_feature/": "early_access_feature:read",
    "surveys/": "survey:read",
    "experiments/": "experiment:read",
    "persons/": "person:read",
    "events/": "query:read",
    "query/": "query:read",
}


class Source:
    def __init__(self, host: str, key: str, project: str) -> None:
        if "@" in host:
            raise Unready("--host: leave out name and password. The personal key is all it takes.")
        if not is_address(host):
            raise Unready(f"{host}: an address that begins with http:// or https:// is wanted.")
        self.host = host.rstrip("/")
        self.name = f"{self.host} project {project}"
        self._http = HttpOutbound(Guard(allow_private=True))
        self._runner = asyncio.Runner()
        self._instance = Instance(
            self.host,
            key,
            quote(project, safe="@"),
            http=self._http,
            sleep=self._patiently,
            pauses_s=PAUSES_S,
        )

    async def _patiently(self, seconds: float) -> None:
        if seconds > TOLD_S:
            until = datetime.now().astimezone() + timedelta(seconds=seconds)
            print(
                f"{urlsplit(self.host).netloc} asks for patience: {seconds / 60:.0f} min, until "
                f"{until:%H:%M:%S}. Ctrl-C ends; the same command goes on from here.",
                file=sys.stderr,
            )
        await asyncio.sleep(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._http.close())
        self._runner.close()

    def definitions(self) -> Definitions:
        return Definitions(
            group_types=self._all("groups_types/"),
            cohorts=self._all("cohorts/"),
            flags=self._all("feature_flags/"),
            features=self._all("early_access_feature/"),
            surveys=self._all("surveys/"),
            experiments=self._experiments(),
        )

    def pages(self, path: str, start: str | None, **asked: Any) -> Iterator[tuple[list[Any], str]]:
        """The items of each page, and where the next is; from `start` on, or from the first."""
        url = start or self._instance.url(path, limit=PAGE, **asked)
        while url:
            with self._told(path):
                items, url, _ = self._runner.run(self._instance.page(url))
            yield items, url

    def members(self, cohort: int, start: str | None) -> Iterator[tuple[list[Any], str]]:
        """The persons of a static cohort; older instances have no path of its own for them."""
        path = f"cohorts/{cohort}/persons/"
        if start is None and not self._has(path):
            return self.pages("persons/", None, cohort=cohort)
        return self.pages(path, start)

    def number(self, path: str, **asked: Any) -> int | None:
        """How many there are in a list; None if the list does not say so."""
        with self._told(path):
            url = self._instance.url(path, limit=1, include_total="true", **asked)
            return self._runner.run(self._instance.page(url))[2]

    def counted(self, query: str) -> int | None:
        """The one number that a query gives; None if the key may not ask, or nobody answers it at
        the first time: it is only shown."""
        asked = {"query": {"kind": "HogQLQuery", "query": query}}
        try:
            answer = self._runner.run(self._instance.post(self._instance.url("query/"), asked))
            return int(answer["results"][0][0])
        except (JobProblem, CannotSend, KeyError, IndexError, TypeError, ValueError):
            return None

    def events(self, since: str, cursor: Any) -> Iterator[Portion]:
        """From the oldest on. A walk that is over begins again a little before its end."""

        async def following() -> Portion | None:
            return await anext(portions, None)

        portions = events_of(self._instance, since, cursor, utc_now)
        try:
            while True:
                with self._told("events/"):
                    portion = self._runner.run(following())
                if portion is None:
                    return
                yield portion
        finally:
            self._runner.run(portions.aclose())

    def _experiments(self) -> list[Any]:
        """Newer lists leave archived ones out, older ones have them."""
        listed = self._all("experiments/")
        archived = self._all("experiments/", archived="true")
        return listed + [each for each in archived if each not in listed]

    def _all(self, path: str, **asked: Any) -> list[Any]:
        """Nothing, where the source has never heard of it."""
        if not self._has(path):
            return []
        return [item for items, _ in self.pages(path, None, **asked) for item in items]

    def _has(self, path: str) -> bool:
        with self._told(path):
            try:
                self._runner.run(self._instance.page(self._instance.url(path, limit=1)))
            except RefusedBy as refused:
                if refused.status != 404 or path == "feature_flags/":
                    raise
                return False
        return True

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """What went wrong, in a sentence that says what to do."""
        host = urlsplit(self.host).netloc
        try:
            yield
        except RefusedBy as refused:
            raise Unready(_advice(host, path, refused)) from None
        except (CannotSend, JobProblem) as error:
            raise Unready(
                f"{host}: {error} What is copied stays: the same command goes on from here."
            ) from None


def _advice(host: str, path: str, refused: RefusedBy) -> str:
    if refused.status == 401:
        return f"{host} does not know this personal key. {refused.detail}".strip()
    if refused.status == 403:
        # Members of a cohort are persons.
        kind = "persons/" if path.endswith("/persons/") else path
        return (
            f"{host}: the personal key may not read {kind[:-1]}: it needs the scope "
            f"{SCOPES[kind]}. {refused.detail}"
        ).strip()
    if refused.status == 404:
        return f"{host} has no such project, or is no PostHog: see --host and --project."
    return f"{host}: {refused}"
