"""The PostHog project that an import reads from."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self
from urllib.parse import quote, urlsplit

from hedgerow.app import commands
from hedgerow.errors import OperatorError
from hedgerow.importers.posthog import PostHogDefinitions
from hedgerow.lib.clock import utc_now
from hedgerow.pipelines.imports.instance import InstanceError, PostHogInstance, is_instance_url
from hedgerow.pipelines.imports.instance_events import read_events, read_page_here
from hedgerow.plugin.http import TransportError
from hedgerow.plugin.imports import ImportBatch, JobError

PAGE_SIZE = 1000
# Pauses between attempts when the host does not answer.
PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)
# A longer wait is announced.
ANNOUNCED_WAIT_S = 30.0
# The scope that a key needs for each path.
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


class ImportSource:
    """One project of a PostHog instance. Close it by leaving its context."""

    def __init__(self, host: str, key: str, project: str) -> None:
        if "@" in host:
            raise OperatorError(
                "--host must not contain a user name or password: the personal API key is enough."
            )
        if not is_instance_url(host):
            raise OperatorError(
                f"--host {host}: expected a URL that begins with http:// or https://."
            )
        self.host = host.rstrip("/")
        self.name = f"{self.host} project {project}"
        self._http = commands.imports.open_source_client()
        self._runner = asyncio.Runner()
        self._instance = PostHogInstance(
            self.host,
            key,
            quote(project, safe="@"),
            http=self._http,
            sleep=self._wait,
            pauses_s=PAUSES_S,
        )

    async def _wait(self, seconds: float) -> None:
        if seconds > ANNOUNCED_WAIT_S:
            until = datetime.now().astimezone() + timedelta(seconds=seconds)
            print(
                f"{urlsplit(self.host).netloc} asks to wait {seconds / 60:.0f} min, until "
                f"{until:%H:%M:%S}. You can stop with Ctrl-C and run the same command later.",
                file=sys.stderr,
            )
        await asyncio.sleep(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._http.close())
        self._runner.close()

    def fetch_definitions(self) -> PostHogDefinitions:
        return PostHogDefinitions(
            group_types=self._fetch_all("groups_types/"),
            cohorts=self._fetch_all("cohorts/"),
            flags=self._fetch_all("feature_flags/"),
            features=self._fetch_all("early_access_feature/"),
            surveys=self._fetch_all("surveys/"),
            experiments=self._fetch_experiments(),
        )

    def pages(
        self, path: str, start: str | None, **parameters: Any
    ) -> Iterator[tuple[list[Any], str]]:
        """Yield the items of each page with the URL of the next one, from `start` on."""
        url = start or self._instance.url(path, limit=PAGE_SIZE, **parameters)
        while url:
            with self._report_errors(path):
                items, url, _ = self._runner.run(self._instance.page(url))
            yield items, url

    def members(self, cohort: int, start: str | None) -> Iterator[tuple[list[Any], str]]:
        """Yield pages of the persons of a static cohort. Older versions have another path."""
        path = f"cohorts/{cohort}/persons/"
        if start is None and not self._has_path(path):
            return self.pages("persons/", None, cohort=cohort)
        return self.pages(path, start)

    def count(self, path: str, **parameters: Any) -> int | None:
        """Return the number of items in a list; None if the source does not give it."""
        with self._report_errors(path):
            url = self._instance.url(path, limit=1, include_total="true", **parameters)
            return self._runner.run(self._instance.page(url))[2]

    def count_by_query(self, query: str) -> int | None:
        """Return the number that a query selects; None if it fails: the number is only shown."""
        body = {"query": {"kind": "HogQLQuery", "query": query}}
        try:
            answer = self._runner.run(self._instance.post(self._instance.url("query/"), body))
            return int(answer["results"][0][0])
        except (JobError, TransportError, KeyError, IndexError, TypeError, ValueError):
            return None

    def events(self, since: str, cursor: Any) -> Iterator[ImportBatch]:
        """Yield events, oldest first. A complete walk starts again a little before its end."""

        async def fetch_next() -> ImportBatch | None:
            return await anext(portions, None)

        read_page = partial(read_page_here, self._instance)
        portions = read_events(self._instance, since, cursor, utc_now, read_page)
        try:
            while True:
                with self._report_errors("events/"):
                    portion = self._runner.run(fetch_next())
                if portion is None:
                    return
                yield portion
        finally:
            self._runner.run(portions.aclose())

    def _fetch_experiments(self) -> list[Any]:
        """Newer versions leave archived experiments out of the list; older ones include them."""
        listed = self._fetch_all("experiments/")
        archived = self._fetch_all("experiments/", archived="true")
        return listed + [each for each in archived if each not in listed]

    def _fetch_all(self, path: str, **parameters: Any) -> list[Any]:
        """Return all items; none if the source does not have the path."""
        if not self._has_path(path):
            return []
        return [item for items, _ in self.pages(path, None, **parameters) for item in items]

    def _has_path(self, path: str) -> bool:
        with self._report_errors(path):
            try:
                self._runner.run(self._instance.page(self._instance.url(path, limit=1)))
            except InstanceError as refused:
                if refused.status != 404 or path == "feature_flags/":
                    raise
                return False
        return True

    @contextmanager
    def _report_errors(self, path: str) -> Iterator[None]:
        """Turn an error of the source into one that says what to do."""
        host = urlsplit(self.host).netloc
        try:
            yield
        except InstanceError as refused:
            raise OperatorError(_explain_refusal(host, path, refused)) from None
        except (TransportError, JobError) as error:
            raise OperatorError(
                f"{host}: {error} Imported items stay. Run the same command to continue."
            ) from None


def _explain_refusal(host: str, path: str, refused: InstanceError) -> str:
    if refused.status == 401:
        return f"{host} does not accept this personal API key. {refused.detail}".strip()
    if refused.status == 403:
        # Members of a cohort are persons.
        kind = "persons/" if path.endswith("/persons/") else path
        return (
            f"{host}: the personal API key may not read {kind[:-1]}. It needs the scope "
            f"{SCOPES[kind]}. {refused.detail}"
        ).strip()
    if refused.status == 404:
        return f"{host} has no such project, or is not PostHog. Check --host and --project."
    return f"{host}: {refused}"
